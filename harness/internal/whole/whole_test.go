package whole

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	check(t, unix.Mkfifo(path, 0o600))
	err := Write(path, func(*os.File) error { t.Error("made what nobody reads"); return nil })
	if !errors.Is(err, ErrNoReader) {
		t.Errorf("nobody reads: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	check(t, err)
	defer reader.Close()
	check(t, Write(path, content))
	if b, err := io.ReadAll(reader); string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v", info, err)
	}
	nothingBeside(t, dir, "pipe")
	nothingBeside(t, tmp)
}

// TestSlowPipe: a reader that is slow gets all, and one that reads nothing is waited for
// until the context ends.
func TestSlowPipe(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	path := filepath.Join(dir, "pipe")
	check(t, unix.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	check(t, err)
	defer reader.Close()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // no pipe holds so much
	fill := func(f *os.File) error { _, err := f.Write(big); return err }
	ended := make(chan error, 1)
	wait := func() error {
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("it goes on")
			return nil
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- WriteContext(ctx, path, fill) }()
	time.Sleep(50 * time.Millisecond)
	select {
	case err := <-ended:
		t.Fatalf("nothing was read: %v", err)
	default:
	}
	cancel()
	if err := wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	nothingBeside(t, tmp)
	if _, err := io.Copy(io.Discard, reader); err != nil { // what was under way
		t.Fatal(err)
	}
	go func() { ended <- WriteContext(t.Context(), path, fill) }()
	time.Sleep(50 * time.Millisecond)
	got := make([]byte, len(big))
	if _, err := io.ReadFull(reader, got); err != nil || !bytes.Equal(got, big) {
		t.Errorf("another content, %v", err)
	}
	check(t, wait())
	nothingBeside(t, dir, "pipe")
	nothingBeside(t, tmp)
}
