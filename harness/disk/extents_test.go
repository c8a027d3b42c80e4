package disk

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestExtents: the set is that of an array of bits, and keeps its order.
func TestExtents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x extents
		var model [64]bool
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			from := rapid.Int64Range(0, 63).Draw(t, "from")
			to := rapid.Int64Range(from+1, 64).Draw(t, "to")
			add := rapid.Bool().Draw(t, "add")
			if add {
				x.add(from, to)
			} else {
				x.remove(from, to)
			}
			for i := from; i < to; i++ {
				model[i] = add
			}
			checkExtents(t, &x, model[:])
		}
	})
}

func checkExtents(t *rapid.T, x *extents, model []bool) {
	got := make([]bool, len(model))
	var bytes int64
	for i, e := range x.list {
		if e.from >= e.to || i > 0 && e.from <= x.list[i-1].to {
			t.Fatalf("extents %v", x.list)
		}
		bytes += e.length()
		for b := e.from; b < e.to; b++ {
			got[b] = true
		}
	}
	for from := range model {
		if got[from] != model[from] {
			t.Fatalf("byte %d: %v in %v", from, got[from], x.list)
		}
		all := true
		for to := from; to < len(model); to++ {
			if all = all && model[to]; all != x.covers(int64(from), int64(to+1)) {
				t.Fatalf("%d to %d covered: %v, in %v", from, to+1, !all, x.list)
			}
		}
	}
	if bytes != x.bytes {
		t.Fatalf("%d bytes in %v, said to be %d", bytes, x.list, x.bytes)
	}
	var before, behind []extent
	at := int64(len(model) / 2)
	for _, e := range x.list {
		if e.from < at {
			before = append(before, e)
		} else {
			behind = append(behind, e)
		}
	}
	want := slices.Concat(before[max(0, len(before)-1):], behind[:min(1, len(behind))])
	if near := x.near(at, 1); !slices.Equal(near, want) {
		t.Fatalf("next to %d in %v is %v, got %v", at, x.list, want, near)
	}
}
