package kbuild

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if err := w.moveHeaders(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := "include " + w.dir + "/usr/src/linux-headers-6.1.0-1-common/Makefile\n"; err != nil || string(text) != want {
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

func TestOpenRefusesFolder(t *testing.T) {
	w := workshop{dir: "/home/a b/cache"}
	if err := w.open(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), cache.Variable) {
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
	program := func(name, says string) {
		write(t, filepath.Join(dir, name), "#!/bin/sh\necho '"+says+"'\necho more\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := findCompiler(t.Context(), "gcc-12"); err == nil || !strings.Contains(err.Error(), "there is no gcc: scripts/build-modules") {
		t.Errorf("no compiler: error %v", err)
	}
	program("gcc", "gcc of the test")
	if cc, err := findCompiler(t.Context(), "gcc-12"); err != nil || cc.version != "gcc of the test" {
		t.Errorf("one that does not tell its version: %+v, %v", cc, err)
	}
	program("gcc", "gcc (Debian 12.2.0-14+deb12u1) 12.2.0")
	program("gcc-13", "gcc-13 (Debian 13.2.0-1) 13.2.0")
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
