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

// contents finds the versions of the file's sectors by their content. No version
// is all zeroes, for no stamp is. Content is compared by a hash of 64 bits: among
// a million sectors a false match has a chance of one in ten million.
//
// It holds 12 bytes and a map entry for each distinct version.
type contents struct {
	plan     workload.Plan
	op       int // versions up to this op are there
	newest   map[uint64]int32
	versions []version // [0] is none
	buf      []byte
}

// chunk is how much of a file is made at a time, in bytes.
const chunk = 64 << 10

// newContents knows the first content of the plan's file.
func newContents(p workload.Plan) *contents {
	c := &contents{plan: p, newest: map[uint64]int32{}, versions: make([]version, 1), buf: make([]byte, chunk)}
	c.add(firstExtent(p), 0)
	return c
}

// firstExtent is what is written before op 1.
func firstExtent(p workload.Plan) workload.Extent {
	if p.Blank() {
		return workload.Extent{}
	}
	return workload.Extent{Length: p.SizeAfter(0)}
}

// advance adds what the ops up to started write.
func (c *contents) advance(started uint64) {
	for limit := min(started, uint64(c.plan.Count)); uint64(c.op) < limit; {
		c.op++
		c.add(c.plan.Op(c.op), c.op)
	}
}

// add inserts the sectors of an extent as they are after an op.
func (c *contents) add(e workload.Extent, op int) {
	first, end := sectorsOf(e)
	for from := first; from < end; from += chunk / sector {
		n := min(end-from, chunk/sector)
		c.plan.Content(op, int64(from)*sector, c.buf[:n*sector])
		for i := range n {
			c.insert(c.buf[i*sector:][:sector], from+i, int32(op))
		}
	}
}

// sectorsOf returns the sectors of the file, the last one excluded, that an
// extent touches.
func sectorsOf(e workload.Extent) (first, end int32) {
	if e.Length == 0 {
		return 0, 0
	}
	return int32(e.Offset / sector), int32((e.End() + sector - 1) / sector)
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

// look returns the newest version of a content, or 0.
func (c *contents) look(content []byte) int32 { return c.newest[xxhash.Sum64(content)] }

// at returns the version with the content of head that is one of file sector s,
// or 0.
func (c *contents) at(head, s int32) int32 {
	for v := head; v != 0; v = c.versions[v].next {
		if c.versions[v].sector == s {
			return v
		}
	}
	return 0
}

// alone returns head where there is no other version with its content, or 0.
func (c *contents) alone(head int32) int32 {
	if c.versions[head].next != 0 {
		return 0
	}
	return head
}
