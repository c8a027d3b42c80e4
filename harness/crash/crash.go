// Package crash builds the states that a power cut may leave, from a block log.
// It is pure: a state is a cut and what of the volatile writes is missing, and its
// content a function of that, the base image and the log.
//
// Choose picks the one state of a policy. States goes through all of a log's, the
// most telling first. A Builder makes content of them, a Hasher says which have the
// same content; both are cheap where they are asked for states in ascending order
// of cuts.
package crash

import (
	"fmt"
	"io"
	"math/rand/v2"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
)

// Policy says what the cut does to the volatile writes: those in the drive's
// cache, and those in flight.
type Policy string

// The policies.
const (
	Lose   Policy = "lose"   // none reaches the media
	Keep   Policy = "keep"   // all do
	Random Policy = "random" // the seed decides: of each write nothing, all, or some of its sectors (of the drive's own: blocklog.Log.Unit)
)

// Choose returns the state that a policy leaves of a log that is cut at a position:
// the events before it happened, and no other.
func Choose(log *blocklog.Log, cut int, p Policy, seed uint64) (State, error) {
	t := newTimeline(log.Events, nil)
	if err := t.to(cut); err != nil {
		return State{}, err
	}
	random := rand.New(rand.NewPCG(seed, 0x706f776572637574))
	return t.state(func(e *blocklog.Event) Loss {
		switch fate(p, random) {
		case dropped:
			return whole(e)
		case torn:
			return scattered(e, log.Unit, random)
		}
		return Loss{}
	}), nil
}

// Build returns the content of the state that Choose picks. Payloads are read from
// log when the content is.
func Build(base io.ReaderAt, log *blocklog.Log, cut int, p Policy, seed uint64) (*Image, error) {
	s, err := Choose(log, cut, p, seed)
	if err != nil {
		return nil, err
	}
	return NewBuilder(base, log).Build(s)
}

type outcome int

const (
	dropped outcome = iota
	kept
	torn
)

// fate decides what becomes of a volatile write.
func fate(p Policy, random *rand.Rand) outcome {
	switch p {
	case Keep:
		return kept
	case Random:
		switch n := random.IntN(8); {
		case n < 3:
			return kept
		case n < 5:
			return torn
		}
	}
	return dropped
}

// Image is the content of the media in one state.
type Image struct {
	// Media holds what the state adds to what was durable, of which it has no copy: it
	// is good until its Builder goes on to another cut.
	Media *disk.Media
	// Volatile is the number of volatile writes at the cut; Dropped the number of
	// those of which the media took nothing, and Torn of those of which it took a
	// part.
	Volatile, Dropped, Torn int
}

// Builder makes content of the states of one log. Between states in ascending order
// of cuts it goes on from what is durable, so that a state costs what is volatile and
// what has become durable since; a cut further back begins anew. It is for one
// goroutine at a time.
type Builder struct {
	base    io.ReaderAt
	log     *blocklog.Log
	line    *timeline
	durable *disk.Media
}

// NewBuilder returns a builder for a log of a drive with that content at first.
func NewBuilder(base io.ReaderAt, log *blocklog.Log) *Builder {
	b := &Builder{base: base, log: log}
	b.begin()
	return b
}

func (b *Builder) begin() {
	b.durable = disk.NewMedia(b.log.Size, b.base, b.log)
	b.line = newTimeline(b.log.Events, func(e *blocklog.Event) { b.durable.Apply(e, 0, e.Length) })
}

// Build returns the content of a state. It fails where the state is none of this log.
func (b *Builder) Build(s State) (*Image, error) {
	if s.Cut < b.line.at {
		b.begin()
	}
	if err := b.line.to(s.Cut); err != nil {
		return nil, err
	}
	out := &Image{Media: disk.NewMedia(b.log.Size, b.durable, b.log)}
	err := b.line.walk(s, func(c *change, m Loss) {
		e := c.arrive
		if !c.durable {
			out.Volatile++
		}
		switch {
		case m.all(e):
			out.Dropped++
			return
		case len(m.Sectors) > 0:
			out.Torn++
		}
		m.kept(e, func(from, to int64) { out.Media.Apply(e, from*disk.SectorSize, (to-from)*disk.SectorSize) })
	})
	if err != nil {
		return nil, fmt.Errorf("build crash state: %w", err)
	}
	return out, nil
}
