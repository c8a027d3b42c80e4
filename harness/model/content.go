package model

import "powercut/guest/workload"

// Piece is a run of bytes of a file that one op wrote: those which the op wrote at
// the offset From. After a clone, or a range put in or taken out, From and Offset
// differ.
type Piece struct {
	Offset, Length int64
	Op             int
	From           int64
}

// End is the offset after the piece's last byte.
func (p Piece) End() int64 { return p.Offset + p.Length }

// Content is the bytes of a file: pieces in ascending order that do not overlap, and
// zeros between them. It is never changed; what changes it returns another.
type Content []Piece

// slice is the content of a range, at its offsets.
func (c Content) slice(from, to int64) (out Content) {
	for _, p := range c {
		a, b := max(p.Offset, from), min(p.End(), to)
		if a < b {
			out = append(out, Piece{a, b - a, p.Op, p.From + a - p.Offset})
		}
	}
	return out
}

// End is the offset after the last byte in a range that an op wrote; 0: there is none.
func (c Content) End(from, to int64) (end int64) {
	for _, p := range c.slice(from, to) {
		end = p.End()
	}
	return end
}

// Next is the first offset from that one on which an op wrote; -1: there is none.
func (c Content) Next(from int64) int64 {
	for _, p := range c {
		if p.End() > from {
			return max(from, p.Offset)
		}
	}
	return -1
}

// forever is an offset behind every file.
const forever = 1 << 62

// without is the content with zeros in a range.
func (c Content) without(from, to int64) Content {
	return append(c.slice(0, from), c.slice(to, forever)...)
}

// with is the content with other bytes in a range.
func (c Content) with(from, to int64, other Content) Content {
	out := c.slice(0, from)
	out = append(out, other.slice(from, to)...)
	return append(out, c.slice(to, forever)...)
}

// written is the content after op has written a range.
func (c Content) written(off, length int64, op int) Content {
	return c.with(off, off+length, Content{{off, length, op, off}})
}

// moved is the content at offsets that are larger by that much.
func (c Content) moved(by int64) Content {
	out := make(Content, len(c))
	for i, p := range c {
		p.Offset += by
		out[i] = p
	}
	return out
}

// Read sets buf to the bytes from offset off on, of a plan of that seed.
func (c Content) Read(buf []byte, off int64, seed uint64) {
	clear(buf)
	for _, p := range c.slice(off, off+int64(len(buf))) {
		workload.Fill(buf[p.Offset-off:p.End()-off], seed, p.From, p.Op)
	}
}

// Extent is a range of a file.
type Extent = workload.Extent

// cover adds a range to a list of ranges that are disjoint and ascending.
func cover(list []Extent, from, to int64) (out []Extent) {
	for _, e := range list {
		switch {
		case e.End() < from || e.Offset > to:
			out = append(out, e)
		default:
			from, to = min(from, e.Offset), max(to, e.End())
		}
	}
	i := 0
	for i < len(out) && out[i].Offset < from {
		i++
	}
	return append(out[:i:i], append([]Extent{{Offset: from, Length: to - from}}, out[i:]...)...)
}

// uncover takes a range out of such a list.
func uncover(list []Extent, from, to int64) (out []Extent) {
	for _, e := range list {
		if e.Offset < from {
			out = append(out, Extent{Offset: e.Offset, Length: min(e.End(), from) - e.Offset})
		}
		if e.End() > to {
			start := max(e.Offset, to)
			out = append(out, Extent{Offset: start, Length: e.End() - start})
		}
	}
	return out
}
