package trace

import (
	"github.com/cespare/xxhash/v2"

	"powercut/guest/workload"
)

// sector is the unit in which a drive is atomic and in which content is told.
const sector = 512

// version is the content that a sector of the plan's file has after an op.
type version struct {
	sector int32 // of the file
	op     int32 // that wrote into the sector last; 0 is the file's first content
	next   int32 // the next older version of the same content, or 0
}

// contents finds the versions of the file's sectors by their content. Content
// is compared by a hash of 64 bits: among a million sectors a false match has a
// chance of one in ten million.
//
// It holds 12 bytes and a map entry for each distinct version, and 512 bytes for
// each sector that an op wrote in part: at most two an op.
type contents struct {
	plan     workload.Plan
	op       int // versions up to this op are there
	newest   map[uint64]int32
	versions []version // [0] is none
	// The content of a sector that ops have written to is that of partial, or
	// else the stamps of the op in whole, or else the first content.
	partial map[int32]*[sector]byte
	whole   map[int32]int32
	// blank holds the sectors that had been nothing but zeroes before and after an
	// op wrote into them (a stamp may be zero), and the last such op. In a file
	// that grows they cannot be told from a block that nobody wrote.
	blank map[int32]int32
	buf   [sector]byte
}

// newContents knows the first content of the plan's file.
func newContents(p workload.Plan) *contents {
	c := &contents{
		plan: p, newest: map[uint64]int32{}, versions: make([]version, 1),
		partial: map[int32]*[sector]byte{}, whole: map[int32]int32{}, blank: map[int32]int32{},
	}
	if p.Kind != workload.Overwrite {
		return c
	}
	for off := int64(0); off < p.Size; off += sector {
		s := int32(off / sector)
		c.first(&c.buf, s)
		c.insert(c.buf[:], s, 0)
	}
	return c
}

// first sets buf to the content of a sector before op 1.
func (c *contents) first(buf *[sector]byte, s int32) {
	clear(buf[:])
	off := int64(s) * sector
	if c.plan.Kind == workload.Overwrite && off < c.plan.Size {
		workload.Fill(buf[:min(sector, c.plan.Size-off)], c.plan.Seed, off, 0)
	}
}

// advance adds what the ops up to started write.
func (c *contents) advance(started uint64) {
	for limit := min(started, uint64(c.plan.Count)); uint64(c.op) < limit; {
		c.op++
		e := c.plan.Op(c.op)
		for off := e.Offset - e.Offset%sector; off < e.End(); off += sector {
			s := int32(off / sector)
			empty := c.empty(s)
			content := c.write(s, e, c.op)
			c.insert(content, s, int32(c.op))
			if empty && string(content) == string(zeroes[:]) {
				c.blank[s] = int32(c.op)
			}
		}
	}
}

// empty tells whether a sector of a file that grows holds only zeroes so far.
func (c *contents) empty(s int32) bool {
	if _, ok := c.whole[s]; ok || c.plan.Kind != workload.Append {
		return false
	}
	buf, ok := c.partial[s]
	return !ok || *buf == zeroes
}

// write returns the content of a sector after an op that writes to extent e. It
// is valid until the next call.
func (c *contents) write(s int32, e workload.Extent, op int) []byte {
	off := int64(s) * sector
	if e.Offset <= off && off+sector <= e.End() {
		delete(c.partial, s)
		c.whole[s] = int32(op)
		workload.Fill(c.buf[:], c.plan.Seed, off, op)
		return c.buf[:]
	}
	buf, ok := c.partial[s]
	if !ok {
		buf = new([sector]byte)
		if w, ok := c.whole[s]; ok {
			workload.Fill(buf[:], c.plan.Seed, off, int(w))
		} else {
			c.first(buf, s)
		}
		c.partial[s] = buf
	}
	from, to := max(e.Offset, off), min(e.End(), off+sector)
	workload.Fill(buf[from-off:to-off], c.plan.Seed, from, op)
	return buf[:]
}

// insert makes (s, op) the newest version of its content. An older version of
// the same sector and content is replaced: the two cannot be told apart, and
// whatever holds the one holds the other.
func (c *contents) insert(content []byte, s, op int32) {
	sum := xxhash.Sum64(content)
	head := c.newest[sum]
	prev := int32(0)
	for v := head; v != 0; prev, v = v, c.versions[v].next {
		if c.versions[v].sector != s {
			continue
		}
		c.versions[v].op = op
		if prev != 0 {
			c.versions[prev].next = c.versions[v].next
			c.versions[v].next = head
			c.newest[sum] = v
		}
		return
	}
	c.versions = append(c.versions, version{sector: s, op: op, next: head})
	c.newest[sum] = int32(len(c.versions) - 1)
}

// match is what the content of one sector may be.
type match struct {
	head int32 // newest version of that content, or 0
	zero bool  // all bytes are zero, which by itself says nothing
}

var zeroes [sector]byte

func (c *contents) look(content []byte) match {
	return match{head: c.newest[xxhash.Sum64(content)], zero: string(content) == string(zeroes[:])}
}

// at returns the version among those of m that is one of file sector s, or 0.
func (c *contents) at(m match, s int32) int32 {
	for v := m.head; v != 0; v = c.versions[v].next {
		if c.versions[v].sector == s {
			return v
		}
	}
	return 0
}

// alone returns the version of m where it is the only one, or 0.
func (c *contents) alone(m match) int32 {
	if m.zero || m.head == 0 || c.versions[m.head].next != 0 {
		return 0
	}
	return m.head
}
