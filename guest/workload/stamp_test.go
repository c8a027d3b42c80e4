package workload

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// drawOp draws op numbers of every size.
func drawOp(t *rapid.T, name string) int {
	return rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(200, 260), rapid.IntRange(0, MaxCount)).Draw(t, name)
}

func TestStampIsNeverZero(t *testing.T) {
	for seed := range uint64(4) {
		for off := range int64(64) {
			for op := range 600 {
				if Stamp(seed, off, op) == 0 {
					t.Fatalf("stamp of seed %d, offset %d, op %d is 0", seed, off, op)
				}
			}
		}
	}
}

func TestStampTellsOpsApart(t *testing.T) {
	for off := range int64(64) {
		prime := int(primes[off&7])
		seen := map[byte]int{}
		for op := range prime + 1 { // op 0 and one round of the others
			v := Stamp(7, off, op)
			if other, ok := seen[v]; ok {
				t.Fatalf("offset %d: ops %d and %d both write %#x", off, other, op, v)
			}
			seen[v] = op
		}
		if a, b := Stamp(7, off, 1), Stamp(7, off, 1+prime); a != b {
			t.Errorf("offset %d: ops 1 and %d should have one stamp, have %#x and %#x", off, 1+prime, a, b)
		}
	}
}

func TestWordNamesItsOp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawOp(t, "a"), drawOp(t, "b")
		word := rapid.Int64Range(0, MaxSize/8).Draw(t, "word")
		var x, y [8]byte
		Fill(x[:], 3, word*8, a)
		Fill(y[:], 3, word*8, b)
		if (x == y) != (a == b) {
			t.Fatalf("ops %d and %d write %x and %x", a, b, x, y)
		}
	})
}

func TestFillIsStamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.OneOf(rapid.Just(uint64(math.MaxUint64)), rapid.Uint64()).Draw(t, "seed")
		off := rapid.Int64Range(0, MaxSize).Draw(t, "off")
		op := drawOp(t, "op")
		buf := make([]byte, rapid.IntRange(0, 70).Draw(t, "n"))
		Fill(buf, seed, off, op)
		for i, got := range buf {
			if want := Stamp(seed, off+int64(i), op); got != want {
				t.Fatalf("byte %d of %d from %d by op %d: %#x, want %#x", i, len(buf), off, op, got, want)
			}
		}
	})
}

func TestWritersIsTheInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, off, op := rapid.Uint64().Draw(t, "seed"), rapid.Int64Range(0, MaxSize).Draw(t, "off"), drawOp(t, "op")
		v := rapid.Byte().Draw(t, "v")
		first, step := Writers(seed, off, v)
		writes := first == op || first > 0 && op > first && (op-first)%step == 0
		if got := Stamp(seed, off, op) == v; got != writes {
			t.Fatalf("op %d at %d writes %#x: %v, but its writers are %d, %d, …", op, off, v, got, first, first+step)
		}
		first, step = Writers(seed, off, Stamp(seed, off, op))
		if op == 0 && (first != 0 || step != 0) || op > 0 && (first < 1 || (op-first)%step != 0) {
			t.Fatalf("op %d is not among the writers %d, %d, … of its own stamp", op, first, first+step)
		}
	})
}

func TestNobodyWritesZero(t *testing.T) {
	for off := range int64(4096) {
		if first, _ := Writers(7, off, 0); first >= 0 {
			t.Fatalf("op %d is said to write a zero at %d", first, off)
		}
	}
}

// TestStampsLookRandom guards against bases that repeat: no file system's own
// data should pass for an op's, and no op's for its neighbour's.
func TestStampsLookRandom(t *testing.T) {
	var seen [256]int
	const n = 1 << 16
	equal := 0
	for off := range int64(n) {
		v := Stamp(1, off, 0)
		seen[v]++
		if v == Stamp(1, off+8, 0) {
			equal++
		}
	}
	for v, count := range seen[1:] {
		if count < n/512 || count > n/64 {
			t.Errorf("base %#x comes %d times in %d", v+1, count, n)
		}
	}
	if seen[0] > 0 || equal > n/64 {
		t.Errorf("%d zeros, %d equal to the next word's, of %d", seen[0], equal, n)
	}
}

func BenchmarkFill(b *testing.B) {
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		Fill(buf, 1, 3, 77)
	}
}

func BenchmarkFillByte(b *testing.B) {
	buf := make([]byte, 1)
	for b.Loop() {
		Fill(buf, 1, 512, 77)
	}
}

func BenchmarkContent(b *testing.B) {
	p := Plan{Kind: Overwrite, Size: 1 << 30, Stride: 4096, Bytes: 4096, Count: 1_000_000}
	buf := make([]byte, 1<<20)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		p.Content(900_000, 5<<20+7, buf)
	}
}
