// Package shrink reduces a crash state that fails to one that says why: the earliest
// cut and the fewest missing writes with which it still fails. It is pure: what
// failing means is a function that the caller gives.
//
// The way is delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating
// Failure-Inducing Input", 2002): a step is tried, and stays where the state still
// fails after it. Each state that is tried is one that the fault model allows, for
// steps only move the cut towards the beginning, let missing writes reach the media,
// and lose as a whole what was lost in part. A write that is volatile at a cut is so at
// every earlier cut that it had arrived by.
package shrink

import (
	"errors"
	"fmt"
	"slices"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
)

// Test tells whether a state still fails, in the same way as the first one did.
type Test func(crash.State) (bool, error)

// Result is the smallest failing state that was found.
type Result struct {
	State crash.State
	Tests int // states that were tried, the first included
	// Minimal: each state that is one step smaller was tried and passes. These are the
	// state with the cut one position earlier, and those with one of the missing writes
	// there, or of a write that is missing in part one of the missing sectors. False
	// where the limit of tests came first.
	Minimal bool
}

// ErrPasses says that a state which was to be shrunk does not fail.
var ErrPasses = errors.New("the state does not fail")

// Shrink reduces a failing state of a log with at most limit tests, of which the
// first is that of the state itself.
func Shrink(log *blocklog.Log, s crash.State, limit int, test Test) (Result, error) {
	h := &shrinker{arrivals: arrivals(log), limit: limit, test: test, asked: map[string]bool{}}
	switch failing, err := h.fails(s); {
	case err != nil:
		return Result{}, err
	case !failing:
		return Result{}, fmt.Errorf("shrink state %s: %w", s, ErrPasses)
	}
	h.best = s
	err := h.shrink()
	r := Result{State: h.best, Tests: h.tests, Minimal: err == nil}
	if errors.Is(err, errSpent) {
		err = nil
	}
	return r, err
}

// arrivals are the positions at which requests arrived; that of request n stands at n-1.
func arrivals(log *blocklog.Log) (at []int) {
	for i, e := range log.Events {
		if e.Kind == blocklog.Arrive {
			at = append(at, i)
		}
	}
	return at
}

// errSpent says that the limit of tests is reached.
var errSpent = errors.New("no test is left")

// shrinker holds the smallest failing state so far.
type shrinker struct {
	arrivals []int
	limit    int
	tests    int
	test     Test
	asked    map[string]bool // by the text of a state: whether it fails
	best     crash.State
}

// fails tests a state, once.
func (h *shrinker) fails(s crash.State) (bool, error) {
	key := s.String()
	if failing, ok := h.asked[key]; ok {
		return failing, nil
	}
	if h.tests >= h.limit {
		return false, errSpent
	}
	h.tests++
	failing, err := h.test(s)
	if err == nil {
		h.asked[key] = failing
	}
	return failing, err
}

// try takes a state for the best one if it fails.
func (h *shrinker) try(s crash.State) (bool, error) {
	failing, err := h.fails(s)
	if failing {
		h.best = s
	}
	return failing, err
}

// shrink takes steps until there is none left. It ends: no step makes the cut later
// or adds a missing write, and each that is taken moves the cut, or takes away a
// missing write, a write that is missing in part, or a sector of one.
func (h *shrinker) shrink() error {
	for {
		before := h.best
		for _, step := range []func() error{h.earlier, h.fewer, h.whole, h.smaller} {
			if err := step(); err != nil {
				return err
			}
		}
		if h.best.Equal(before) {
			return nil
		}
	}
}

// earlier looks for an earlier cut: between one that fails and one that passes, until
// they are neighbours.
func (h *shrinker) earlier() error {
	passes := -1
	if at := h.best.Cut - 1; at >= 0 {
		if failing, err := h.try(h.cutAt(at)); err != nil || !failing {
			return err
		}
	}
	for h.best.Cut-passes > 1 {
		at := passes + (h.best.Cut-passes)/2
		failing, err := h.try(h.cutAt(at))
		if err != nil {
			return err
		}
		if !failing {
			passes = at
		}
	}
	return nil
}

// cutAt is the best state with an earlier cut. What had not arrived by then is not
// missing.
func (h *shrinker) cutAt(at int) crash.State {
	s := crash.State{Cut: at}
	for _, m := range h.best.Missing {
		if h.arrivals[m.Request-1] < at {
			s.Missing = append(s.Missing, m)
		}
	}
	return s
}

// fewer lets missing writes reach the media.
func (h *shrinker) fewer() error {
	cut := h.best.Cut
	_, err := reduce(h.best.Missing, func(missing []crash.Loss) (bool, error) {
		return h.try(crash.State{Cut: cut, Missing: missing})
	})
	return err
}

// whole loses as a whole what is missing in part: a write that never reached the media
// is the simpler story.
func (h *shrinker) whole() error {
	for i, m := range h.best.Missing {
		if len(m.Sectors) == 0 {
			continue
		}
		if _, err := h.try(h.with(i, crash.Loss{Request: m.Request})); err != nil {
			return err
		}
	}
	return nil
}

// smaller lets single sectors reach the media, of writes that are missing in part.
func (h *shrinker) smaller() error {
	for i, m := range h.best.Missing {
		if len(m.Sectors) == 0 {
			continue
		}
		_, err := reduce(m.Sectors, func(sectors []int64) (bool, error) {
			if len(sectors) == 0 { // nothing would be missing of it: a step of fewer
				return false, nil
			}
			return h.try(h.with(i, crash.Loss{Request: m.Request, Sectors: sectors}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// with is the best state with another loss in that place.
func (h *shrinker) with(i int, m crash.Loss) crash.State {
	s := crash.State{Cut: h.best.Cut, Missing: slices.Clone(h.best.Missing)}
	s.Missing[i] = m
	return s
}

// reduce takes as many items away as it can while what is left fails: first all, then
// halves, quarters and so on, and single ones until none can go any more.
func reduce[T any](items []T, fails func([]T) (bool, error)) ([]T, error) {
	for chunk := len(items); chunk > 0; {
		gone := false
		for from := 0; from < len(items); {
			fewer := slices.Concat(items[:from], items[min(from+chunk, len(items)):])
			failing, err := fails(fewer)
			if err != nil {
				return items, err
			}
			if failing {
				items, gone = fewer, true
			} else {
				from += chunk
			}
		}
		if chunk == 1 && !gone {
			return items, nil
		}
		chunk = min(max(chunk/2, 1), len(items))
	}
	return items, nil
}
