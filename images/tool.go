package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"powercut/images/cache"
	"powercut/images/debian"
)

const (
	toolKind   = "tool"
	toolSuite  = "bookworm"
	toolLayout = 1
	// FsckPath is where the guest finds the checker, if the initramfs has it.
	FsckPath = "/sbin/e2fsck"
	// BusyboxPath is where the guest finds its shell, if the initramfs has it.
	BusyboxPath = "/bin/busybox"
)

// tool is a statically linked program of a Debian package, for guests.
type tool struct {
	pkg    string
	member string // base name of the program in the package
	file   string // and in the cache entry
}

var (
	e2fsck  = tool{pkg: "e2fsck-static", member: "e2fsck.static", file: "e2fsck"}
	busybox = tool{pkg: "busybox-static", member: "busybox", file: "busybox"}
)

// Fsck returns a statically linked e2fsck for the guest, from Debian's package
// e2fsck-static: put it at FsckPath with FsckEntry. The first call downloads
// it; later ones take it from the cache.
func Fsck(ctx context.Context) (string, error) { return e2fsck.fetch(ctx) }

// FsckEntry returns the initramfs entry for what Fsck has returned.
func FsckEntry(fsck string) File { return File{Name: FsckPath, Path: fsck, Mode: 0o755} }

// Busybox returns a shell with the usual commands for the guest, in one statically
// linked program, from Debian's package busybox-static, as Fsck does.
func Busybox(ctx context.Context) (string, error) { return busybox.fetch(ctx) }

// BusyboxEntry returns the initramfs entry for what Busybox has returned.
func BusyboxEntry(busybox string) File { return File{Name: BusyboxPath, Path: busybox, Mode: 0o755} }

// fetch returns the path of the program in the cache.
func (t tool) fetch(ctx context.Context) (string, error) {
	c, err := cache.Default()
	if err != nil {
		return "", err
	}
	dir, err := c.Entry(ctx, toolKind, t.key(), t.build)
	if err != nil {
		return "", fmt.Errorf("fetch %s for the guest: %w", t.file, err)
	}
	return filepath.Join(dir, t.file), nil
}

func (t tool) key() string {
	return fmt.Sprintf("%s %s %s layout=%d", t.pkg, toolSuite, debian.Architecture, toolLayout)
}

func (t tool) build(ctx context.Context, dir string) error {
	state := filepath.Join(dir, "apt")
	if err := os.Mkdir(state, 0o755); err != nil {
		return err
	}
	apt, err := debian.Setup(ctx, state, toolSuite)
	if err != nil {
		return err
	}
	deb, err := apt.Download(ctx, t.pkg)
	if err != nil {
		return err
	}
	target := filepath.Join(dir, t.file)
	err = debian.Walk(ctx, deb, func(name string, _ int64, r io.Reader) error {
		if path.Base(name) != t.member || !strings.HasSuffix(path.Dir(name), "bin") {
			return nil
		}
		return writeFile(target, r)
	})
	if err != nil {
		return err
	}
	if err := checkStatic(target); err != nil {
		return fmt.Errorf("check %s: %w", t.member, err)
	}
	return errors.Join(os.Chmod(target, 0o755), os.RemoveAll(state))
}
