package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"powercut/harness/disk"
	"powercut/harness/internal/sparse"
)

// fsckLimit bounds the examination of one recovered state.
const fsckLimit = 5 * time.Minute

// fsck is the checker that comes with a file system, of this machine: a second opinion on
// what a guest has recovered and taken off again. It never writes.
type fsck struct {
	command []string // the image's name follows
	damaged int      // the bit of an exit code that says that the file system is not sound
	Name    string   // for people
}

// recoveredImage is the name of the image that is examined.
const recoveredImage = "recovered.img"

// fscks are the checkers of file systems that have one, with the Debian package of each
// (e2fsck(8), xfs_repair(8), btrfs-check(8): exit codes).
var fscks = map[string]struct {
	fsck
	pkg string
}{
	"ext":   {fsck{command: []string{"e2fsck", "-fn"}, damaged: 4}, "e2fsprogs"},
	"xfs":   {fsck{command: []string{"xfs_repair", "-n"}, damaged: 1}, "xfsprogs"},
	"btrfs": {fsck{command: []string{"btrfs", "check", "--readonly"}, damaged: 1}, "btrfs-progs"},
}

// FsckError says that there is no second opinion to be had.
type FsckError struct{ Why string }

func (e *FsckError) Error() string { return "second opinion: " + e.Why }

// newFsck finds the checker of a file system.
func newFsck(filesystem string) (*fsck, error) {
	kind := filesystem
	if strings.HasPrefix(kind, "ext") {
		kind = "ext"
	}
	f, ok := fscks[kind]
	if !ok {
		return nil, &FsckError{fmt.Sprintf("none is known for %s; there is one for ext2, ext3, ext4, xfs and btrfs", filesystem)}
	}
	f.Name = strings.Join(f.command, " ")
	path, err := exec.LookPath(f.command[0])
	if err != nil {
		return nil, &FsckError{fmt.Sprintf("%s is not installed (apt-get install %s)", f.command[0], f.pkg)}
	}
	f.command = append([]string{path}, f.command[1:]...)
	return &f.fsck, nil
}

// examine returns what the checker has to say against the file system on a drive of that
// size; "" where that is nothing. The image goes into dir for so long.
func (f *fsck) examine(ctx context.Context, dir string, drive io.ReaderAt, size int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fsckLimit)
	defer cancel()
	path := filepath.Join(dir, recoveredImage)
	image, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("examine recovered state: %w", err)
	}
	defer os.Remove(path)
	err = errors.Join(sparse.Copy(image, io.NewSectionReader(drive, 0, size), size), image.Close())
	if err != nil {
		return "", fmt.Errorf("examine recovered state: %w", err)
	}
	cmd := exec.CommandContext(ctx, f.command[0], append(slices.Clone(f.command[1:]), recoveredImage)...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("examine recovered state: %s: %w", f.Name, context.Cause(ctx))
	case errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode()&f.damaged != 0:
		return complaints(string(out)), nil
	}
	return "", fmt.Errorf("examine recovered state: %s: %w: %s", f.Name, err, complaints(string(out)))
}

// maxComplaints bounds what of a checker's output is passed on, in bytes.
const maxComplaints = 400

// idle begins lines in which a checker says what it does, or what it cannot know.
var idle = []string{"Pass ", "e2fsck ", "Phase ", "- ", "Opening ", "Checking ", "UUID: ", "[", "Cannot get host", "Repair may fail", "the image and the host"}

// closing are words of e2fsck's last lines, which say the same each time.
var closing = []string{"Filesystem still has errors", "non-contiguous)"}

// complaints shortens a checker's output to what it has against the file system.
func complaints(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		begins := func(with string) bool { return strings.HasPrefix(line, with) }
		has := func(words string) bool { return strings.Contains(line, words) }
		if line != "" && !slices.ContainsFunc(idle, begins) && !slices.ContainsFunc(closing, has) {
			lines = append(lines, strings.TrimSuffix(line, "? no"))
		}
	}
	text := strings.Join(lines, "; ")
	if len(text) > maxComplaints {
		text = strings.ToValidUTF8(text[:maxComplaints], "") + " ..."
	}
	return text
}

// recovered is what a guest has made of the state: what it wrote over the media. The guest
// has taken the file system off.
func (d *drive) recovered() io.ReaderAt { return recovered{d} }

type recovered struct{ *drive }

func (r recovered) ReadAt(p []byte, at int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.content(p, at/disk.SectorSize, func(int64) {}); err != nil {
		return 0, err
	}
	return len(p), nil
}
