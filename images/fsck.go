package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"powercut/images/cache"
	"powercut/images/debian"
)

const (
	toolKind   = "tool"
	fsckSuite  = "bookworm"
	fsckFile   = "e2fsck"
	fsckLayout = 1
)

// Fsck returns a statically linked e2fsck for the guest, from Debian's package
// e2fsck-static: put it at FsckPath with FsckEntry. The first call downloads
// it; later ones take it from the cache.
func Fsck(ctx context.Context) (string, error) {
	c, err := cache.Default()
	if err != nil {
		return "", err
	}
	dir, err := c.Entry(ctx, toolKind, fsckKey(), buildFsck)
	if err != nil {
		return "", fmt.Errorf("fetch e2fsck for the guest: %w", err)
	}
	return filepath.Join(dir, fsckFile), nil
}

// FsckEntry returns the initramfs entry for what Fsck has returned.
func FsckEntry(fsck string) File { return File{Name: FsckPath, Path: fsck, Mode: 0o755} }

func fsckKey() string {
	return fmt.Sprintf("e2fsck-static %s %s layout=%d", fsckSuite, debian.Architecture, fsckLayout)
}

func buildFsck(ctx context.Context, dir string) error {
	state := filepath.Join(dir, "apt")
	if err := os.Mkdir(state, 0o755); err != nil {
		return err
	}
	apt, err := debian.Setup(ctx, state, fsckSuite)
	if err != nil {
		return err
	}
	deb, err := apt.Download(ctx, "e2fsck-static")
	if err != nil {
		return err
	}
	target := filepath.Join(dir, fsckFile)
	err = debian.Walk(ctx, deb, func(name string, _ int64, r io.Reader) error {
		if path.Base(name) != "e2fsck.static" {
			return nil
		}
		return writeFile(target, r)
	})
	if err != nil {
		return err
	}
	if err := checkStatic(target); err != nil {
		return fmt.Errorf("check e2fsck.static: %w", err)
	}
	return errors.Join(os.Chmod(target, 0o755), os.RemoveAll(state))
}
