package images

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"powercut/images/cache"
	"powercut/images/debian"
	"powercut/images/modules"
	"powercut/images/vmlinux"
)

const (
	kernelKind = "kernel"
	// kernelLayout changes when what is kept of a package changes, so that
	// older entries are not taken for new ones.
	kernelLayout = 1
	debianPrefix = "debian:"
	// keepLimit bounds one module or image that is kept, in bytes.
	keepLimit = 512 << 20
)

// debianKernel is a kernel that Debian ships, and the suite that has it.
type debianKernel struct {
	name    string // after the prefix
	version string // empty: whatever the suite has
	suite   string
}

func debianKernels() []debianKernel {
	return []debianKernel{{"5.10", "5.10", "bullseye"}, {"6.1", "6.1", "bookworm"}, {"6.12", "6.12", "trixie"}, {"newest", "", "sid"}}
}

// keptFolders are the parts of a package's module tree that a storage test can
// need. The rest, some 240 MB of drivers for hardware that no guest has, stays
// out.
func keptFolders() []string {
	return []string{
		"arch/", "block/", "crypto/", "fs/", "lib/", "mm/", "net/9p/", "net/dns_resolver/", "net/sunrpc/",
		"drivers/ata/", "drivers/base/", "drivers/block/", "drivers/cdrom/", "drivers/char/",
		"drivers/crypto/virtio/", "drivers/dax/", "drivers/md/", "drivers/message/", "drivers/mmc/",
		"drivers/mtd/", "drivers/nvdimm/", "drivers/nvme/", "drivers/scsi/", "drivers/target/", "drivers/virtio/",
	}
}

// Specs lists what Fetch takes.
func Specs() []string {
	var specs []string
	for _, k := range debianKernels() {
		specs = append(specs, debianPrefix+k.name)
	}
	return specs
}

// Fetch returns the kernel that spec names: "debian:5.10", "debian:6.1",
// "debian:6.12", or "debian:newest", that of sid; "" is DefaultKernel. The first call
// downloads the newest package of that version; later ones take it from the cache, also
// without a network.
func Fetch(ctx context.Context, spec string) (Kernel, error) {
	if spec == "" {
		spec = DefaultKernel
	}
	source, err := parseSpec(spec)
	if err != nil {
		return Kernel{}, err
	}
	c, err := cache.Default()
	if err != nil {
		return Kernel{}, err
	}
	dir, err := c.Entry(ctx, kernelKind, kernelKey(spec), source.build)
	if err != nil {
		return Kernel{}, fmt.Errorf("fetch kernel %s (--kernel takes one of your own): %w", spec, err)
	}
	k, err := readEntry(dir, spec)
	if err != nil {
		return Kernel{}, fmt.Errorf("read kernel %s from the cache folder %s: %w", spec, dir, err)
	}
	k.suite = source.suite
	return k, nil
}

func kernelKey(spec string) string {
	return fmt.Sprintf("%s %s layout=%d", spec, debian.Architecture, kernelLayout)
}

// CheckSpec says what is wrong with the name of a kernel that Fetch would take.
func CheckSpec(spec string) error {
	_, err := parseSpec(spec)
	return err
}

func parseSpec(spec string) (debianKernel, error) {
	for _, k := range debianKernels() {
		if spec == debianPrefix+k.name {
			return k, nil
		}
	}
	return debianKernel{}, fmt.Errorf("unknown kernel %q: it may be one of %s", spec, strings.Join(Specs(), ", "))
}

// build fills a cache entry with the newest package of the kernel.
func (d debianKernel) build(ctx context.Context, dir string) error {
	state := filepath.Join(dir, "apt")
	if err := os.Mkdir(state, 0o755); err != nil {
		return err
	}
	apt, err := debian.Setup(ctx, state, d.suite)
	if err != nil {
		return err
	}
	name, err := apt.Kernel(ctx, d.version)
	if err != nil {
		return err
	}
	debs, err := download(ctx, apt, name)
	if err != nil {
		return err
	}
	version, err := debian.Field(ctx, debs[0], "Version")
	if err != nil {
		return err
	}
	if err := unpackKernel(ctx, debs, dir, name+" "+version); err != nil {
		return err
	}
	return os.RemoveAll(state)
}

