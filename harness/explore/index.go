package explore

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"powercut/harness/crash"
)

// finish names the outcome.
func (o *outcome) finish() {
	var b []byte
	b = append(b, o.recovery.Class...)
	b = append(b, 0)
	b = append(b, o.recovery.Detail...)
	b = append(b, 0)
	if o.exists {
		b = append(b, 1)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(o.size))
	for _, r := range o.file.rows {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.First))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Op))
		b = binary.LittleEndian.AppendUint64(b, r.digest)
	}
	b = binary.LittleEndian.AppendUint64(b, o.treeKey)
	o.key = xxhash.Sum64(b)
}

// index knows the outcomes of states that were checked: by all of their content, and
// by what their recovery needed. Recovery and read-back are functions of what they look at:
// where a state agrees with a checked one on every sector that was needed of that, the
// guest does the same with both.
type index struct {
	equal  map[uint64]*outcome // by the content's hash
	groups []*group            // those that were of use last come first
	byNeed map[uint64]*group   // by a hash of the sectors
}

// group are checked states that needed the same sectors.
type group struct {
	needed   *crash.Selection
	outcomes map[uint64]*outcome // by the hash of these sectors' content
}

func newIndex() *index {
	return &index{equal: map[uint64]*outcome{}, byNeed: map[uint64]*group{}}
}

// add takes the outcome of a state of that snapshot and content.
func (x *index) add(content uint64, o *outcome, h *crash.Hasher, snapshot []uint64) {
	o.hash = h.HashOf(snapshot, o.needed)
	for i := range o.plain {
		p := &o.plain[i]
		p.held = h.HashOf(snapshot, p.sectors)
	}
	x.put(content, o, h)
}

// put takes an outcome whose hashes are known.
func (x *index) put(content uint64, o *outcome, h *crash.Hasher) {
	x.equal[content] = o
	b := make([]byte, 0, 8*len(o.needed))
	for _, r := range o.needed {
		b = binary.LittleEndian.AppendUint32(b, uint32(r.From))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.To))
	}
	key := xxhash.Sum64(b)
	g := x.byNeed[key]
	if g == nil {
		g = &group{needed: h.Select(o.needed), outcomes: map[uint64]*outcome{}}
		x.byNeed[key] = g
		x.groups = append(x.groups, g)
	}
	g.outcomes[o.hash] = o
}

// pruned returns the outcome of a checked state with which the state that the hasher was
// asked for last agrees on all that was needed; nil where there is none. It may differ
// in what plain blocks of the file hold.
func (x *index) pruned(h *crash.Hasher) *outcome {
	for i, g := range x.groups {
		if o := g.outcomes[h.Selected(g.needed)]; o != nil {
			copy(x.groups[1:i+1], x.groups[:i])
			x.groups[0] = g
			return o
		}
	}
	return nil
}
