// Package images provides what a guest is booted from: kernels and their
// modules, initramfs archives, formatted disks, and a file system checker that
// runs in the guest.
//
// What is costly is kept in the user's cache folder (package cache) and made
// there once. Nothing is installed on the host. Every error of this package
// means that the harness could not do its work; none of them says anything
// about the system under test.
package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"powercut/images/cache"
	"powercut/images/modules"
	"powercut/images/regular"
	"powercut/images/vmlinux"
)

// DefaultKernel is the kernel that a scenario gets if it names none.
const DefaultKernel = "debian:6.1"

// Kernel is a kernel that can be booted: an ELF file with a PVH entry point,
// and the modules that belong to it. Get one from Fetch or Local.
type Kernel struct {
	ID      string // names the content of Vmlinux, for keys: spec, release and hash. Modules are not part of it
	Release string // "6.1.0-57-amd64", as uname -r says it
	Vmlinux string // path of the ELF file
	Modules string // folder with modules.dep and the module files; "" if everything is built in
	Package string // Debian package and version that it comes from; "" for one's own
	// Replaced are modules in place of its own, or in addition to them.
	Replaced []Replacement

	config kernelConfig   // nil if unknown
	index  *modules.Index // of Modules, and Replaced
	suite  string         // of Debian that Package is from; "" for one's own
	own    bool           // from Local: modules may be of another build
}

// ErrNoPVH says that a kernel has no entry point for direct boot.
var ErrNoPVH = errors.New("it has no PVH entry point, so that its ELF file cannot be booted directly: build it with CONFIG_PVH=y")

// Local returns a kernel of the user's own. image is a bzImage, or the ELF
// vmlinux of a build. modulesDir is a folder lib/modules/RELEASE or a tree that
// has it below; "" means that everything needed is built in. The files are used
// where they are, except that the ELF file inside a bzImage is kept in the
// cache.
func Local(ctx context.Context, image, modulesDir string) (Kernel, error) {
	k, err := local(ctx, image, modulesDir)
	if err != nil {
		return Kernel{}, fmt.Errorf("use kernel %s: %w", image, err)
	}
	return k, nil
}

func local(ctx context.Context, image, modulesDir string) (Kernel, error) {
	image, err := filepath.Abs(image)
	if err != nil {
		return Kernel{}, err
	}
	elf, hash, err := elfOf(ctx, image)
	if err != nil {
		return Kernel{}, err
	}
	info, err := vmlinux.Inspect(elf)
	if err != nil {
		return Kernel{}, err
	}
	if !info.PVH {
		return Kernel{}, ErrNoPVH
	}
	k := Kernel{ID: "own:" + info.Release + ":" + hash, Release: info.Release, Vmlinux: elf, own: true}
	if k.Modules, err = findModules(modulesDir, info.Release); err != nil {
		return Kernel{}, err
	}
	if k.index, err = modules.Open(k.Modules); err != nil {
		return Kernel{}, err
	}
	k.config, err = findConfig(info.Config, image, k.Modules, info.Release)
	return k, err
}

// elfOf returns the ELF file of an image, and the hash of the image.
func elfOf(ctx context.Context, image string) (path, hash string, err error) {
	head := make([]byte, 4)
	f, err := regular.Open(image)
	if err != nil {
		return "", "", err
	}
	defer f.Close() //nolint:errcheck // read only
	if _, err := f.ReadAt(head, 0); err != nil {
		return "", "", fmt.Errorf("%w: %w", err, vmlinux.ErrNotKernel)
	}
	if vmlinux.IsELF(head) {
		hash, err = hashFile(image)
		return image, hash, err
	}
	data, err := vmlinux.ReadImage(image)
	if err != nil {
		return "", "", err
	}
	hash = fmt.Sprintf("%016x", xxhash.Sum64(data))
	c, err := cache.Default()
	if err != nil {
		return "", "", err
	}
	dir, err := c.Entry(ctx, "vmlinux", fmt.Sprintf("bzimage-%s-%d", hash, len(data)), func(_ context.Context, tmp string) error {
		kernel, err := vmlinux.Extract(data)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(tmp, "vmlinux"), kernel, 0o644)
	})
	return filepath.Join(dir, "vmlinux"), hash, err
}

// findModules returns the folder of a release's modules: dir itself, or one
// below it.
func findModules(dir, release string) (string, error) {
	if dir == "" {
		return "", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, below := range []string{"lib/modules/" + release, "usr/lib/modules/" + release, release, "."} {
		path := filepath.Join(dir, below)
		for _, mark := range []string{"modules.dep", "modules.order", "modules.builtin", "kernel"} {
			if _, err := os.Stat(filepath.Join(path, mark)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("folder %s has no modules of release %s: give the folder lib/modules/%s that \"make modules_install\" makes", dir, release, release)
}

// Closure returns the module files to load for names, in that order. Names
// that are built in need none. If the kernel lacks one, the error wraps a
// *modules.MissingError.
func (k Kernel) Closure(names ...string) ([]string, error) {
	paths, err := k.index.Closure(names...)
	if err != nil {
		return nil, fmt.Errorf("kernel %s has %w", k.Release, err)
	}
	if !k.own {
		return paths, nil
	}
	for _, path := range paths {
		if err := k.checkRelease(path); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// checkRelease refuses a module of another build: the guest's kernel would.
func (k Kernel) checkRelease(path string) error {
	info, err := modules.FileInfo(path)
	if err != nil {
		return err
	}
	if r := info.Release(); r != k.Release {
		return fmt.Errorf("module %s was built for release %s, but the kernel is %s: rebuild it, or give the modules of this kernel", path, r, k.Release)
	}
	return nil
}

// description is what a fetched kernel's cache entry says about it.
type description struct {
	Release string `json:"release"`
	Package string `json:"package"` // name and version
	Hash    string `json:"hash"`    // of vmlinux
}

const descriptionFile = "kernel.json"

// readEntry returns the kernel in a cache entry.
func readEntry(dir, spec string) (Kernel, error) {
	text, err := os.ReadFile(filepath.Join(dir, descriptionFile))
	if err != nil {
		return Kernel{}, err
	}
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		return Kernel{}, fmt.Errorf("read %s: %w", descriptionFile, err)
	}
	k := Kernel{
		ID:      strings.Join([]string{spec, d.Release, d.Hash}, ":"),
		Release: d.Release,
		Vmlinux: filepath.Join(dir, "vmlinux"),
		Modules: filepath.Join(dir, "modules"),
		Package: d.Package,
	}
	if k.index, err = modules.Open(k.Modules); err != nil {
		return Kernel{}, err
	}
	k.config, err = readConfig(filepath.Join(dir, "config"))
	return k, err
}
