package verdict

import (
	"bytes"
	"math"
	"slices"

	"powercut/guest/workload"
)

// The levels at which a byte can be read, other than the numbers of ops. A higher
// level is newer content of the same byte.
const (
	ended  int32 = -2 // the file ends before it
	blank  int32 = -1 // a zero in a file whose first content has none
	nobody int32 = math.MaxInt32
)

// readings says of each byte of the file, and of those by which it is too short,
// at which level it can be read. All bytes of a segment have the same writers.
type readings struct {
	plan   workload.Plan
	layout workload.Layout
	begun  int
	data   Content
	size   int64   // of the data, or of the file where that is less
	near   [8]int  // by lane: ops no further apart than this never have equal stamps at one byte of it; 0: none do
	bounds []int64 // segment i is from bounds[i] up to bounds[i+1]
	writer []int32 // by segment: the last op that had begun and covers it, or 0
	low    []int32 // by segment: the least of its bytes' latest readings; nobody where all are foreign
	high   []int32 // by segment: the greatest of its bytes' earliest readings; below ended where all are foreign
	// The bytes of segment i that are older than its writer, or foreign, are in
	// patches[first[i]:first[i+1]], one patch for each level.
	patches []patch
	first   []int32
	own     []bool // by op: a byte can be read as the op's own and not otherwise
	lows    *tree  // over low; nil until it is asked
	highs   *tree  // over -high
	aliens  *tree  // over 0, or -1 where the segment has a foreign byte
}

// patch is where in a segment bytes of one level are.
type patch struct {
	level    int32
	from, to int64 // offsets of the first and of the last of them
}

// read reads the first size bytes of data as the file that ops 0..begun of the plan have
// made.
func read(p workload.Plan, begun int, data Content, size int64) *readings {
	r := &readings{plan: p, layout: p.Layout(), begun: begun, data: data, size: size, own: make([]bool, begun+1)}
	for lane := range r.near {
		_, step := workload.Writers(p.Seed, int64(lane), workload.Stamp(p.Seed, int64(lane), 1))
		r.near[lane] = r.layout.Nearest(step)
	}
	r.bounds = r.boundaries()
	n := len(r.bounds) - 1
	r.writer, r.low, r.high = make([]int32, n), make([]int32, n), make([]int32, n)
	r.first = make([]int32, n+1)
	expected := make([]byte, chunk)
	for i := range n {
		r.writer[i] = int32(r.layout.Last(r.bounds[i], begun, 1))
		r.scan(i, expected)
		r.first[i+1] = int32(len(r.patches))
	}
	return r
}

