package explore

import (
	"sync"

	"powercut/guest/workload"
)

// blockSize is the unit in which a recovered file is digested, in bytes: the page of
// the guest, and so the least that file systems here write of a file.
const blockSize = 4096

// contents turns digests of a file's blocks back into bytes. Most blocks hold what the
// file held there after some op, which follows from the plan; others have to be
// fetched once.
type contents struct {
	mu      sync.Mutex // guards the maps, which a goroutine for each checker uses
	plan    workload.Plan
	writers map[int64][]int          // by block
	known   map[uint64][]byte        // fetched, by digest
	derived map[int64]map[uint64]int // by block and length: the op after which it has that digest
}

func newContents(p workload.Plan, begun int) *contents {
	return &contents{plan: p, writers: byBlock(p, begun), known: map[uint64][]byte{}, derived: map[int64]map[uint64]int{}}
}

// missing returns the blocks of a file of that many bytes whose content nobody knows.
func (c *contents) missing(digests []uint64, size int64) (blocks []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, d := range digests {
		if !c.knows(int64(i), d, size) {
			blocks = append(blocks, int64(i))
		}
	}
	return blocks
}

func (c *contents) knows(block int64, digest uint64, size int64) bool {
	if _, ok := c.known[digest]; ok {
		return true
	}
	_, ok := c.versions(block, length(block, size))[digest]
	return ok
}

// length is how many bytes a block has in a file of that size.
func length(block, size int64) int64 { return min(blockSize, size-block*blockSize) }

// add keeps fetched content.
func (c *contents) add(content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[workload.Digest(content)] = content
}

// know keeps the content of a block of a file of that many bytes, if nobody knows it.
func (c *contents) know(block int64, digest uint64, size int64, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.knows(block, digest, size) {
		c.known[digest] = content
	}
}

// versions returns the digests that the first n bytes of a block have after each op.
func (c *contents) versions(block, n int64) map[uint64]int {
	key := block*(blockSize+1) + n
	if v, ok := c.derived[key]; ok {
		return v
	}
	v := map[uint64]int{}
	buf := make([]byte, n)
	for _, k := range append([]int{0}, c.writers[block]...) {
		c.plan.Content(k, block*blockSize, buf)
		v[workload.Digest(buf)] = k
	}
	c.derived[key] = v
	return v
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

// bytes returns the content of a file of that many bytes, of which all blocks are known.
func (c *contents) bytes(digests []uint64, size int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]byte, min(size, int64(len(digests))*blockSize))
	for i, d := range digests {
		block := int64(i)
		part := out[block*blockSize:][:length(block, int64(len(out)))]
		if b, ok := c.known[d]; ok {
			copy(part, b)
		} else {
			c.plan.Content(c.versions(block, int64(len(part)))[d], block*blockSize, part)
		}
	}
	return out
}
