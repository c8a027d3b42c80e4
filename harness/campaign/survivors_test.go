package campaign

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestSurvivors: a kept file is read in parts, and one that is cut off meanwhile is none to
// judge.
func TestSurvivors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "survivors")
	want := bytes.Repeat([]byte("0123456789"), 20_000)
	if err := os.WriteFile(path, want, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []bool{false, true} {
		s, err := openSurvivors(path)
		if err != nil {
			t.Fatal(err)
		}
		if cut {
			if err := os.Truncate(path, 100); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Range(150_000, s.Size()); !cut && !bytes.Equal(got, want[150_000:]) {
			t.Error("other bytes")
		}
		if err := s.Close(); errors.Is(err, io.EOF) != cut || (err != nil) != cut {
			t.Errorf("cut off: %v, %v", cut, err)
		}
	}
}
