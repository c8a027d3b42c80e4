package kbuild

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"powercut/images/cache"
	"powercut/images/modules"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func needTools(t *testing.T) {
	t.Helper()
	if err := CheckTools(); err != nil {
		t.Skip(err)
	}
}

// The headers' makefile leads to where they were unpacked, and nowhere else.
func TestMoveHeaders(t *testing.T) {
	w := workshop{dir: t.TempDir(), release: "6.1.0-1-amd64"}
	path := filepath.Join(w.headers(), "Makefile")
	write(t, path, "include /usr/src/linux-headers-6.1.0-1-common/Makefile\n")
	if err := w.moveHeaders("/new"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := "include /new/usr/src/linux-headers-6.1.0-1-common/Makefile\n"; err != nil || string(text) != want {
		t.Errorf("makefile says %q, want %q (%v)", text, want, err)
	}
}

// A patch fits the source that it was made for, also where lines have moved, and
// no other.
func TestPatch(t *testing.T) {
	needTools(t)
	const patch = "A head that explains.\n\n--- a/fs/x/x.c\n+++ b/fs/x/x.c\n@@ -1,3 +1,4 @@\n one\n two\n+two and a half\n three\n"
	for name, test := range map[string]struct {
		source, want string
	}{
		"as it was":    {"one\ntwo\nthree\n", "one\ntwo\ntwo and a half\nthree\n"},
		"moved":        {"zero\nzero\none\ntwo\nthree\n", "zero\nzero\none\ntwo\ntwo and a half\nthree\n"},
		"changed":      {"one\n2\nthree\n", ""},
		"applied":      {"one\ntwo\ntwo and a half\nthree\n", ""},
		"changed near": {"1\ntwo\nthree\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := workshop{dir: t.TempDir()}
			path, diff := filepath.Join(w.source(), "fs/x/x.c"), filepath.Join(w.dir, "x.patch")
			write(t, path, test.source)
			write(t, diff, patch)
			err := w.patch(t.Context(), diff)
			if (err == nil) != (test.want != "") {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != test.want {
				t.Errorf("patched: %q, %v", got, err)
			}
			if err := w.patch(t.Context(), diff, "--reverse"); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != test.source {
				t.Errorf("and back: %q, %v", got, err)
			}
		})
	}
}

func TestFillRefusesFolder(t *testing.T) {
	w := workshop{dir: "/home/a b/cache"}
	if err := w.fill(t.Context(), t.TempDir(), w.dir); err == nil || !strings.Contains(err.Error(), cache.Variable) {
		t.Errorf("error %v", err)
	}
}

// The key is another for another kernel, compiler or module, and the same for
// modules that are built together.
func TestKey(t *testing.T) {
	keys := map[string]string{}
	put := func(name string, target Target, variant string, cc compiler) string {
		v, err := modules.FindVariant(variant)
		if err != nil {
			t.Fatal(err)
		}
		key, err := target.key(v, cc)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := keys[key]; ok {
			t.Errorf("%s and %s have the key %q", name, other, key)
		}
		keys[key] = name
		return key
	}
	one, cc := Target{Release: "6.1.0-1-amd64", Version: "6.1.1-1"}, compiler{version: "gcc 12"}
	ext4 := put("ext4", one, "ext4-2.4-fsync", cc)
	put("jbd2", one, "jbd2-async-writes", cc)
	put("newer", Target{Release: one.Release, Version: "6.1.1-2"}, "ext4-2.4-fsync", cc)
	put("other compiler", one, "ext4-2.4-fsync", compiler{version: "gcc 13"})
	sibling, err := modules.FindVariant("ext4-fdatasync-commits")
	if err != nil {
		t.Fatal(err)
	}
	if key, err := one.key(sibling, cc); err != nil || key != ext4 {
		t.Errorf("a sibling has the key %q, want %q (%v)", key, ext4, err)
	}
}

// The kernel's own compiler is taken, or a newer gcc; an older one is refused before
// anything is built, with what to install.
func TestFindCompiler(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := findCompiler(t.Context(), "gcc-12"); err == nil || !strings.Contains(err.Error(), "there is no gcc: scripts/build-modules") {
		t.Errorf("no compiler: error %v", err)
	}
	program(t, dir, "gcc", "echo 'gcc of the test'; echo more")
	if cc, err := findCompiler(t.Context(), "gcc-12"); err != nil || cc.version != "gcc of the test" {
		t.Errorf("one that does not tell its version: %+v, %v", cc, err)
	}
	program(t, dir, "gcc", "echo 'gcc (Debian 12.2.0-14+deb12u1) 12.2.0'; echo more")
	program(t, dir, "gcc-13", "echo 'gcc-13 (Debian 13.2.0-1) 13.2.0'; echo more")
	for own, want := range map[string]string{
		"gcc-10": "gcc", "gcc-12": "gcc", "gcc-13": "gcc-13", "cc": "gcc",
		"x86_64-linux-gnu-gcc-14": "",
	} {
		cc, err := findCompiler(t.Context(), own)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "install the package gcc-14") {
				t.Errorf("%s: %v, error %v", own, cc, err)
			}
			continue
		}
		if err != nil || filepath.Base(cc.path) != want {
			t.Errorf("%s: %v, error %v; want %s", own, cc, err, want)
		}
	}
}

