package explore

import (
	"bytes"
	"sync"

	"powercut/guest/workload"
	"powercut/harness/verdict"
)

// blockSize is the unit in which a recovered file is digested, in bytes: the page of
// the guest, and so the least that file systems here write of a file.
const blockSize = 4096

// file is what a recovered file holds, as far as it was read. Nearly all of it is what the
// file held after some op, so that a row for a few blocks, or for a million, says it.
type file struct {
	size int64 // bytes
	rows []row // ascending; neighbours differ, so that equal files have equal rows
}

// row is some blocks of a file, from the first up to that of the next row. Each holds what it
// held after op, or all hold zeros, or all hold bytes of one digest.
type row struct {
	First  int64  `json:"first"`
	Op     int    `json:"op"`
	digest uint64 // where op is fetched
}

// What a block holds, other than after an op.
const (
	zeroed  = -1
	fetched = -2 // bytes that do not follow from the plan
)

// blocks is the number of blocks of a file of that many bytes.
func blocks(size int64) int64 { return (size + blockSize - 1) / blockSize }

// length is how many bytes a block has in a file of that size.
func length(block, size int64) int64 { return min(blockSize, size-block*blockSize) }

// add says what the blocks from r.First on hold.
func (f *file) add(r row) {
	if n := len(f.rows); n == 0 || f.rows[n-1].Op != r.Op || f.rows[n-1].digest != r.digest {
		f.rows = append(f.rows, r)
	}
}

// addFrom adds the blocks of another file from one up to another.
func (f *file) addFrom(o file, from, to int64) {
	for i := o.at(from); from < to && i < len(o.rows); i++ {
		r := o.rows[i]
		if r.First >= to {
			return
		}
		r.First = max(r.First, from)
		f.add(r)
	}
}

// at is the place of the row that a block is in.
func (f file) at(block int64) int {
	from, to := 0, len(f.rows)
	for to-from > 1 {
		if middle := (from + to) / 2; f.rows[middle].First <= block {
			from = middle
		} else {
			to = middle
		}
	}
	return from
}

// planned tells whether all of the file follows from the plan.
func (f file) planned() bool {
	for _, r := range f.rows {
		if r.Op == fetched {
			return false
		}
	}
	return true
}

// contents turns digests of a file's blocks into what they hold, and that into bytes. Most
// blocks hold what the file held there after some op, which follows from the plan, or zeros;
// others have to be fetched once.
type contents struct {
	plan    workload.Plan
	writers map[int64][]int // by block, ascending

	mu      sync.Mutex            // guards all below, which a goroutine for each checker uses
	known   map[uint64][]byte     // fetched, by digest
	initial []uint64              // by block: the digest of its first content; 0: not known yet
	derived map[part][]generation // of blocks that ops write
}

// part is the first bytes of a block.
type part struct{ block, length int64 }

// generation is the digest that part of a block has after an op.
type generation struct {
	op     int
	digest uint64
}

func newContents(p workload.Plan, begun int) *contents {
	return &contents{
		plan: p, writers: byBlock(p, begun), known: map[uint64][]byte{}, derived: map[part][]generation{},
		initial: make([]uint64, blocks(p.ReadLimit())),
	}
}

// byBlock lists for each block the ops that write to it, ascending.
func byBlock(p workload.Plan, begun int) map[int64][]int {
	out := map[int64][]int{}
	for k := 1; k <= begun; k++ {
		e := p.Op(k)
		for b := e.Offset / blockSize; b*blockSize < e.End(); b++ {
			out[b] = append(out[b], k)
		}
	}
	return out
}

// file makes a file of that many bytes of the digests of its blocks. Of each content that
// nobody knows it names a block.
func (c *contents) file(digests []uint64, size int64) (f file, unknown []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.size = size
	asked := map[uint64]bool{}
	for i, d := range digests {
		r := c.row(int64(i), d, size)
		if r.Op == fetched && c.known[d] == nil && !asked[d] {
			asked[d] = true
			unknown = append(unknown, r.First)
		}
		f.add(r)
	}
	return f, unknown
}

