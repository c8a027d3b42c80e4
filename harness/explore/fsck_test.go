package explore

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFsckOpinions: what is sound is cleared, what is damaged is told, and what is no such
// file system is an error.
func TestFsckOpinions(t *testing.T) {
	for _, c := range []struct {
		filesystem string
		size       int64
		mkfs       []string
		at, bytes  int64 // what is overwritten
	}{
		{"ext4", 32 << 20, []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0"}, 1 << 20, 2 << 20},
		{"xfs", 320 << 20, []string{"mkfs.xfs", "-q", "-f"}, 64 << 10, 64 << 10},
		{"btrfs", 128 << 20, []string{"mkfs.btrfs", "-q", "-f", "-m", "single"}, 5 << 20, 1 << 20},
	} {
		t.Run(c.filesystem, func(t *testing.T) {
			f, err := newFsck(c.filesystem)
			if err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "image")
			image, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer image.Close()
			if err := image.Truncate(c.size); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), c.mkfs[0], append(c.mkfs[1:], path)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if said, err := f.examine(t.Context(), dir, image, c.size); err != nil || said != "" {
				t.Errorf("a new file system: %q, %v", said, err)
			}
			rubbish := make([]byte, c.bytes)
			for i := range rubbish {
				rubbish[i] = byte(i * 7)
			}
			if _, err := image.WriteAt(rubbish, c.at); err != nil {
				t.Fatal(err)
			}
			if said, err := f.examine(t.Context(), dir, image, c.size); err != nil || said == "" {
				t.Errorf("a damaged file system: %q, %v", said, err)
			} else {
				t.Log(said)
			}
			if _, err := os.Stat(filepath.Join(dir, recoveredImage)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the image is still there: %v", err)
			}
		})
	}
	f, err := newFsck("ext4")
	if err != nil {
		t.Skip(err)
	}
	if said, err := f.examine(t.Context(), t.TempDir(), zeros{}, 1<<20); err == nil {
		t.Errorf("a drive of zeros: %q", said)
	}
	var none *FsckError
	if _, err := newFsck("nilfs2"); !errors.As(err, &none) {
		t.Errorf("nilfs2: %v", err)
	}
}
