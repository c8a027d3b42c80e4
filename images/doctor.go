package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"powercut/images/cache"
	"powercut/images/command"
	"powercut/images/debian"
)

// RoomWanted is the free space that a kernel, disks and templates of booted
// guests need in the cache folder, in bytes.
const RoomWanted = 1 << 30

// Check is the answer to one question about the host.
type Check struct {
	Name   string // what was looked at: "mkfs.ext4", "cache folder"
	OK     bool
	Detail string // what was found: a version, a path, a size, or what is wrong
	Fix    string // command or step that helps; "" if OK
	For    string // what needs it; "" if everything does
}

// CheckTools looks for the programs of the host that this package uses.
func CheckTools(ctx context.Context) []Check {
	var checks []Check
	for _, k := range families {
		for _, fstype := range k.types {
			checks = append(checks, checkMkfs(ctx, k, fstype))
		}
	}
	return append(checks,
		checkVersion(ctx, "apt-get", "kernels from Debian need it: give your own with --kernel"),
		checkVersion(ctx, "dpkg-deb", "apt-get install dpkg"),
		checkMirror())
}

func checkMkfs(ctx context.Context, k family, fstype string) Check {
	c := Check{Name: "mkfs." + fstype, Fix: "apt-get install " + k.pkg}
	if k.pkg != families[0].pkg {
		c.For = "scenarios on " + fstype
	}
	path, err := k.find(fstype)
	if err != nil {
		c.Detail = "not found"
		return c
	}
	version, err := mkfsVersion(ctx, path)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	return Check{Name: c.Name, OK: true, Detail: version + ", " + path}
}

// checkVersion runs "program --version" and keeps the first line.
func checkVersion(ctx context.Context, program, fix string) Check {
	c := Check{Name: program, Fix: fix}
	path, err := exec.LookPath(program)
	if err != nil {
		c.Detail = "not found"
		return c
	}
	text, err := command.Command{Path: path, Args: []string{"--version"}}.Output(ctx)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	line, _, _ := strings.Cut(text, "\n")
	return Check{Name: program, OK: true, Detail: line}
}

// checkMirror says where kernels would be downloaded from, and does not go
// there.
func checkMirror() Check {
	c := Check{Name: "Debian mirror", Fix: "kernels from Debian need it: give your own with --kernel"}
	mirror, err := debian.MachineMirror()
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	return Check{Name: c.Name, OK: true, Detail: mirror.Main}
}

// CheckCache looks at the cache folder: may it be written, and is there room?
func CheckCache() []Check {
	const name = "cache"
	c, err := cache.Default()
	if err != nil {
		return []Check{{Name: name + " folder", Detail: err.Error(), Fix: "export " + cache.Variable + "=FOLDER"}}
	}
	return CheckFolder(name, c.Root, RoomWanted, "export "+cache.Variable+"=FOLDER on another disk")
}

// CheckFolder looks whether a folder, which need not exist yet, may be written,
// and whether there are room bytes free. fix is what helps if not.
func CheckFolder(name, path string, room uint64, fix string) []Check {
	existing := nearest(path)
	folder := Check{Name: name + " folder", OK: true, Detail: path}
	if err := unix.Access(existing, unix.W_OK|unix.X_OK); err != nil {
		folder.OK, folder.Fix = false, fix
		folder.Detail = fmt.Sprintf("%s: %s cannot be written: %v", path, existing, err)
	}
	space := Check{Name: name + " room", Fix: fix}
	free, err := freeSpace(existing)
	switch {
	case err != nil:
		space.Detail = err.Error()
	case free < room:
		space.Detail = fmt.Sprintf("%d MiB free, %d MiB wanted", free>>20, room>>20)
	default:
		space = Check{Name: space.Name, OK: true, Detail: fmt.Sprintf("%d MiB free", free>>20)}
	}
	return []Check{folder, space}
}

// CheckBinary looks whether a program can be the guest's /init.
func CheckBinary(path string) Check {
	c := Check{Name: "static binary", OK: true, Detail: path}
	if err := checkStatic(path); err != nil {
		c.OK, c.Detail, c.Fix = false, fmt.Sprintf("%s: %v", path, err), "scripts/run, or: CGO_ENABLED=0 go build -o bin/powercut ./harness/powercut"
	}
	return c
}

// nearest returns path or the closest folder above it that is there.
func nearest(path string) string {
	for {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}

// freeSpace returns what an ordinary user may still write, in bytes.
func freeSpace(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// CheckKernels says, for each kernel that Fetch knows, whether it is in the
// cache. One that is not is fetched when it is first used.
func CheckKernels() []Check {
	var checks []Check
	c, err := cache.Default()
	for _, spec := range Specs() {
		check := Check{Name: "kernel " + spec, Detail: "not in the cache", Fix: "it is fetched when it is first used"}
		if err != nil {
			check.Detail = err.Error()
		} else if dir, ok := c.Lookup(kernelKind, kernelKey(spec)); ok {
			check = describe(check, dir, spec)
		}
		checks = append(checks, check)
	}
	return checks
}

func describe(check Check, dir, spec string) Check {
	k, err := readEntry(dir, spec)
	if err != nil {
		check.Detail = err.Error()
		return check
	}
	size, err := cache.DiskUsage(dir)
	if err != nil {
		check.Detail = err.Error()
		return check
	}
	return Check{Name: check.Name, OK: true, Detail: fmt.Sprintf("%s, %d modules, %d MiB", k.Package, k.index.Len(), size>>20)}
}