// row says what a block of that digest holds, in a file of that many bytes.
func (c *contents) row(block int64, digest uint64, size int64) row {
	n := length(block, size)
	if n == blockSize && len(c.writers[block]) == 0 {
		first := &c.initial[block]
		if *first == 0 {
			*first = c.digest(0, block, n)
		}
		if *first == digest {
			return row{First: block}
		}
	} else {
		for _, g := range c.generations(part{block, n}) {
			if g.digest == digest {
				return row{First: block, Op: g.op}
			}
		}
	}
	if digest == zeroDigest && n == blockSize || n < blockSize && digest == workload.Digest(make([]byte, n)) {
		return row{First: block, Op: zeroed}
	}
	return row{First: block, Op: fetched, digest: digest}
}

var zeroDigest = workload.Digest(make([]byte, blockSize))

// generations returns the digests of part of a block after each op that writes to it.
func (c *contents) generations(p part) []generation {
	if g, ok := c.derived[p]; ok {
		return g
	}
	g := []generation{{0, c.digest(0, p.block, p.length)}}
	for _, k := range c.writers[p.block] {
		g = append(g, generation{k, c.digest(k, p.block, p.length)})
	}
	c.derived[p] = g
	return g
}

// digest is that of the first n bytes of a block after op k.
func (c *contents) digest(k int, block, n int64) uint64 {
	if k == 0 && n == blockSize && c.plan.Blank() {
		return zeroDigest
	}
	var buf [blockSize]byte
	c.plan.Content(k, block*blockSize, buf[:n])
	return workload.Digest(buf[:n])
}

// add keeps fetched content.
func (c *contents) add(content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[workload.Digest(content)] = content
}

// know says what a block holds that has this content, in a file of that many bytes, and
// keeps a copy where that does not follow from the plan.
func (c *contents) know(block int64, digest uint64, size int64, content []byte) row {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.row(block, digest, size)
	if r.Op == fetched && c.known[digest] == nil {
		c.known[digest] = bytes.Clone(content)
	}
	return r
}

// view returns a file's bytes, of which all is known.
func (c *contents) view(f file) *view { return &view{contents: c, file: f} }

// view is a file's bytes, made when they are asked for: a verdict.Content.
type view struct {
	contents *contents
	file     file
	from     int64 // offset of what was made last
	made     []byte
}

// Size implements verdict.Content.
func (v *view) Size() int64 { return v.file.size }

// Range implements verdict.Content.
func (v *view) Range(from, to int64) []byte {
	if from < v.from || to > v.from+int64(len(v.made)) {
		const unit = verdict.MaxRange // a multiple of a block
		v.from = from - from%unit
		v.fill(min((to+unit-1)/unit*unit, v.file.size))
	}
	return v.made[from-v.from : to-v.from]
}

// fill makes the bytes from v.from, where a block begins, up to end.
func (v *view) fill(end int64) {
	c := v.contents
	c.mu.Lock()
	defer c.mu.Unlock()
	n := end - v.from
	if int64(cap(v.made)) < n {
		v.made = make([]byte, n)
	}
	v.made = v.made[:n]
	rows := v.file.rows
	for i, at := v.file.at(v.from/blockSize), v.from; at < end; i++ {
		next := end
		if i+1 < len(rows) {
			next = min(end, rows[i+1].First*blockSize)
		}
		switch p, r := v.made[at-v.from:next-v.from], rows[i]; r.Op {
		case zeroed:
			clear(p)
		case fetched:
			for ; len(p) > 0; p = p[min(blockSize, len(p)):] {
				copy(p, c.known[r.digest])
			}
		default:
			c.plan.Content(r.Op, at, p)
		}
		at = next
	}
}
