package explore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestOneAtATime: what explores a call keeps others out, also those that would go on with
// it, and loses nothing to them.
func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "explored.jsonl")
	first, err := OpenStore(path, "x", false, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.write(kept{Content: 7}); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, resume := range []bool{false, true} {
		if _, err := OpenStore(path, "x", false, resume); !errors.Is(err, ErrInUse) {
			t.Errorf("resume %v: %v", resume, err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, was) {
		t.Errorf("%q, %v", b, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(path, "y", false, true); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("of another subject: %v", err) // and it keeps no lock
	}
	next, err := OpenStore(path, "x", false, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(next.old) != 1 || next.old[0].Content != 7 {
		t.Errorf("%v", next.old)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
}
