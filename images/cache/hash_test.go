package cache

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// A file hashes alike whether its zeros are holes or blocks, and differently
// once any byte of it differs.
func TestHashFileSeesContentOnly(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40*hashBlock).Draw(t, "size")
		content := make([]byte, size)
		sparse, err := os.Create(filepath.Join(dir, "sparse"))
		if err != nil {
			t.Fatal(err)
		}
		defer sparse.Close() //nolint:errcheck // test file
		if err := sparse.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 5).Draw(t, "writes") {
			at := rapid.IntRange(0, size-1).Draw(t, "at")
			data := rapid.SliceOfN(rapid.Byte(), 1, min(size-at, 9000)).Draw(t, "data")
			copy(content[at:], data)
			if _, err := sparse.WriteAt(data, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		dense := filepath.Join(dir, "dense")
		if err := os.WriteFile(dense, content, 0o600); err != nil {
			t.Fatal(err)
		}
		want := hash(t, sparse.Name())
		if got := hash(t, dense); got != want {
			t.Fatalf("sparse file hashes to %s, dense one to %s", want, got)
		}
		flip := rapid.IntRange(0, size-1).Draw(t, "flip")
		content[flip] ^= 1
		if err := os.WriteFile(dense, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if hash(t, dense) == want {
			t.Fatal("a changed byte was not seen")
		}
		content[flip] ^= 1
		if err := os.WriteFile(dense, append(content, 0), 0o600); err != nil {
			t.Fatal(err)
		}
		if hash(t, dense) == want {
			t.Fatal("a zero at the end was not seen")
		}
	})
}

func hash(t *rapid.T, path string) string {
	sum, err := HashFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
