package explore

import (
	"iter"
	"maps"
	"slices"
)

// tally counts how often each sector of a drive was read, up to 255 times. It takes a byte
// for each sector of those parts of the drive in which any was.
type tally map[int64]*[tallied]uint8

// tallied is the number of sectors of a part: 2 MiB.
const tallied = 4096

// parts calls each for the counts of the sectors from one up to another, part by part; of
// a part in which nothing was counted for nil.
func (t tally) parts(from, to int64, each func(counts []uint8, n int64)) {
	for from < to {
		first := from % tallied
		n := min(tallied-first, to-from)
		if part := t[from/tallied]; part != nil {
			each(part[first:first+n], n)
		} else {
			each(nil, n)
		}
		from += n
	}
}

// count adds one to a sector.
func (t tally) count(sector int64) {
	part := t[sector/tallied]
	if part == nil {
		part = new([tallied]uint8)
		t[sector/tallied] = part
	}
	if n := &part[sector%tallied]; *n < 255 {
		*n++
	}
}

// all tells whether the sectors from one up to another were each counted, and, with once, not
// more than once.
func (t tally) all(from, to int64, once bool) bool {
	yes := true
	t.parts(from, to, func(counts []uint8, _ int64) {
		yes = yes && counts != nil && !slices.ContainsFunc(counts, func(n uint8) bool { return n == 0 || once && n > 1 })
	})
	return yes
}

// forget takes the sectors from one up to another for such as were never read.
func (t tally) forget(from, to int64) {
	t.parts(from, to, func(counts []uint8, _ int64) { clear(counts) })
}

// rows goes through the sectors that were counted, from one up to another, ascending.
func (t tally) rows() iter.Seq2[int64, int64] {
	return func(yield func(from, to int64) bool) {
		for _, n := range slices.Sorted(maps.Keys(t)) {
			part := t[n]
			for i := 0; i < tallied; i++ {
				first := i
				for i < tallied && part[i] > 0 {
					i++
				}
				if first < i && !yield(n*tallied+int64(first), n*tallied+int64(i)) {
					return
				}
			}
		}
	}
}
