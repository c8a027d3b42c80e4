package regular

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Symlink(file, link), syscall.Mkfifo(pipe, 0o644)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		file: nil, link: nil, pipe: ErrNot, dir: ErrNot, "/dev/zero": ErrNot, filepath.Join(dir, "gone"): os.ErrNotExist,
	} {
		if err := Check(path); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", path, err, want)
		}
	}
}
