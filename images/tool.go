package images

import (
	"context"
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
	toolLayout = 4
	// FsckPath and JFSCheckPath are where the guest finds the checkers, if the initramfs
	// has them.
	FsckPath     = "/sbin/e2fsck"
	JFSCheckPath = "/sbin/jfs_fsck"
	// BusyboxPath is where the guest finds its shell, if the initramfs has it.
	BusyboxPath = "/bin/busybox"
)

// part is a file of a Debian package, for guests.
type part struct {
	pkg    string
	member string // the base name of the file in the package, as for path.Match
	path   string // where the guest finds it
}

// tool is a program for guests: linked statically, and alone; or with its libraries.
type tool struct {
	name  string
	parts []part
}

var (
	e2fsck  = tool{"e2fsck", []part{{"e2fsck-static", "e2fsck.static", FsckPath}}}
	busybox = tool{"busybox", []part{{"busybox-static", "busybox", BusyboxPath}}}
	// There is no static one in Debian. The libraries are those that it names, at the
	// places where its loader looks.
	jfsCheck = tool{"jfs_fsck", []part{
		{"jfsutils", "fsck.jfs", JFSCheckPath},
		{"libuuid1", "libuuid.so.1.*", "/lib/x86_64-linux-gnu/libuuid.so.1"},
		{"libc6", "libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"},
		{"libc6", "ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"},
	}}
)

// Checker returns the checker that a guest needs before it mounts a file system of that
// type, as entries of its initramfs: Debian's e2fsck-static or jfsutils. The first call
// downloads it; later ones take it from the cache.
func Checker(ctx context.Context, fstype string) ([]File, error) {
	if fstype == "jfs" {
		return jfsCheck.fetch(ctx)
	}
	return e2fsck.fetch(ctx)
}

// Busybox returns a shell with the usual commands for the guest, from Debian's package
// busybox-static, as Checker does.
func Busybox(ctx context.Context) ([]File, error) { return busybox.fetch(ctx) }

// fetch returns the tool's files, which are in the cache.
func (t tool) fetch(ctx context.Context) ([]File, error) {
	c, err := cache.Default()
	if err != nil {
		return nil, err
	}
	dir, err := c.Entry(ctx, toolKind, t.key(), t.build)
	if err != nil {
		return nil, fmt.Errorf("fetch %s for the guest: %w", t.name, err)
	}
	var out []File
	for _, p := range t.parts {
		out = append(out, File{Name: p.path, Path: filepath.Join(dir, path.Base(p.path)), Mode: 0o755})
	}
	return out, nil
}

func (t tool) key() string {
	return fmt.Sprintf("%s %s %s layout=%d", t.name, toolSuite, debian.Architecture, toolLayout)
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
	for _, p := range t.parts {
		if err := p.unpack(ctx, apt, filepath.Join(dir, path.Base(p.path))); err != nil {
			return err
		}
	}
	if len(t.parts) == 1 {
		if err := checkStatic(filepath.Join(dir, path.Base(t.parts[0].path))); err != nil {
			return fmt.Errorf("check %s: %w", t.name, err)
		}
	}
	return os.RemoveAll(state)
}

// unpack writes the part to a file.
func (p part) unpack(ctx context.Context, apt *debian.Apt, target string) error {
	deb, err := apt.Download(ctx, p.pkg)
	if err != nil {
		return err
	}
	found := false
	err = debian.Walk(ctx, deb, func(name string, _ int64, r io.Reader) error {
		dir := path.Base(path.Dir(name))
		if is, _ := path.Match(p.member, path.Base(name)); found || !is || !strings.HasSuffix(dir, "bin") && !strings.Contains(dir, "linux-gnu") {
			return nil
		}
		found = true
		return writeFile(target, r)
	})
	if err == nil && !found {
		err = fmt.Errorf("package %s has no %s", p.pkg, p.member)
	}
	if err != nil {
		return err
	}
	return os.Chmod(target, 0o755)
}
