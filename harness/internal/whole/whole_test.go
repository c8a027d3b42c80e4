package whole

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(f *os.File) error {
	_, err := io.WriteString(f, "new")
	return err
}

// nothingBeside wants these files and no others in a folder.
func nothingBeside(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if strings.Join(have, " ") != strings.Join(names, " ") {
		t.Errorf("the folder has %q, want %q", have, names)
	}
}

// TestWhole: a file is there as a whole, or as it was; and a link stays a link.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	check(t, os.Symlink("file", link))
	check(t, Write(path, content))
	check(t, os.WriteFile(path, []byte("old"), 0o600))
	if err := Write(link, func(f *os.File) error { return errors.Join(content(f), io.ErrShortWrite) }); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("not written: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	check(t, Write(link, content))
	if b, err := os.ReadFile(path); string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
	if to, err := os.Readlink(link); to != "file" {
		t.Errorf("%q, %v", to, err)
	}
	if err := Write(dir, content); err == nil || !strings.Contains(err.Error(), "it is a folder") {
		t.Errorf("onto a folder: %v", err)
	}
	nothingBeside(t, dir, "file", "link")
}

// TestPipe: what is no file is written to, and stays.
func TestPipe(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	path := filepath.Join(dir, "pipe")
	check(t, syscall.Mkfifo(path, 0o600))
	got := make(chan string)
	go func() {
		b, _ := os.ReadFile(path)
		got <- string(b)
	}()
	check(t, Write(path, content))
	if s := <-got; s != "new" {
		t.Errorf("%q", s)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v", info, err)
	}
	nothingBeside(t, dir, "pipe")
	nothingBeside(t, tmp)
}
