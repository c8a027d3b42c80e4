package images

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/images/internal/kerneltest"
	"powercut/images/modules"
)

// rebuilt is a tree of a kernel, as ownTree makes it, with modules that a
// developer has built beside it.
func rebuilt(t *testing.T) string {
	dir := ownTree(t)
	magic := "vermagic=" + release + " SMP"
	writeFiles(t, dir, map[string][]byte{
		"ext4.ko":    kerneltest.LinkedModule("own4", "name=ext4", "depends=jbd2,mbcache", magic),
		"mbcache.ko": kerneltest.LinkedModule("mbca", "name=mbcache", magic),
		"jbd2.ko":    kerneltest.LinkedModule("jbd2", "name=jbd2", magic),
		"old.ko":     kerneltest.LinkedModule("old4", "name=ext4", "vermagic=6.8.0 SMP"),
		"flags.ko":   kerneltest.LinkedModule("flag", "name=ext4", "vermagic="+release+" SMP preempt"),
		"nameless":   kerneltest.LinkedModule("none", magic),
		"bare.ko":    kerneltest.Module("name=ext4", magic),
		"sd_mod.ko":  kerneltest.LinkedModule("sdsd", "name=sd_mod", magic),
		"xfs.ko":     kerneltest.LinkedModule("xfsx", "name=xfs", magic),
	})
	return dir
}

func withModules(t *testing.T, dir, modulesDir string, files ...string) (Kernel, error) {
	t.Helper()
	if modulesDir != "" {
		modulesDir = filepath.Join(dir, modulesDir)
	}
	k, err := Local(t.Context(), filepath.Join(dir, "vmlinux"), modulesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if k, err = k.WithModule(filepath.Join(dir, f)); err != nil {
			return k, err
		}
	}
	return k, nil
}