// program makes a program of the test's in a folder.
func program(t *testing.T, dir, name, script string) {
	t.Helper()
	path := filepath.Join(dir, name)
	write(t, path, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// The folder is there once all is in it; of an unpacking that is interrupted nothing stays.
func TestUnpackIsWhole(t *testing.T) {
	bin, kit, above := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	target := Target{Release: "6.1.0-1-amd64"}
	write(t, filepath.Join(kit, "headers.deb"), "")
	write(t, filepath.Join(kit, "source/fs/ext4/file.c"), "int x;\n")
	dir, began := filepath.Join(above, "src"), filepath.Join(bin, "began")
	headers := "mkdir -p $3/usr/src/linux-headers-6.1.0-1-amd64 && echo include /usr/src/linux-headers-common/Makefile >$3/usr/src/linux-headers-6.1.0-1-amd64/Makefile"

	program(t, bin, "dpkg-deb", headers+"; touch "+began+"; sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 1000 {
			if _, err := os.Stat(began); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := target.unpack(ctx, kit, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: error %v", err)
	}
	if left, err := os.ReadDir(above); err != nil || len(left) > 0 {
		t.Errorf("the interrupted one left %v, %v", left, err)
	}

	program(t, bin, "dpkg-deb", headers)
	got, err := target.unpack(t.Context(), kit, dir)
	if want := filepath.Join(dir, "usr/src/linux-headers-6.1.0-1-amd64"); err != nil || got != want {
		t.Fatalf("headers are in %s, want %s (%v)", got, want, err)
	}
	text, err := os.ReadFile(filepath.Join(got, "Makefile"))
	if want := "include " + dir + "/usr/src/linux-headers-common/Makefile\n"; err != nil || string(text) != want {
		t.Errorf("makefile says %q, want %q (%v)", text, want, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "source/fs/ext4/file.c")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(above); err != nil || len(left) != 1 {
		t.Errorf("beside it there is %v, %v", left, err)
	}
}

// A module in the cache that has a flipped bit is built again.
func TestDamagedModule(t *testing.T) {
	bin := t.TempDir()
	t.Setenv(cache.Variable, t.TempDir())
	t.Setenv("PATH", bin)
	for _, tool := range Tools() {
		program(t, bin, tool.Name, "echo "+tool.Name+" of the test")
	}
	v, err := modules.FindVariant("fsync_range")
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Release: "6.1.0-1-amd64", Version: "6.1.1-1", Compiler: "gcc"}
	key, err := target.key(v, compiler{version: "gcc of the test"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.Default()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := c.Entry(t.Context(), moduleKind, key, func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "fsync_range.ko"), []byte("module"), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := Build(t.Context(), target, v, func(string) { t.Error("a whole module is built again") })
	if err != nil || file != filepath.Join(dir, "fsync_range.ko") {
		t.Fatalf("file %s, %v", file, err)
	}
	if err := errors.Join(os.Chmod(file, 0o644), os.WriteFile(file, []byte("modulf"), 0o644)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	built := false
	_, err = Build(ctx, target, v, func(string) { built = true; cancel() })
	if !built || err == nil {
		t.Errorf("a damaged module is taken: %v", err)
	}
}
