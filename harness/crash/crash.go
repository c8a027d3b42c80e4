// Package crash builds the states that a power cut may leave, from a block log.
// It is pure: a state is a function of the base image, the log, the cut, the
// policy and the seed.
package crash

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

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
	Random Policy = "random" // the seed decides: of each write nothing, all, or some of its sectors
)

// State is the content of the media after a cut.
type State struct {
	Media *disk.Media
	// Volatile is the number of volatile writes at the cut; Dropped the number of
	// those of which the media took nothing, and Torn of those of which it took a
	// part.
	Volatile, Dropped, Torn int
}

// change is a request that alters the media.
type change struct {
	arrive  *blocklog.Event // in the log
	durable bool
	order   int // among the replies, from 1; 0: not answered with success
}

// Build returns the state that a cut at position cut of the log leaves: the
// events before it happened, and no other. Payloads are read from log when the
// state is.
func Build(base io.ReaderAt, log *blocklog.Log, cut int, p Policy, seed uint64) (*State, error) {
	if cut < 0 || cut > len(log.Events) {
		return nil, fmt.Errorf("build crash state: the cut is at %d, the log has %d events", cut, len(log.Events))
	}
	s := &State{Media: disk.NewMedia(log.Size, base, log)}
	random := rand.New(rand.NewPCG(seed, 0x706f776572637574))
	for _, c := range changes(log.Events[:cut]) {
		if c.durable {
			apply(s.Media, c.arrive, nil)
			continue
		}
		s.Volatile++
		switch fate(p, random) {
		case dropped:
			s.Dropped++
		case whole:
			apply(s.Media, c.arrive, nil)
		case torn:
			s.Torn++
			apply(s.Media, c.arrive, random)
		}
	}
	return s, nil
}

// changes returns the requests that alter the media, in order of arrival, and
// which of them are durable at the end of the events. One that a fault lets fail
// alters nothing.
func changes(events []blocklog.Event) []*change {
	var all []*change
	open := map[uint64]*change{} // by request
	flushes := map[uint64]int{}  // open flushes: the replies that they cover
	answered, covered := 0, 0
	for i := range events {
		e := &events[i]
		switch {
		case e.Op == blocklog.Read:
		case e.Kind == blocklog.Destage:
			if c := find(all, e.Request); c != nil {
				c.durable = true
			}
		case e.Op == blocklog.Flush && e.Kind == blocklog.Arrive:
			flushes[e.Request] = answered
		case e.Op == blocklog.Flush:
			if e.Errno == 0 && !e.NoEffect {
				covered = max(covered, flushes[e.Request])
			}
			delete(flushes, e.Request)
		case e.Kind == blocklog.Arrive && e.Errno == 0:
			c := &change{arrive: e}
			open[e.Request] = c
			all = append(all, c)
		case e.Kind == blocklog.Reply && e.Errno == 0:
			answered++
			c := open[e.Request]
			c.order = answered
			c.durable = e.Durable()
			delete(open, e.Request)
		}
	}
	for _, c := range all {
		c.durable = c.durable || c.order > 0 && c.order <= covered
	}
	return all
}

// find returns the change that a request made, or nil; all is in order of requests.
func find(all []*change, request uint64) *change {
	i, ok := slices.BinarySearchFunc(all, request, func(c *change, n uint64) int { return cmp.Compare(c.arrive.Request, n) })
	if !ok {
		return nil
	}
	return all[i]
}

type outcome int

const (
	dropped outcome = iota
	whole
	torn
)

// fate decides what becomes of a volatile write.
func fate(p Policy, random *rand.Rand) outcome {
	switch p {
	case Keep:
		return whole
	case Random:
		switch n := random.IntN(8); {
		case n < 3:
			return whole
		case n < 5:
			return torn
		}
	}
	return dropped
}

// apply brings a change onto the media; with random, only some of its sectors.
func apply(m *disk.Media, e *blocklog.Event, random *rand.Rand) {
	if random == nil {
		m.Apply(e, 0, e.Length)
		return
	}
	for at := int64(0); at < e.Length; at += disk.SectorSize {
		if random.IntN(2) == 0 {
			m.Apply(e, at, disk.SectorSize)
		}
	}
}
