package images

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"powercut/images/cache"
	"powercut/images/internal/kerneltest"
	"powercut/images/modules"
	"powercut/images/regular"
	"powercut/images/vmlinux"
)

const release = "6.9.0-test"

func writeFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ownTree is a kernel of one's own: images, and modules as modules_install and
// depmod leave them.
func ownTree(t *testing.T) string {
	t.Helper()
	t.Setenv(cache.Variable, t.TempDir())
	dir := t.TempDir()
	banner := []byte("Linux version " + release + " (x@y) #1\x00")
	kernel := kerneltest.Kernel(elf.EM_X86_64, banner, kerneltest.PVH())
	tree := "lib/modules/" + release + "/"
	writeFiles(t, dir, map[string][]byte{
		"vmlinux":                    kernel,
		"arch/x86/boot/bzImage":      kerneltest.BzImage(release, gzipped(t, kernel), len(kernel)),
		"nopvh":                      kerneltest.Kernel(elf.EM_X86_64, banner),
		"junk":                       []byte("this is not a kernel"),
		".config":                    []byte("CONFIG_DEVMEM=y\n# CONFIG_ATA_PIIX is not set\nCONFIG_EXT4_FS=m\nCONFIG_XFS_FS=y\n"),
		tree + "modules.dep":         []byte("kernel/ext4.ko: kernel/jbd2.ko\nkernel/jbd2.ko:\nkernel/stale.ko:\n"),
		tree + "modules.builtin":     []byte("kernel/sd_mod.ko\n"),
		tree + "kernel/ext4.ko":      kerneltest.Module("vermagic=" + release + " SMP"),
		tree + "kernel/jbd2.ko":      kerneltest.Module("vermagic=" + release + " SMP"),
		tree + "kernel/stale.ko":     kerneltest.Module("vermagic=6.8.0 SMP"),
		"unpacked/modules.order":     nil,
		"unpacked/kernel/only_me.ko": kerneltest.Module("vermagic=" + release),
	})
	return dir
}

func TestLocal(t *testing.T) {
	dir := ownTree(t)
	tests := map[string]struct{ image, modules string }{
		"elf":           {"vmlinux", "lib/modules/" + release},
		"bzImage":       {"arch/x86/boot/bzImage", "."},
		"parent folder": {"vmlinux", "lib/modules"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, err := Local(t.Context(), filepath.Join(dir, tt.image), filepath.Join(dir, tt.modules))
			if err != nil {
				t.Fatal(err)
			}
			if k.Release != release || !strings.HasPrefix(k.ID, "own:"+release+":") {
				t.Errorf("got %+v", k)
			}
			if info, err := vmlinux.Inspect(k.Vmlinux); err != nil || !info.PVH {
				t.Errorf("vmlinux: %+v, %v", info, err)
			}
			paths, err := k.Closure("ext4", "sd_mod")
			if err != nil || len(paths) != 2 || filepath.Base(paths[0]) != "jbd2.ko" {
				t.Errorf("closure: %v, %v", paths, err)
			}
			want := []string{"ata_piix (CONFIG_ATA_PIIX)", "CONFIG_NOPE"}
			got := k.Missing(FeatureOf("ata_piix"), FeatureOf("ext4"), FeatureOf("sd-mod"), FeatureOf("xfs"), DevMem(), Feature{Config: "CONFIG_NOPE"})
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLocalErrors(t *testing.T) {
	dir := ownTree(t)
	tests := map[string]struct {
		image, modules, want string
		is                   error
	}{
		"junk":       {"junk", "", "neither a bzImage nor an ELF", vmlinux.ErrNotKernel},
		"gone":       {"gone", "", "no such file", fs.ErrNotExist},
		"no entry":   {"nopvh", "", "CONFIG_PVH=y", ErrNoPVH},
		"a folder":   {"lib", "", "", regular.ErrNot},
		"no modules": {"vmlinux", "arch", "has no modules of release " + release, nil},
	}
	for name, tt := range tests {
		modulesDir := tt.modules
		if modulesDir != "" {
			modulesDir = filepath.Join(dir, modulesDir)
		}
		_, err := Local(t.Context(), filepath.Join(dir, tt.image), modulesDir)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestClosureErrors(t *testing.T) {
	dir := ownTree(t)
	k, err := Local(t.Context(), filepath.Join(dir, "vmlinux"), dir)
	if err != nil {
		t.Fatal(err)
	}
	var missing *modules.MissingError
	if _, err := k.Closure("ata_piix"); !errors.As(err, &missing) || missing.Name != "ata_piix" || !strings.Contains(err.Error(), release) {
		t.Errorf("missing module: %v", err)
	}
	if _, err := k.Closure("stale"); err == nil || !strings.Contains(err.Error(), "built for release 6.8.0, but the kernel is "+release) {
		t.Errorf("module of another kernel: %v", err)
	}
}

// A folder without depmod's files is read from the modules.
func TestLocalWithoutDepmod(t *testing.T) {
	dir := ownTree(t)
	k, err := Local(t.Context(), filepath.Join(dir, "vmlinux"), filepath.Join(dir, "unpacked"))
	if err != nil {
		t.Fatal(err)
	}
	if paths, err := k.Closure("only-me"); err != nil || len(paths) != 1 {
		t.Errorf("closure: %v, %v", paths, err)
	}
}

// Without modules and configuration nothing can be said to be missing.
func TestAllBuiltIn(t *testing.T) {
	dir := ownTree(t)
	if err := os.Remove(filepath.Join(dir, ".config")); err != nil {
		t.Fatal(err)
	}
	k, err := Local(t.Context(), filepath.Join(dir, "vmlinux"), "")
	if err != nil {
		t.Fatal(err)
	}
	if paths, err := k.Closure("ext4"); err != nil || len(paths) != 0 {
		t.Errorf("closure: %v, %v", paths, err)
	}
	if got := k.Missing(FeatureOf("ata_piix"), DevMem()); len(got) != 0 {
		t.Errorf("missing %v", got)
	}
}

func TestIDFollowsContent(t *testing.T) {
	dir := ownTree(t)
	path := filepath.Join(dir, "vmlinux")
	before, err := Local(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	rebuilt := kerneltest.Kernel(elf.EM_X86_64, []byte("Linux version "+release+" (x@y) #2\x00"), kerneltest.PVH())
	if err := os.WriteFile(path, rebuilt, 0o644); err != nil {
		t.Fatal(err)
	}
	after, err := Local(t.Context(), path, "")
	if err != nil || after.ID == before.ID {
		t.Errorf("a rebuilt kernel is still %s (%v)", after.ID, err)
	}
}

func TestFetchUnknown(t *testing.T) {
	for _, spec := range []string{"debian:2.4", "fedora:6.1", "6.1"} {
		if _, err := Fetch(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "debian:5.10, debian:6.1, debian:6.12") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func TestKeepModule(t *testing.T) {
	for name, want := range map[string]bool{
		"modules.builtin": true, "modules.order": false, "kernel/fs/ext4/ext4.ko": true, "kernel/fs/ext4/ext4.ko.xz": true,
		"kernel/drivers/ata/ata_piix.ko": true, "kernel/drivers/gpu/drm/drm.ko": false, "kernel/fs/notes": false, "other/fs/x.ko": false,
	} {
		if keepModule(name) != want {
			t.Errorf("keepModule(%s) = %v", name, !want)
		}
	}
}
