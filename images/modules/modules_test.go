package modules

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"pgregory.net/rapid"

	"powercut/images/internal/kerneltest"
)

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// depmod is a small tree as depmod describes it.
func depmod() map[string]string {
	return map[string]string{
		"modules.builtin": "kernel/lib/crc16.ko\nkernel/lib/crc32.ko\nkernel/drivers/virtio/virtio-ring.ko\n",
		"modules.dep": "kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/fs/mbcache.ko.xz\n" +
			"kernel/fs/jbd2/jbd2.ko.xz:\nkernel/fs/mbcache.ko.xz:\n" +
			"kernel/crypto/crc32c_generic.ko.xz:\nkernel/arch/x86/crypto/crc32c-intel.ko.xz:\n" +
			"kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio-pci-modern.ko.xz\n" +
			"kernel/drivers/virtio/virtio-pci-modern.ko.xz:\n" +
			"kernel/fs/f2fs/f2fs.ko.xz:\nkernel/crypto/crc32_generic.ko.xz:\n" +
			"kernel/broken.ko: kernel/absent.ko\nkernel/a.ko: kernel/b.ko\nkernel/b.ko: kernel/a.ko\n",
		"modules.softdep": "# Soft dependencies\nsoftdep ext4 pre: crc32c\nsoftdep jbd2 pre: nothing-there\nsoftdep virtio_pci post: mbcache\nsoftdep gone pre: a\nsoftdep f2fs pre: crc32\n",
		"modules.alias":   "# Aliases\nalias crc32c crc32c_intel\nalias crc32c crc32c_generic\nalias pci:v*d* virtio_pci\nalias crypto-crc32 crc32_generic\n",
	}
}

func TestClosure(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, depmod())
	x, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ names, want []string }{
		"nothing":      {nil, nil},
		"leaf":         {[]string{"mbcache"}, []string{"kernel/fs/mbcache.ko.xz"}},
		"built in":     {[]string{"crc16", "virtio_ring", "virtio-ring"}, nil},
		"soft and not": {[]string{"ext4"}, []string{"kernel/crypto/crc32c_generic.ko.xz", "kernel/fs/jbd2/jbd2.ko.xz", "kernel/fs/mbcache.ko.xz", "kernel/fs/ext4/ext4.ko.xz"}},
		"algorithm":    {[]string{"f2fs"}, []string{"kernel/crypto/crc32_generic.ko.xz", "kernel/fs/f2fs/f2fs.ko.xz"}}, // a library of that name is built in
		"dashes":       {[]string{"virtio-pci"}, []string{"kernel/drivers/virtio/virtio-pci-modern.ko.xz", "kernel/drivers/virtio/virtio_pci.ko.xz", "kernel/fs/mbcache.ko.xz"}},
		"twice":        {[]string{"mbcache", "jbd2", "mbcache.ko"}, []string{"kernel/fs/mbcache.ko.xz", "kernel/fs/jbd2/jbd2.ko.xz"}},
		"circle":       {[]string{"a"}, []string{"kernel/b.ko", "kernel/a.ko"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := x.Closure(tt.names...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i], _ = filepath.Rel(dir, got[i])
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	for name, want := range map[string]MissingError{
		"no-such": {Name: "no_such"}, "broken": {Name: "absent", NeededBy: "broken"},
	} {
		_, err := x.Closure("ext4", name)
		var missing *MissingError
		if !errors.As(err, &missing) || *missing != want {
			t.Errorf("%s: error %v, want %v", name, err, want.Error())
		}
	}
}

func TestHas(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, depmod())
	x, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"ext4": true, "crc16": true, "virtio-pci-modern": true, "crc32c-intel": true, "xfs": false} {
		if x.Has(name) != want {
			t.Errorf("Has(%s) = %v", name, !want)
		}
	}
	none, err := Open("")
	if err != nil || none.Has("ext4") || none.Len() != 0 {
		t.Errorf("no folder: %v, %v", none, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no colon": {"modules.dep": "kernel/a.ko\n"},
		"outside":  {"modules.dep": "/etc/a.ko: \n"},
		"climbing": {"modules.dep": "../../a.ko:\n"},
		"no ELF":   {"kernel/a.ko": "junk"},
		"bad xz":   {"kernel/a.ko.xz": "junk"},
	} {
		dir := t.TempDir()
		write(t, dir, files)
		if _, err := Open(dir); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "gone")); err == nil {
		t.Error("a folder that is not there was accepted")
	}
}

