package workload

import (
	"testing"

	"pgregory.net/rapid"
)

// TestDigest: no byte of a block can change, and none be added or taken away, without
// another digest.
func TestDigest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "block")
		d := Digest(b)
		for i := range b {
			b[i] ^= 1 << (i % 8)
			if Digest(b) == d {
				t.Fatalf("byte %d changed unseen", i)
			}
			b[i] ^= 1 << (i % 8)
		}
		if Digest(append(b, 0)) == d || Digest(b[:len(b)-1]) == d {
			t.Fatal("another length has the same digest")
		}
	})
	if Digest(make([]byte, 4096)) == Digest(make([]byte, 4088)) {
		t.Error("zeros of two lengths have one digest")
	}
}