// boundaries cuts the file where an op begins or ends, where the synced range does,
// and where the data does.
func (r *readings) boundaries() []int64 {
	size := r.plan.SizeAfter(r.begun)
	ops := min(r.begun, r.layout.Round())
	cuts := make([]int64, 0, 2*ops+5)
	cuts = append(cuts, 0, size, min(size, r.size))
	for k := 1; k <= ops; k++ {
		e := r.plan.Op(k)
		cuts = append(cuts, e.Offset, e.End())
	}
	cuts = append(cuts, min(size, r.plan.Sync.Offset), min(size, r.plan.Sync.End())) // as for segments
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// chunk and piece are how many bytes are compared at a time: first a chunk, and
// where it differs each piece of it, a sector.
const (
	chunk = 1 << 16
	piece = 512
)

// scan reads segment i. What holds just what the last writer wrote, nearly all of
// a good file, is not looked at byte by byte.
func (r *readings) scan(i int, expected []byte) {
	from, to := r.bounds[i], r.bounds[i+1]
	r.low[i], r.high[i] = nobody, ended-1
	if from >= r.size {
		r.low[i], r.high[i] = ended, ended
		r.patches = append(r.patches, patch{ended, from, to - 1})
		return
	}
	var seen memory
	for at, next := from, from; at < to; at = next {
		next = min(at-at%chunk+chunk, to)
		part := r.data.Range(at, next)
		if r.intact(i, at, part, expected) {
			continue
		}
		for off, end := at, at; off < next; off = end {
			end = min(off-off%piece+piece, next)
			if part := part[off-at : end-at]; !r.intact(i, off, part, expected) {
				r.scanPiece(i, off, part, expected, &seen)
			}
		}
	}
}

// intact reads a part of segment i, at offset off, if it holds what its last
// writer wrote, and otherwise returns false.
func (r *readings) intact(i int, off int64, part, expected []byte) bool {
	w := r.writer[i]
	if !r.holds(part, off, w, expected) {
		return false
	}
	earliest := r.earliest(w, off, len(part))
	r.low[i], r.high[i] = min(r.low[i], w), max(r.high[i], earliest)
	if earliest == w {
		r.own[w] = true
	}
	return true
}

// holds tells whether part, at offset off, is content of the level throughout.
// It needs a buffer that is no smaller than part.
func (r *readings) holds(part []byte, off int64, level int32, buf []byte) bool {
	r.expect(buf[:len(part)], off, level)
	return bytes.Equal(part, buf[:len(part)])
}

// scanPiece reads a piece of segment i that is not what it should be. It mostly is
// the content of another op, all of it. Then bytes of one lane read alike, and it
// is enough to read the first and the last byte of each lane.
func (r *readings) scanPiece(i int, off int64, part, buf []byte, seen *memory) {
	const lanes = len(seen)
	if _, latest := r.reading(off, part[0], seen); len(part) > 2*lanes && latest != nobody && r.holds(part, off, latest, buf) {
		r.scanBytes(i, off, part[:lanes], seen)
		off, part = off+int64(len(part)-lanes), part[len(part)-lanes:]
	}
	r.scanBytes(i, off, part, seen)
}

// expect sets buf to content of the level, at offset off.
func (r *readings) expect(buf []byte, off int64, level int32) {
	if level == blank || level == 0 && r.plan.Blank() {
		clear(buf)
		return
	}
	workload.Fill(buf, r.plan.Seed, off, int(level))
}

// earliest returns the greatest of the earliest readings of n bytes from off that
// op w has written.
func (r *readings) earliest(w int32, off int64, n int) int32 {
	most := int32(0)
	for at := off; at < off+int64(min(n, len(r.near))) && most < w; at++ {
		most = max(most, r.firstAlike(at, w))
	}
	return most
}

// firstAlike returns the first op with w's stamp at off.
func (r *readings) firstAlike(off int64, w int32) int32 {
	if near := r.near[off&7]; near == 0 || int(w) <= near {
		return w
	}
	first, step := workload.Writers(r.plan.Seed, off, workload.Stamp(r.plan.Seed, off, int(w)))
	return int32(r.layout.First(off, first, step, int(w)))
}

// memory holds for each lane of a segment what was read last: neighbours are
// mostly alike.
type memory [8]struct {
	stamp         int // the least op with that stamp
	first, latest int32
}

// scanBytes reads the bytes of part, at offset off in segment i, one by one.
func (r *readings) scanBytes(i int, off int64, part []byte, seen *memory) {
	last := int(r.first[i]) // the patch that was extended last
	for n, v := range part {
		at := off + int64(n)
		first, latest := r.reading(at, v, seen)
		if latest != nobody {
			r.low[i], r.high[i] = min(r.low[i], latest), max(r.high[i], first)
			if first == latest && latest >= 0 {
				r.own[latest] = true
			}
			if latest == r.writer[i] {
				continue
			}
		}
		if last >= len(r.patches) || r.patches[last].level != latest {
			last = r.patchOf(i, latest, at)
		}
		r.patches[last].to = at
	}
}

// patchOf returns the index of segment i's patch for a level, beginning one at
// offset at where there is none.
func (r *readings) patchOf(i int, level int32, at int64) int {
	for n := int(r.first[i]); n < len(r.patches); n++ {
		if r.patches[n].level == level {
			return n
		}
	}
	r.patches = append(r.patches, patch{level, at, at})
	return len(r.patches) - 1
}

// reading returns the earliest and the latest reading of the byte v at off, or
// nobody. What seen holds must be of the same segment.
func (r *readings) reading(off int64, v byte, seen *memory) (first, latest int32) {
	stamp, step := workload.Writers(r.plan.Seed, off, v)
	switch {
	case v == 0:
		return blank, blank
	case stamp < 0, stamp == 0 && r.plan.Blank():
		return nobody, nobody
	case stamp == 0:
		return 0, 0
	}
	known := &seen[off&7]
	if known.stamp != stamp {
		known.stamp, known.first, known.latest = stamp, nobody, nobody
		if from := r.begun - (r.begun-stamp)%step; stamp <= r.begun {
			if op := int32(r.layout.Last(off, from, step)); op > 0 {
				known.first, known.latest = r.firstAlike(off, op), op
			}
		}
	}
	return known.first, known.latest
}

// stranger tells whether the byte at off, within the data, is foreign.
func (r *readings) stranger(off int64) bool {
	_, latest := r.reading(off, r.data.Range(off, off+1)[0], new(memory))
	return latest == nobody
}
