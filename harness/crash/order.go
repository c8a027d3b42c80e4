package crash

import (
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/cespare/xxhash/v2"

	"powercut/harness/blocklog"
)

// The bounds of what States draws for one cut.
const (
	draws = 8 // at random, by request and again by sector
	small = 5 // volatile writes of which all subsets are states
)

// States goes through the states of a log up to a cut, each once. Every position is
// a cut: before each event, and at the end.
//
// First comes what says most: at each ack, that is where an op was first counted as
// acknowledged, everything volatile is lost. Then the same after each event of a
// flush, and at every other position. Then breadth: all is kept; and in rounds, of
// which each gives every cut one state of each kind: all is kept but one write, all
// is lost but one, a beginning of the writes is kept, each write is kept at random,
// each sector is, and where few are volatile the subsets one by one. Cuts are taken
// in an order that spreads over the log: first every sixteenth, then those between.
//
// Order and set follow from the log and the seed alone. Within a pass over the log cuts
// ascend, as Builder and Hasher like it.
func States(log *blocklog.Log, end int, seed uint64) iter.Seq[State] {
	return func(yield func(State) bool) {
		o := &order{log: log, seed: seed, seen: map[uint64]bool{}, yield: yield}
		acks, flushes, others := places(log.Events[:end])
		all := slices.Concat(acks, flushes, others)
		slices.Sort(all)
		for _, pass := range []struct {
			cuts []int
			kind kind
		}{
			{acks, losing},
			{flushes, losing},
			{all, losing},
			{acks, keeping},
			{all, keeping},
		} {
			if o.spread(pass.cuts, 0, pass.kind) == stopped {
				return
			}
		}
		for round := 0; ; round++ {
			var more progress
			for _, cuts := range [][]int{acks, all} {
				switch o.spread(cuts, round, rounds...) {
				case stopped:
					return
				case advanced:
					more = advanced
				}
			}
			if more == idle {
				return
			}
		}
	}
}

// places sorts the positions of a log by what they cut: where an ack was first
// counted, and the end, which may follow one; after an event of a flush; all others.
func places(events []blocklog.Event) (acks, flushes, others []int) {
	acked := uint64(0)
	for at := range len(events) + 1 {
		switch {
		case at == len(events) || events[at].Acked > acked:
			acks = append(acks, at)
		case at > 0 && events[at-1].Op == blocklog.Flush:
			flushes = append(flushes, at)
		default:
			others = append(others, at)
		}
		if at < len(events) {
			acked = events[at].Acked
		}
	}
	return acks, flushes, others
}

// progress is how a pass went.
type progress int

const (
	idle     progress = iota // there was nothing left to give
	advanced                 // there was
	stopped                  // nobody wants more
)

// order gives states, each once.
type order struct {
	log   *blocklog.Log
	seed  uint64
	seen  map[uint64]bool // hashes of the texts of those that were given
	yield func(State) bool
}

// levels is how often the distance of cuts is halved.
const levels = 5

// spread passes over cuts that stand in ascending order: first every sixteenth, then
// those in the middle between them, and so on.
func (o *order) spread(cuts []int, round int, kinds ...kind) (p progress) {
	for level := range levels {
		step := 1 << (levels - 1 - level)
		t := newTimeline(o.log.Events, nil)
		var volatile []*blocklog.Event
		for i := step - 1; i < len(cuts); i += step {
			if level > 0 && (i+1)/step%2 == 0 {
				continue // of a level before
			}
			if t.to(cuts[i]) != nil {
				return stopped // cuts are positions of the log
			}
			volatile = t.volatile(volatile)
			for _, k := range kinds {
				switch o.give(t, volatile, round, k) {
				case stopped:
					return stopped
				case advanced:
					p = advanced
				}
			}
		}
	}
	return p
}

// give gives the state of a kind at the timeline's cut, if there is one in that round.
func (o *order) give(t *timeline, volatile []*blocklog.Event, round int, k kind) progress {
	random := rand.New(rand.NewPCG(o.seed, uint64(t.at)<<16^uint64(k)))
	lost := k.losses(volatile, round, o.log.Unit, random)
	if lost == nil {
		return idle
	}
	s := t.state(lost)
	key := xxhash.Sum64String(s.String())
	if o.seen[key] {
		return advanced
	}
	o.seen[key] = true
	if !o.yield(s) {
		return stopped
	}
	return advanced
}

// kind is a way to choose what is missing.
type kind int

const (
	losing   kind = iota // everything
	keeping              // nothing
	missing              // one write
	alone                // all but one write
	prefix               // all but a beginning of the writes
	requests             // each write at random
	sectors              // each sector at random
	subset               // a subset of the writes, of few
)

// rounds are the kinds of which there is more than one state at a cut.
var rounds = []kind{missing, alone, prefix, requests, sectors, subset}

// losses returns what a state of the kind lacks of each volatile write; nil where
// there is none in that round. unit is what the drive writes whole. random is the same in all rounds at one cut.
func (k kind) losses(volatile []*blocklog.Event, round int, unit int64, random *rand.Rand) func(*blocklog.Event) Loss {
	n := len(volatile)
	if k == losing {
		return whole
	}
	if k == keeping {
		return func(*blocklog.Event) Loss { return Loss{} }
	}
	if n == 0 || round >= k.most(n) {
		return nil
	}
	switch k {
	case missing:
		one := volatile[random.Perm(n)[round]].Request
		return some(func(e *blocklog.Event) bool { return e.Request == one })
	case alone:
		one := volatile[random.Perm(n)[round]].Request
		return some(func(e *blocklog.Event) bool { return e.Request != one })
	case prefix:
		first := volatile[1+random.Perm(n - 1)[round]].Request
		return some(func(e *blocklog.Event) bool { return e.Request >= first })
	case requests, sectors:
		drawn := rand.New(rand.NewPCG(random.Uint64(), uint64(round)))
		if k == sectors {
			return func(e *blocklog.Event) Loss { return scattered(e, unit, drawn) }
		}
		return some(func(*blocklog.Event) bool { return drawn.IntN(2) == 0 })
	}
	set := round // of bits, by place among the volatile
	return some(func(*blocklog.Event) bool {
		in := set&1 != 0
		set >>= 1
		return in
	})
}

// most is the number of states of the kind at a cut with n volatile writes.
func (k kind) most(n int) int {
	switch k {
	case prefix:
		return n - 1
	case requests, sectors:
		return draws
	case subset:
		if n > small {
			return 0
		}
		return 1 << n
	}
	return n
}

// some lacks the writes that are in a set.
func some(in func(*blocklog.Event) bool) func(*blocklog.Event) Loss {
	return func(e *blocklog.Event) Loss {
		if in(e) {
			return whole(e)
		}
		return Loss{}
	}
}