func TestWithModule(t *testing.T) {
	dir := rebuilt(t)
	own := "lib/modules/" + release
	for name, test := range map[string]struct {
		modules     string
		files, want []string
	}{
		"in place":        {own, []string{"ext4.ko", "mbcache.ko"}, []string{own + "/kernel/jbd2.ko", "mbcache.ko", "ext4.ko"}},
		"its dependency":  {own, []string{"jbd2.ko"}, []string{"jbd2.ko", own + "/kernel/ext4.ko"}},
		"no modules":      {"", []string{"ext4.ko"}, []string{"ext4.ko"}},
		"named by a file": {own, []string{"ext4.ko", "mbcache.ko", "nameless"}, []string{own + "/kernel/jbd2.ko", "mbcache.ko", "ext4.ko", "nameless"}},
		"any order":       {"", []string{"ext4.ko", "jbd2.ko"}, []string{"jbd2.ko", "ext4.ko"}},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := withModules(t, dir, test.modules, test.files...)
			if err != nil {
				t.Fatal(err)
			}
			names := []string{"ext4"}
			for _, r := range k.Replaced {
				names = append(names, r.Module)
			}
			got, err := k.Closure(names...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i], _ = filepath.Rel(dir, got[i])
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// What is replaced is told, and the kernel as it was stays.
func TestWithModuleLeavesTheKernel(t *testing.T) {
	dir := rebuilt(t)
	k, err := withModules(t, dir, "lib/modules")
	if err != nil {
		t.Fatal(err)
	}
	with, err := k.WithModule(filepath.Join(dir, "jbd2.ko"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Replacement{{Module: "jbd2", Path: filepath.Join(dir, "jbd2.ko"), BuildID: "6a626432"}}
	if d := cmp.Diff(want, with.Replaced); d != "" {
		t.Error(d)
	}
	paths, err := k.Closure("jbd2")
	if err != nil || len(k.Replaced) != 0 || paths[0] == want[0].Path {
		t.Errorf("the kernel itself has changed: %v, %v, %v", k.Replaced, paths, err)
	}
}

func TestWithModuleRefuses(t *testing.T) {
	dir := rebuilt(t)
	own := "lib/modules/" + release
	for name, test := range map[string]struct {
		modules string
		files   []string
		want    string
	}{
		"another release":  {own, []string{"old.ko"}, "built for release 6.8.0: build it against this kernel"},
		"without modules":  {"", []string{"old.ko"}, "built for release 6.8.0"},
		"other switches":   {own, []string{"flags.ko"}, `its vermagic is "` + release + ` SMP preempt", and that of the kernel's own ext4 is "` + release + ` SMP"`},
		"no build ID":      {own, []string{"bare.ko"}, "no build ID"},
		"built in":         {own, []string{"sd_mod.ko"}, "sd_mod is part of the kernel itself, and cannot be replaced: build the kernel with CONFIG_BLK_DEV_SD=m"},
		"configured so":    {"", []string{"xfs.ko"}, "CONFIG_XFS_FS=m"},
		"two of one name":  {own, []string{"ext4.ko", "ext4.ko"}, "another ext4 is given already"},
		"no module at all": {own, []string{"junk"}, "read module"},
		"not there":        {own, []string{"gone.ko"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withModules(t, dir, test.modules, test.files...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v does not say %q", err, test.want)
			}
			var misfit *MisfitError
			if errors.As(err, &misfit) && misfit.Kernel != release {
				t.Errorf("the error names the kernel %s", misfit.Kernel)
			}
		})
	}
}

// A module in place of one that no guest loads is refused; one that is loaded as a
// dependency is not, nor one that the kernel does not have.
func TestCheckUsed(t *testing.T) {
	dir := rebuilt(t)
	writeFiles(t, dir, map[string][]byte{
		"extra.ko": kerneltest.LinkedModule("xtra", "name=extra", "depends=mbcache", "vermagic="+release+" SMP"),
	})
	own := "lib/modules/" + release
	for name, test := range map[string]struct {
		modules       string
		files, needed []string
		want          string
	}{
		"none":             {own, nil, []string{"ext4"}, ""},
		"used":             {own, []string{"ext4.ko", "mbcache.ko"}, []string{"ext4"}, ""},
		"a dependency":     {own, []string{"jbd2.ko"}, []string{"ext4"}, ""},
		"in addition":      {own, []string{"nameless"}, []string{"jbd2"}, ""},
		"that needs it":    {own, []string{"extra.ko", "mbcache.ko"}, []string{"jbd2"}, ""},
		"not used":         {own, []string{"ext4.ko"}, []string{"jbd2"}, "do not need ext4, and load jbd2; give one of these, or choose a scenario that needs ext4"},
		"known by name":    {"", []string{"ext4.ko"}, []string{"f2fs"}, "do not need ext4, and load none"},
		"one of two":       {own, []string{"jbd2.ko", "ext4.ko"}, []string{"jbd2"}, "do not need ext4, and load jbd2;"},
		"used, no modules": {"", []string{"ext4.ko", "jbd2.ko"}, []string{"ext4"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := withModules(t, dir, test.modules, test.files...)
			if err != nil {
				t.Fatal(err)
			}
			err = k.CheckUsed(test.needed)
			var unused *UnusedError
			if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &unused) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v does not say %q", err, test.want)
			}
		})
	}
}

// Modules of ours are for kernels that come with the sources to build them.
func TestWithVariantRefuses(t *testing.T) {
	k, err := withModules(t, rebuilt(t), "lib/modules")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ext4-2.4-fsync": "kernels of Debian that are named (debian:5.10",
		"ext5":           "it may be one of ext4-2.4-fsync, ext4-fdatasync-commits",
	} {
		_, err := k.WithVariant(t.Context(), name, func(string) { t.Error("something was begun") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", name, err, want)
		}
	}
	k.suite = "bookworm"
	for name, want := range map[string]string{"ext4-2.4-fsync": "it is a patch of Linux 6.1: use debian:6.1, or change ext4", "fsync_range": ""} {
		v, err := modules.FindVariant(name)
		if err != nil {
			t.Fatal(err)
		}
		k := k
		k.Release = "6.12.107-1-amd64"
		if err := k.fits(v); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s for Linux 6.12: error %v does not say %q", name, err, want)
		}
	}
	k.Release, k.config = "6.1.0-1-amd64", kernelConfig{"CONFIG_EXT4_FS": "y"}
	if _, err := k.WithVariant(t.Context(), "ext4-2.4-fsync", func(string) { t.Error("something was begun") }); err == nil || !strings.Contains(err.Error(), "CONFIG_EXT4_FS=m") {
		t.Errorf("ext4 is built in: error %v", err)
	}
}
