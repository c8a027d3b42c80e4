package crash

import (
	"cmp"
	"fmt"
	"slices"

	"powercut/harness/blocklog"
)

// change is a request that alters the media.
type change struct {
	arrive  *blocklog.Event // in the log
	durable bool
	order   int // among the replies, from 1; 0: not answered with success
}

// timeline goes through a log and knows at each position which changes are durable
// and which are volatile. Changes take effect in order of arrival, so those before
// the first volatile one are settled for good; only what follows it has to be looked
// at for a state.
type timeline struct {
	events  []blocklog.Event
	at      int                   // the position: the events before it happened
	settle  func(*blocklog.Event) // told of each change that is settled, in order of arrival; may be nil
	pending []*change             // not settled, in order of arrival; the first is volatile
	open    map[uint64]*change    // arrived and not answered, by request
	flushes map[uint64]int        // open flushes: the replies that they cover
	// answered counts replies of changes; those up to covered are covered by a flush of
	// that part of the drive.
	answered int
	covered  map[part]int
}

// part is what a flush is for: see blocklog.Event.
type part struct{ offset, length int64 }

// newTimeline begins before the first event.
func newTimeline(events []blocklog.Event, settle func(*blocklog.Event)) *timeline {
	return &timeline{events: events, settle: settle, open: map[uint64]*change{}, flushes: map[uint64]int{}, covered: map[part]int{}}
}

// to goes on to a position, which is none before the present one.
func (t *timeline) to(cut int) error {
	if cut < t.at || cut > len(t.events) {
		return fmt.Errorf("build crash state: the cut is at %d, the log has %d events", cut, len(t.events))
	}
	for ; t.at < cut; t.at++ {
		t.take(&t.events[t.at])
	}
	n := 0
	for ; n < len(t.pending) && t.pending[n].durable; n++ {
		if t.settle != nil {
			t.settle(t.pending[n].arrive)
		}
	}
	t.pending = t.pending[n:]
	return nil
}

// take lets an event happen. A request that a fault lets fail alters nothing.
func (t *timeline) take(e *blocklog.Event) {
	switch {
	case e.Op == blocklog.Read:
	case e.Kind == blocklog.Destage:
		if i, ok := t.find(e.Request); ok {
			t.pending[i].durable = true
		}
	case e.Op == blocklog.Flush && e.Kind == blocklog.Arrive:
		t.flushes[e.Request] = t.answered
	case e.Op == blocklog.Flush:
		if e.Errno == 0 && !e.NoEffect {
			t.cover(e, t.flushes[e.Request])
		}
		delete(t.flushes, e.Request)
	case e.Kind == blocklog.Arrive && e.Errno == 0:
		c := &change{arrive: e}
		t.open[e.Request] = c
		t.pending = append(t.pending, c)
	case e.Kind == blocklog.Reply && e.Errno == 0:
		t.answered++
		c := t.open[e.Request]
		c.order, c.durable = t.answered, e.Durable()
		delete(t.open, e.Request)
	}
}

// cover makes durable what was answered before that many replies had been given, and
// lies where the flush is for.
func (t *timeline) cover(flush *blocklog.Event, replies int) {
	p := part{flush.Offset, flush.Length}
	if replies <= t.covered[p] {
		return
	}
	t.covered[p] = replies
	for _, c := range t.pending {
		c.durable = c.durable || c.order > 0 && c.order <= replies && flush.Flushes(c.arrive.Offset, c.arrive.Length)
	}
}

// find returns the place of a request's change among the pending ones.
func (t *timeline) find(request uint64) (int, bool) {
	return slices.BinarySearchFunc(t.pending, request, func(c *change, n uint64) int { return cmp.Compare(c.arrive.Request, n) })
}

// volatile lists the changes that are volatile, in order of arrival.
func (t *timeline) volatile(list []*blocklog.Event) []*blocklog.Event {
	list = list[:0]
	for _, c := range t.pending {
		if !c.durable {
			list = append(list, c.arrive)
		}
	}
	return list
}

// state returns the state in which lost says what is missing of each volatile
// change, in order of arrival.
func (t *timeline) state(lost func(*blocklog.Event) Loss) State {
	s := State{Cut: t.at}
	for _, c := range t.pending {
		if c.durable {
			continue
		}
		if m := lost(c.arrive); !m.none() {
			s.Missing = append(s.Missing, m)
		}
	}
	return s
}

// walk calls each for every pending change, in order of arrival, with what the state
// lacks of it. It fails where the state lacks anything that is not volatile.
func (t *timeline) walk(s State, each func(c *change, m Loss)) error {
	missing := s.Missing
	for _, c := range t.pending {
		m := Loss{}
		if !c.durable && len(missing) > 0 && missing[0].Request == c.arrive.Request {
			m, missing = missing[0], missing[1:]
			if err := m.check(c.arrive); err != nil {
				return err
			}
		}
		each(c, m)
	}
	if len(missing) > 0 {
		return fmt.Errorf("request %d is no volatile write at position %d", missing[0].Request, t.at)
	}
	return nil
}
