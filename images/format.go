package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"powercut/images/cache"
	"powercut/images/command"
)

const (
	// MinDisk and MaxDisk bound the size of a disk, in bytes.
	MinDisk = 1 << 20
	MaxDisk = 16 << 40
	// DiskUnit is what a disk's size must be a multiple of, in bytes.
	DiskUnit = 4096

	diskKind    = "disk"
	diskFile    = "disk.img"
	mkfsTimeout = 5 * time.Minute
)

// Fixed values make two runs of one mkfs give the same bytes.
const (
	diskUUID     = "70c0e2a4-6f1d-4d0b-9d5c-0d15c0ffee01"
	diskHashSeed = "70c0e2a4-6f1d-4d0b-9d5c-0d15c0ffee02"
	diskLabel    = "powercut"
	diskTime     = "1577836800" // 2020-01-01, seconds since the epoch
)

// Format says how a disk is formatted.
type Format struct {
	Type    string   // one of Formats
	Size    int64    // bytes; MinDisk to MaxDisk, a multiple of DiskUnit
	Options []string // more options of mkfs, as its arguments: "-O", "^has_journal"
	// Journal is the size of a second disk, which holds the journal of ext3 or ext4, in
	// bytes, a multiple of DiskUnit. The image has it behind the file system's. 0: none.
	Journal int64
}

// Check says what is wrong with f, without making anything.
func (f Format) Check() error {
	if _, err := f.arguments(); err != nil {
		return fmt.Errorf("make %s disk: %w", f.Type, err)
	}
	return nil
}

// MakeFS returns a disk image with a new, empty file system: a sparse,
// read-only file in the cache, made by the host's mkfs. Nobody may ever open it
// for writing; drives put their changes elsewhere. Of the ext family and F2FS it is the same for
// equal formats and one version and configuration of mkfs; those of the others put
// the time into it, or identifiers that are drawn. Digest tells two images apart.
func MakeFS(ctx context.Context, f Format) (string, error) {
	path, err := makeFS(ctx, f)
	if err != nil {
		return "", fmt.Errorf("make %s disk: %w", f.Type, err)
	}
	return path, nil
}

func makeFS(ctx context.Context, f Format) (string, error) {
	args, err := f.arguments()
	if err != nil {
		return "", err
	}
	kind, err := familyOf(f.Type)
	if err != nil {
		return "", err
	}
	mkfs, err := kind.find(f.program())
	if err != nil {
		return "", err
	}
	version, err := mkfsVersion(ctx, mkfs)
	if err != nil {
		return "", err
	}
	config := "none"
	if kind.config != nil {
		if config, err = kind.config(); err != nil {
			return "", err
		}
	}
	c, err := cache.Default()
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %d %q %s config=%s", f.Type, f.Size, args, version, config)
	if f.Journal > 0 {
		key += fmt.Sprintf(" journal=%d", f.Journal)
	}
	dir, err := c.Entry(ctx, diskKind, key, func(ctx context.Context, tmp string) error {
		return f.build(ctx, mkfs, args, filepath.Join(tmp, diskFile))
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, diskFile), nil
}

// program is the type after which the mkfs is called that makes f.
func (f Format) program() string {
	if f.Journal > 0 {
		return "ext4"
	}
	return f.Type
}

// build runs mkfs on a new sparse file.
func (f Format) build(ctx context.Context, mkfs string, args []string, path string) error {
	if err := createSized(path, f.Size); err != nil {
		return err
	}
	if err := runFixed(ctx, mkfs, append(slices.Clone(args), path)...); err != nil {
		return err
	}
	if f.Journal > 0 {
		if err := f.addJournal(ctx, mkfs, path); err != nil {
			return err
		}
	}
	return f.checkMade(path)
}

// createSized makes a new sparse file.
func createSized(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		return fmt.Errorf("make file of %d bytes: %w", size, err)
	}
	return nil
}

// runFixed runs mkfs, or another tool of the same package, at a fixed time.
func runFixed(ctx context.Context, path string, args ...string) error {
	return command.Command{
		Path: path,
		Args: args,
		// e2fsprogs takes the time from these: the first in all versions in
		// use, the second since 1.47.1.
		Env:     []string{"E2FSPROGS_FAKE_TIME=" + diskTime, "SOURCE_DATE_EPOCH=" + diskTime},
		Timeout: mkfsTimeout,
	}.Run(ctx)
}

// checkMade looks at the superblock: mkfs succeeds also where it was told to
// make nothing (-n), and where it found no room for a journal.
func (f Format) checkMade(path string) error {
	kind, err := familyOf(f.Type)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read only
	magic := make([]byte, len(kind.magic))
	if _, err := file.ReadAt(magic, kind.magicAt); err != nil {
		return err
	}
	if string(magic) != kind.magic {
		return errors.New("mkfs succeeded but left no file system: check the options")
	}
	if kind.check == nil {
		return nil
	}
	return kind.check(f, file)
}

// Digest names the content of an image: equal for equal ones.
func Digest(path string) (string, error) { return cache.HashFile(path) }

// wantsJournal reports whether a missing journal would be a surprise.
func (f Format) wantsJournal() bool {
	all := strings.Join(f.Options, " ")
	return f.Type == "ext3" || f.Type == "ext4" && !strings.Contains(all, "has_journal") && !strings.Contains(all, "none")
}

// findMkfs looks in PATH, and where PATH of an ordinary user does not lead.
func (k family) find(fstype string) (string, error) { return k.findTool("mkfs." + fstype) }

// findTool does the same for another tool of the package.
func (k family) findTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: install the package %s", name, k.pkg)
}

// mkfsVersion returns the first line of "mkfs.ext4 -V": "mke2fs 1.47.0
// (5-Feb-2023)", which goes to standard error; that of others to standard output.
func mkfsVersion(ctx context.Context, mkfs string) (string, error) {
	var text bytes.Buffer
	out, err := command.Command{Path: mkfs, Args: []string{"-V"}, Stderr: &text}.Output(ctx)
	if err != nil {
		return "", fmt.Errorf("ask for version: %w", err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text.String()+out), "\n")
	return line, nil
}

// mke2fsConfig returns the hash of the file that sets mkfs's defaults
// (mke2fs.conf(5)), or "none".
func mke2fsConfig() (string, error) {
	path := os.Getenv("MKE2FS_CONFIG")
	if path == "" {
		path = "/etc/mke2fs.conf"
	}
	hash, err := hashFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "none", nil
	}
	return hash, err
}
