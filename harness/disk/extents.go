package disk

import (
	"cmp"
	"slices"
)

// maxExtents bounds the pieces of data that a drive's buffer keeps apart, as its
// firmware's table of segments does. How long such tables are is in no data sheet:
// assumed. It bounds the model's own cost as well.
const maxExtents = 4096

// extent is a range of a drive in bytes, to excluded.
type extent struct{ from, to int64 }

func (e extent) length() int64 { return e.to - e.from }

// extents is a set of bytes: ascending, disjoint and never adjacent.
type extents struct {
	list  []extent
	bytes int64
}

// at is the index of the first extent that ends behind offset.
func (x *extents) at(offset int64) int {
	i, _ := slices.BinarySearchFunc(x.list, offset, func(e extent, offset int64) int {
		if e.to <= offset {
			return -1
		}
		return 1
	})
	return i
}

// add puts the bytes from from to to into the set.
func (x *extents) add(from, to int64) {
	i := x.at(from - 1) // one that ends at from is continued
	j := i
	for ; j < len(x.list) && x.list[j].from <= to; j++ {
		from, to = min(from, x.list[j].from), max(to, x.list[j].to)
		x.bytes -= x.list[j].length()
	}
	x.list = slices.Replace(x.list, i, j, extent{from, to})
	x.bytes += to - from
}

// remove takes the bytes from from to to out of the set.
func (x *extents) remove(from, to int64) {
	i := x.at(from)
	j := i
	var rest [2]extent
	n := 0
	for ; j < len(x.list) && x.list[j].from < to; j++ {
		e := x.list[j]
		x.bytes -= e.length()
		for _, part := range [2]extent{{e.from, from}, {to, e.to}} {
			if part.from < part.to {
				rest[n], n = part, n+1
				x.bytes += part.length()
			}
		}
	}
	x.list = slices.Replace(x.list, i, j, rest[:n]...)
}

// covers tells whether all bytes from from to to are in the set.
func (x *extents) covers(from, to int64) bool {
	i := x.at(from)
	return i < len(x.list) && x.list[i].from <= from && to <= x.list[i].to
}

// near is those of the set that begin next to offset: at most n before it, and n at
// it or behind it.
func (x *extents) near(offset int64, n int) []extent {
	i, _ := slices.BinarySearchFunc(x.list, offset, func(e extent, offset int64) int {
		return cmp.Compare(e.from, offset)
	})
	return x.list[max(0, i-n):min(len(x.list), i+n)]
}

// clear empties the set.
func (x *extents) clear() { x.list, x.bytes = x.list[:0], 0 }