// download fetches a kernel's package, and those that hold its parts: since Linux 7
// Debian's linux-image is empty, and depends on linux-binary, linux-base and
// linux-modules of the same release.
func download(ctx context.Context, apt *debian.Apt, name string) ([]string, error) {
	deb, err := apt.Download(ctx, name)
	if err != nil {
		return nil, err
	}
	depends, err := debian.Field(ctx, deb, "Depends")
	if err != nil {
		return nil, err
	}
	debs := []string{deb}
	for _, kind := range []string{"linux-binary-", "linux-base-", "linux-modules-"} {
		part := kind + strings.TrimPrefix(name, "linux-image-")
		if !strings.Contains(depends, part) {
			continue
		}
		if deb, err = apt.Download(ctx, part); err != nil {
			return nil, err
		}
		debs = append(debs, deb)
	}
	return debs, nil
}

// unpackKernel takes from a kernel's packages what a guest can need.
func unpackKernel(ctx context.Context, debs []string, dir, pkg string) error {
	var image []byte
	var release string
	take := func(name string, _ int64, r io.Reader) (err error) {
		in := path.Base(path.Dir(name)) // of what lies in lib/modules/RELEASE, the release
		switch {
		case strings.HasPrefix(name, "boot/vmlinuz-"):
			release = strings.TrimPrefix(name, "boot/vmlinuz-")
			image, err = io.ReadAll(io.LimitReader(r, vmlinux.MaxImage))
		case name == "lib/modules/"+in+"/vmlinuz":
			release = in
			image, err = io.ReadAll(io.LimitReader(r, vmlinux.MaxImage))
		case strings.HasPrefix(name, "boot/config-"), name == "lib/modules/"+in+"/config":
			err = writeFile(filepath.Join(dir, "config"), r)
		case strings.HasPrefix(name, "lib/modules/"):
			err = takeModule(dir, name, r)
		}
		return err
	}
	for _, deb := range debs {
		if err := debian.Walk(ctx, deb, take); err != nil {
			return err
		}
	}
	if image == nil {
		return fmt.Errorf("package %s has no vmlinuz", pkg)
	}
	index, err := modules.Open(filepath.Join(dir, "modules"))
	if err != nil {
		return err
	}
	if err := index.Write(); err != nil {
		return err
	}
	return finishKernel(dir, image, description{Release: release, Package: pkg})
}

// takeModule keeps lib/modules/RELEASE/kernel/… and modules.builtin,
// decompressed.
func takeModule(dir, name string, r io.Reader) error {
	_, rel, ok := strings.Cut(strings.TrimPrefix(name, "lib/modules/"), "/")
	if !ok || !keepModule(rel) {
		return nil
	}
	plain, err := modules.Decompress(rel, r)
	if err != nil {
		return fmt.Errorf("decompress %s: %w", rel, err)
	}
	defer plain.Close() //nolint:errcheck // read only
	return writeFile(filepath.Join(dir, "modules", modules.Plain(rel)), plain)
}

func keepModule(rel string) bool {
	if rel == "modules.builtin" {
		return true
	}
	below, ok := strings.CutPrefix(rel, "kernel/")
	if !ok || !modules.IsModule(rel) {
		return false
	}
	for _, folder := range keptFolders() {
		if strings.HasPrefix(below, folder) {
			return true
		}
	}
	return false
}

// finishKernel extracts the ELF file and writes the description.
func finishKernel(dir string, image []byte, d description) error {
	kernel, err := vmlinux.Extract(image)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "vmlinux")
	if err := os.WriteFile(path, kernel, 0o644); err != nil {
		return err
	}
	info, err := vmlinux.Inspect(path)
	if err != nil {
		return err
	}
	if !info.PVH {
		return ErrNoPVH
	}
	d.Hash = fmt.Sprintf("%016x", xxhash.Sum64(kernel))
	text, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, descriptionFile), append(text, '\n'), 0o644)
}

// writeFile makes a file and the folders above it.
func writeFile(path string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, keepLimit+1))
	if err == nil && n > keepLimit {
		err = fmt.Errorf("%s is over %d bytes", path, keepLimit)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Hashes names module files with the hashes of their content, as Local and Fetch
// hash kernels: ext4=0123456789abcdef.
func Hashes(files []string) ([]string, error) {
	var out []string
	for _, path := range files {
		hash, err := hashFile(path)
		if err != nil {
			return nil, fmt.Errorf("hash module: %w", err)
		}
		out = append(out, modules.Normal(filepath.Base(path))+"="+hash)
	}
	return out, nil
}

// hashFile returns the xxhash of a whole file.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	h := xxhash.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return fmt.Sprintf("%016x", h.Sum64()), nil
}
