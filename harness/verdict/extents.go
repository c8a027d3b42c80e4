package verdict

import (
	"slices"

	"powercut/guest/workload"
)

// segments returns the range from a up to b of the segments that make up e.
func (r *readings) segments(e workload.Extent) (a, b int) {
	a, _ = slices.BinarySearch(r.bounds, e.Offset)
	b = a + 1
	if r.bounds[b] != e.End() {
		b, _ = slices.BinarySearch(r.bounds, e.End())
	}
	return a, b
}

// older returns the bytes of segments a up to b that are older than op k, from
// the first to the last of them; empty where none is. Op k covers them all.
func (r *readings) older(a, b, k int) workload.Extent {
	if len(r.patches) == 0 {
		return workload.Extent{}
	}
	if r.lows == nil {
		r.lows = newTree(len(r.low), func(i int) int32 { return r.low[i] })
	}
	return r.hull(r.lows, a, b, int32(k), func(level int32) bool { return level < int32(k) })
}

// foreign returns the foreign bytes of segments a up to b, from the first to the
// last of them.
func (r *readings) foreign(a, b int) workload.Extent {
	if len(r.patches) == 0 {
		return workload.Extent{}
	}
	if r.aliens == nil {
		r.aliens = newTree(len(r.low), func(i int) int32 {
			if r.alien(i).Length > 0 {
				return -1
			}
			return 0
		})
	}
	return r.hull(r.aliens, a, b, 0, func(level int32) bool { return level == nobody })
}

// hull returns the extent from the first to the last byte that is in a patch of a
// wanted level, of the segments a up to b that the tree has below bound: each of
// those has such a patch.
func (r *readings) hull(t *tree, a, b int, bound int32, wanted func(level int32) bool) workload.Extent {
	head := t.firstBelow(a, b, bound)
	if head < 0 {
		return workload.Extent{}
	}
	from, _ := r.span(head, wanted)
	_, to := r.span(t.lastBelow(a, b, bound), wanted)
	return workload.Extent{Offset: from, Length: to + 1 - from}
}

// span returns the offsets of the first and of the last byte in the patches of
// segment i that have a wanted level; -1 where there is none.
func (r *readings) span(i int, wanted func(level int32) bool) (from, to int64) {
	from, to = -1, -1
	for _, p := range r.patches[r.first[i]:r.first[i+1]] {
		if !wanted(p.level) {
			continue
		}
		if from < 0 {
			from = p.from // patches stand in the order of their first bytes
		}
		to = max(to, p.to)
	}
	return from, to
}

// alien returns the foreign bytes of segment i, from the first to the last.
func (r *readings) alien(i int) workload.Extent {
	from, to := r.span(i, func(level int32) bool { return level == nobody })
	if from < 0 {
		return workload.Extent{}
	}
	return workload.Extent{Offset: from, Length: to + 1 - from}
}

// unclaimed returns the foreign bytes where no op that had begun writes, from the
// first to the last of them.
func (r *readings) unclaimed() (e workload.Extent) {
	for i, w := range r.writer {
		if w > 0 {
			continue
		}
		switch found := r.alien(i); {
		case found.Length == 0:
		case e.Length == 0:
			e = found
		default:
			e.Length = found.End() - e.Offset
		}
	}
	return e
}

// oldest returns the least level in segments a up to b, of which one at least
// is not foreign throughout.
func (r *readings) oldest(a, b int) int32 {
	return r.lows.least(a, b)
}

// sure tells whether a byte of segments a up to b cannot be read as older than op
// k.
func (r *readings) sure(a, b, k int) bool {
	if r.own[k] { // the answer, nearly always
		return true
	}
	if b == a+1 {
		return r.high[a] >= int32(k)
	}
	if r.highs == nil {
		r.highs = newTree(len(r.high), func(i int) int32 { return -r.high[i] })
	}
	return r.highs.firstBelow(a, b, 1-int32(k)) >= 0
}
