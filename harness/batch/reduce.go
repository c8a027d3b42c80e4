package batch

import (
	"context"
	"slices"
	"sync"

	"powercut/guest/ops"
	"powercut/harness/campaign"
	"powercut/harness/model"
)

// Reduce takes ops away from a workload that breaks a promise, as long as some state of
// what is left breaks one in the same way, and returns the outcome of the smallest that
// it found. That one is minimal: with any op less, it keeps all or cannot be carried
// out. At most limit workloads are tried; where that is not enough the outcome is of
// the smallest so far. The outcome is found's, if that is broken in no state or does not
// break again.
//
// The way is delta debugging, as of package shrink.
func Reduce(ctx context.Context, stand *campaign.Stand, found Outcome, o Options, limit int) (Outcome, error) {
	if found.Broken() == nil {
		return found, nil
	}
	r := &reducer{best: found, limit: limit, ask: make(chan Workload), answers: make(chan Outcome)}
	o.Jobs = 1
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithCancel(ctx)
	var reducing sync.WaitGroup
	reducing.Go(func() { defer close(r.ask); r.reduce() })
	asked := func(yield func(Workload) bool) {
		for w := range r.ask {
			if !yield(w) {
				return
			}
		}
	}
	err := Run(ctx, stand, asked, o, func(out Outcome) {
		select {
		case r.answers <- out:
		case <-r.ctx.Done():
		}
	})
	cancel()
	reducing.Wait()
	r.best.Number = found.Number
	return r.best, err
}

// reducer proposes one workload after the other.
type reducer struct {
	ctx     context.Context
	best    Outcome
	limit   int // workloads that may still be tried
	ask     chan Workload
	answers chan Outcome
}

// reduce takes ops away until no single one can go.
func (r *reducer) reduce() {
	for smaller := true; smaller; {
		smaller = false
		for thread := range r.best.Workload {
			smaller = r.reduceThread(thread) || smaller
		}
	}
}

// reduceThread takes away what a thread does after the broken state, and then ever
// smaller pieces. It tells whether an op has gone.
func (r *reducer) reduceThread(thread int) (smaller bool) {
	length := func() int { return len(r.best.Workload[thread]) }
	before := length()
	if s := r.best.Broken(); s.Thread == thread+1 {
		r.try(thread, s.Op, length())
	}
	for size := max(1, length()/2); size > 0; size /= 2 {
		for from := length() - size; from >= 0; from -= size {
			r.try(thread, from, from+size)
		}
	}
	return length() < before
}

// try takes the ops from from to to of a thread away, if the rest fails in the same way.
func (r *reducer) try(thread, from, to int) {
	w := slices.Clone(r.best.Workload)
	w[thread] = slices.Delete(slices.Clone(w[thread]), from, to)
	if from == to || r.limit == 0 || !possible(w[thread]) {
		return
	}
	r.limit--
	select {
	case r.ask <- w:
	case <-r.ctx.Done():
		return
	}
	select {
	case out := <-r.answers:
		if out.Broken() != nil && wayOf(out) == wayOf(r.best) {
			r.best = out
		}
	case <-r.ctx.Done():
	}
}

// possible tells whether ops do what they are to, in a tree that is empty at first.
func possible(list []ops.Op) bool {
	if len(list) == 0 || ops.Check(list) != nil {
		return false
	}
	s := model.New()
	for k, o := range list {
		states, err := model.Apply(s, o, k+1)
		if err != nil {
			if !o.Allows(ops.ErrnoName(err)) {
				return false
			}
			continue
		}
		s = states[len(states)-1]
	}
	return true
}

// way is how a state is broken.
type way struct{ recovery, class, aspect string }

// wayOf is that of an outcome's first broken state, by its gravest finding.
func wayOf(o Outcome) way {
	s := o.Broken()
	w := way{recovery: string(s.Recovery.Class)}
	if len(s.Result.Findings) > 0 {
		w.class, w.aspect = string(s.Result.Findings[0].Class), s.Result.Findings[0].Aspect
	}
	return w
}