// The order is right for any graph of dependencies, and complete, and nothing
// that is not needed is in it.
func TestClosureOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "modules")
		name := func(i int) string { return fmt.Sprintf("m%d", i) }
		x := &Index{modules: map[string]module{}, builtin: map[string]bool{}}
		needs := map[string][]string{}
		for i := range n {
			m := module{path: name(i) + ".ko"}
			for j := range i {
				if rapid.Bool().Draw(t, "dep") {
					m.deps = append(m.deps, name(j))
				}
			}
			x.modules[name(i)] = m
			needs[name(i)] = m.deps
		}
		wanted := name(rapid.IntRange(0, n-1).Draw(t, "wanted"))
		paths, err := x.Closure(wanted)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for i, p := range paths {
			at[Normal(p)] = i
		}
		if len(at) != len(paths) {
			t.Fatalf("a module is loaded twice: %v", paths)
		}
		reached := map[string]bool{}
		var visit func(m string)
		visit = func(m string) {
			reached[m] = true
			for _, d := range needs[m] {
				if i, ok := at[d]; !ok || i >= at[m] {
					t.Fatalf("%s is not loaded before %s: %v", d, m, paths)
				}
				if !reached[d] {
					visit(d)
				}
			}
		}
		visit(wanted)
		if len(reached) != len(paths) {
			t.Fatalf("needed %v, loaded %v", reached, paths)
		}
	})
}

func pack(t *testing.T, data []byte, open func(io.Writer) (io.WriteCloser, error)) string {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A tree without depmod's files is read from the modules, however they are
// compressed, and what Write leaves is read alike.
func TestScanAndWrite(t *testing.T) {
	dir := t.TempDir()
	fs := kerneltest.Module("alias=fs-a", "depends=lib-b,core", "softdep=pre: sum", "vermagic=6.9 SMP")
	sum := kerneltest.Module("alias=sum", "alias=crypto-sum", "alias=pci:v1*", "depends=")
	write(t, dir, map[string]string{
		"modules.builtin":    "kernel/core.ko\n",
		"kernel/a.ko":        string(fs),
		"kernel/lib-b.ko.xz": pack(t, kerneltest.Module("depends="), func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) }),
		"kernel/sum_generic.ko.zst": pack(t, sum, func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w)
		}),
		"kernel/sum_fast.ko.gz": pack(t, sum, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }),
		"kernel/notes.txt":      "not a module",
	})
	check := func(step string) {
		x, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Closure("a")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range got {
			names = append(names, filepath.Base(p))
			data, err := Load(p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ReadInfo(data); err != nil {
				t.Error(err)
			}
		}
		if want := []string{"sum_generic.ko.zst", "lib-b.ko.xz", "a.ko"}; !slices.Equal(names, want) {
			t.Errorf("%s: got %v, want %v", step, names, want)
		}
		if x.Len() != 4 {
			t.Errorf("%s: %d modules", step, x.Len())
		}
		if step == "scan" {
			if err := x.Write(); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("scan")
	check("files")
}

func TestReadInfo(t *testing.T) {
	got, err := ReadInfo(kerneltest.Module("alias=x", "depends=jbd2,mb-cache", "softdep=pre: crc32c", "vermagic=6.9.0-test SMP preempt"))
	want := Info{Depends: []string{"jbd2", "mb_cache"}, Softdeps: []string{"pre: crc32c"}, Aliases: []string{"x"}, Vermagic: "6.9.0-test SMP preempt"}
	if err != nil || got.Release() != "6.9.0-test" {
		t.Fatalf("release %q, %v", got.Release(), err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// What is no module is told so, with what is one.
func TestReadInfoRefuses(t *testing.T) {
	whole := kerneltest.Module("name=x")
	foreign := slices.Clone(whole)
	foreign[18] = byte(elf.EM_AARCH64) // e_machine
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":       {nil, "the file is empty: it is no kernel module"},
		"text":        {[]byte("root:x:0:0:root:/root:/bin/sh\n" + strings.Repeat("x", 100)), "it is no kernel module"},
		"a few bytes": {whole[:10], "it is cut short or damaged"},
		"cut short":   {whole[:len(whole)/2], "it is cut short or damaged"},
		"foreign":     {foreign, "EM_AARCH64"},
		"a program":   {kerneltest.Program(false), "ET_EXEC"},
	} {
		if _, err := ReadInfo(test.data); !errors.Is(err, ErrNotModule) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v does not say %q", name, err, test.want)
		}
	}
}
