// Package explore checks the states that a power cut may leave of one recording: all
// cuts of its block log times what may be missing of the volatile writes.
//
// States come in the order of crash.States. Of each the hash of its content is known
// before it is built. A state is decided without a guest where an equal one was
// checked, or one that agrees with it on all that its recovery looked at; else a checker,
// a forked guest that takes one state after another, recovers it and reads the file back.
// Whatever decided it, the verdict is that on the survivors and on what had been
// acknowledged at the state's own cut. Of the states that agree with a checked one some
// are checked all the same, and an exploration in which that changes anything fails.
//
// One goroutine (Explore's caller) goes through the states, keeps what is known and
// judges. Each checker has its own goroutine, its own drive and its own Builder.
package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"powercut/guest/wire"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/machine"
	"powercut/harness/promise"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// Subject is a recording, with what is needed to recover its states.
type Subject struct {
	Call    *campaign.PastCall
	Mount   wire.Mount
	Machine *machine.Machine
	Base    io.ReaderAt // the disk as it was formatted
	Folder  string      // for the checkers' guests

	base     io.Closer
	identity string
}

// Options say how far to go.
type Options struct {
	Seed   uint64
	States int           // at most so many states are decided; 0: any number
	Budget time.Duration // … for about so long; 0: any time
	Jobs   int           // checkers
	// Every checks each state whose content is new, also where a checked one decides it.
	Every bool
	// Fsck has the file system's own checker, on this machine, examine each state that a
	// guest has recovered.
	Fsck bool
	// Found is told of each violation as it is found, Decided of the number of states
	// that are, and Each of every verdict. All may be nil.
	Found   func(Violation)
	Decided func(n int)
	Each    func(s crash.State, how How, v Verdict)
	// Store keeps what was checked; nil: nothing is kept.
	Store *Store
}

// How a state was decided.
type How string

// The ways.
const (
	Checked How = "checked" // recovered by a guest
	Equal   How = "equal"   // its content is that of a checked one
	Pruned  How = "pruned"  // it agrees with a checked one on all that its recovery looked at
)

// Verdict is what a state comes to. Two states with equal verdicts lost the same ops
// in the same way.
type Verdict struct {
	Recovery verdict.Recovery
	Result   *verdict.Result // nil where nothing was read back, and of a tree
	Tree     *promise.Result // of a workload of ops; nil where nothing was read back
	Runs     []Run           // of its ops
}

// Broken tells whether a promise was broken, or the file system not recovered.
func (v Verdict) Broken() bool {
	if v.Tree != nil {
		return v.Tree.Broken()
	}
	return v.Result == nil || v.Result.Broken()
}

// confirmed is how many outcomes that break a promise are confirmed by a fresh guest.
const confirmed = 3

// job is a state on its way through a checker.
type job struct {
	state    crash.State
	number   int // among the states, from 1
	content  uint64
	snapshot []uint64
	// expected is not nil where the state has been decided, and the guest, a fresh one if
	// fresh says so, is to come to this outcome.
	expected *outcome
	fresh    bool
}

// result is a job's end.
type result struct {
	job
	outcome *outcome
	err     error
}

type exploration struct {
	subject  *Subject
	options  Options
	report   *Report
	hasher   *crash.Hasher
	index    *index
	contents *contents
	trees    *trees
	builder  *crash.Builder // for what fits an outcome to another state
	journal  journal
	jobs     chan job
	results  chan result
	flying   map[uint64][]job // by content: a job at a checker, and states that wait for it
	resumed  map[uint64]bool  // contents that an exploration before this checked, and that have not come up yet
	busy     int              // jobs at checkers
	verdicts map[judged]Verdict
	fresh    map[uint64]bool // outcomes that were sent to be confirmed
	later    []job           // to be confirmed
	fsck     *fsck
}

// judged names what a verdict depends on.
type judged struct {
	outcome        uint64
	started, acked uint64
}

// Explore checks states until there are no more, or the options or ctx end it. The
// report tells what is known then, also beside an error.
func Explore(ctx context.Context, s *Subject, o Options) (*Report, error) {
	begun := time.Now()
	e := &exploration{
		subject: s, options: o, report: newReport(s, o),
		index: newIndex(), builder: crash.NewBuilder(s.Base, s.Call.Log), contents: newContents(s.Call.Plan, s.Call.Plan.Count), trees: newTrees(s.Call.Ops()),
		jobs: make(chan job), results: make(chan result),
		flying: map[uint64][]job{}, resumed: map[uint64]bool{}, verdicts: map[judged]Verdict{}, fresh: map[uint64]bool{},
	}
	defer func() {
		e.report.Seconds = time.Since(begun).Seconds()
		e.report.States.Cut = e.report.States.Decided() // but for what was under way
	}()
	var err error
	if o.Fsck {
		if e.fsck, err = newFsck(s.Mount.Type); err != nil {
			return e.report, err
		}
		e.report.Fsck = &Fsck{Name: e.fsck.Name}
	}
	if e.hasher, err = crash.NewHasher(s.Base, s.Call.Log, s.Call.Cut); err != nil {
		return e.report, err
	}
	if err := e.static(); err != nil {
		return e.report, err
	}
	e.resume()
	working, cancel := context.WithCancel(ctx)
	var crew sync.WaitGroup
	ends := make([]error, max(1, o.Jobs))
	for n := range ends {
		crew.Go(func() { ends[n] = e.work(working, n) })
	}
	err = e.run(ctx, begun)
	close(e.jobs)
	cancel()
	crew.Wait()
	slices.SortFunc(e.report.Violations, func(a, b Violation) int { return a.Number - b.Number })
	return e.report, errors.Join(err, errors.Join(ends...))
}

// static asks the log alone.
func (e *exploration) static() error {
	tr, err := e.subject.Call.Trace(e.subject.Base)
	if err != nil {
		return err
	}
	e.journal = journal{extents: tr.Journal, block: tr.BlockSize, first: tr.LogFrom}
	if e.subject.Call.IsOps() { // what a sync call of ops is about, the log alone does not tell
		return e.supported()
	}
	for _, c := range tr.Covers {
		if !c.Durable && c.Reason != trace.NoData {
			e.report.Uncovered = append(e.report.Uncovered, Uncovered{Op: c.Op, Position: c.AckAt, Reason: string(c.Reason), Why: c.Why})
		}
	}
	return nil
}

// work is a checker's life.
func (e *exploration) work(ctx context.Context, n int) error {
	c := &checker{
		subject: e.subject, folder: filepath.Join(e.subject.Folder, fmt.Sprint(n)), contents: e.contents, trees: e.trees, changed: e.hasher.Changed, journal: e.journal, fsck: e.fsck,
		builder: crash.NewBuilder(e.subject.Base, e.subject.Call.Log),
	}
	for j := range e.jobs {
		r := result{job: j}
		if j.fresh {
			r.err = c.renew(ctx)
		}
		if r.err == nil {
			r.outcome, r.err = c.check(ctx, j.state)
		}
		e.results <- r
	}
	return c.close()
}

// run goes through the states, and waits for the checkers in the end.
func (e *exploration) run(ctx context.Context, begun time.Time) error {
	next, stop := iter.Pull(crash.States(e.subject.Call.Log, e.subject.Call.Cut, e.options.Seed))
	defer stop()
	e.report.Ended = EndAll
	for {
		switch {
		case ctx.Err() != nil:
			e.report.Ended = EndInterrupted
		case e.options.States > 0 && e.report.States.Cut >= e.options.States:
			e.report.Ended = EndStates
		case e.options.Budget > 0 && time.Since(begun) >= e.options.Budget:
			e.report.Ended = EndBudget
		}
		if e.report.Ended != EndAll {
			break
		}
		s, ok := next()
		if !ok {
			break
		}
		if err := e.take(ctx, s); err != nil {
			if e.report.Ended = EndFailed; ctx.Err() != nil {
				e.report.Ended = EndInterrupted
			}
			return errors.Join(err, e.settle(ctx))
		}
	}
	return errors.Join(ctx.Err(), e.settle(ctx))
}

// settle waits for what is at checkers, and has what is to be confirmed so.
func (e *exploration) settle(ctx context.Context) (err error) {
	for e.busy > 0 || len(e.later) > 0 && err == nil && ctx.Err() == nil {
		if len(e.later) > 0 && err == nil && ctx.Err() == nil {
			err = errors.Join(err, e.send(e.later[0], nil))
			e.later = e.later[1:]
			continue
		}
		err = errors.Join(err, e.receive(<-e.results))
	}
	return err
}

// take decides a state, or sends it to a checker.
func (e *exploration) take(ctx context.Context, s crash.State) error {
	content, err := e.hasher.Hash(s)
	if err != nil {
		return err
	}
	e.report.States.Cut++
	j := job{state: s, number: e.report.States.Cut, content: content}
	decided := func() (bool, error) {
		if o := e.index.equal[content]; o != nil {
			how := Equal
			if e.resumed[content] {
				delete(e.resumed, content)
				e.report.States.Distinct++
				e.report.States.Resumed++
				e.checked(o)
				how = Checked
			}
			return true, e.decide(j, o, how)
		}
		if waiting, ok := e.flying[content]; ok {
			e.flying[content] = append(waiting, j)
			return true, nil
		}
		if e.options.Every {
			return false, nil
		}
		return e.prune(j)
	}
	if done, err := decided(); done || err != nil {
		return err
	}
	for len(e.later) > 0 {
		if err := e.send(e.later[0], nil); err != nil {
			return err
		}
		e.later = e.later[1:]
	}
	j.snapshot = e.hasher.Snapshot()
	return e.send(j, decided)
}

// audited is of how many states that were pruned one is checked all the same.
const audited = 256

// prune decides a state by the outcome of a checked one with which it agrees on all that
// this needed, if there is one.
func (e *exploration) prune(j job) (bool, error) {
	o := e.index.pruned(e.hasher)
	if o == nil {
		return false, nil
	}
	o, err := e.fit(j.state, o)
	if err != nil {
		return false, err
	}
	if o.second != "" { // which was about another state
		same := *o
		same.second = ""
		o = &same
	}
	e.report.States.Distinct++
	e.index.equal[j.content] = o
	if err := e.decide(j, o, Pruned); err != nil {
		return false, err
	}
	if e.report.States.Pruned%audited == 0 {
		e.later = append(e.later, job{state: j.state, expected: o})
	}
	return true, nil
}

// send gives a job to a checker. While all are busy it takes their results, after each
// of which decided is asked whether that decides the job; nil: nothing does.
func (e *exploration) send(j job, decided func() (bool, error)) error {
	for {
		select {
		case e.jobs <- j:
			e.busy++
			if j.expected == nil {
				e.report.States.Distinct++
				e.flying[j.content] = []job{j}
			}
			return nil
		case r := <-e.results:
			if err := e.receive(r); err != nil {
				return err
			}
			if decided == nil {
				continue
			}
			if done, err := decided(); done || err != nil {
				return err
			}
		}
	}
}

// receive takes what a checker has found.
func (e *exploration) receive(r result) error {
	e.busy--
	if r.err != nil {
		if r.expected == nil {
			e.report.States.Distinct--
		}
		delete(e.flying, r.content)
		return r.err
	}
	e.report.count(r.outcome)
	if r.expected != nil {
		return e.compare(r)
	}
	e.checked(r.outcome)
	e.index.add(r.content, r.outcome, e.hasher, r.snapshot)
	if err := e.options.Store.add(r.content, r.outcome); err != nil {
		return err
	}
	waiting := e.flying[r.content]
	delete(e.flying, r.content)
	for i, j := range waiting {
		how := Equal
		if i == 0 {
			how = Checked
		}
		if err := e.decide(j, r.outcome, how); err != nil {
			return err
		}
	}
	return nil
}

// checked counts a state that a guest has recovered.
func (e *exploration) checked(o *outcome) {
	e.report.States.Checked++
	e.report.Fsck.count(o)
	if e.report.Blind == "" {
		e.report.Blind = o.blind
	}
}

// compare holds what a guest made of a state that had been decided against that.
func (e *exploration) compare(r result) error {
	switch {
	case r.outcome.key != r.expected.key && r.fresh:
		return fmt.Errorf("check state %q: a guest that had recovered other states found it %s, and a fresh one %s, or read another file; neither is to be believed",
			r.state, r.expected.recovery.Class, r.outcome.recovery.Class)
	case r.fresh && r.expected.second != "" && r.outcome.second == "":
		return fmt.Errorf("check state %q: %s found what one guest had recovered damaged, and what a fresh one has not; neither is to be believed", r.state, e.fsck.Name)
	case r.outcome.key != r.expected.key:
		return fmt.Errorf("check state %q: it agrees with a checked one on all that its recovery looked at, which was %s; a guest found it %s, or read another file: pruning is not to be believed (try --no-prune)",
			r.state, r.expected.recovery.Class, r.outcome.recovery.Class)
	case r.fresh:
		e.report.Confirmed++
	default:
		e.report.Audited++
	}
	return nil
}

// decide judges a state by an outcome.
func (e *exploration) decide(j job, o *outcome, how How) error {
	switch how {
	case Equal:
		e.report.States.Equal++
	case Pruned:
		e.report.States.Pruned++
	}
	h := e.subject.Call.History(j.state.Cut)
	v, err := e.judge(h, o)
	if err != nil {
		return fmt.Errorf("judge state %q: %w", j.state, err)
	}
	if e.options.Each != nil {
		e.options.Each(j.state, how, v)
	}
	if v.Broken() || o.second != "" {
		found := e.report.violation(j, h, v, how, o.second)
		if e.options.Found != nil {
			e.options.Found(found)
		}
		if !e.fresh[o.key] && len(e.fresh) < confirmed {
			e.fresh[o.key] = true
			e.later = append(e.later, job{state: j.state, expected: o, fresh: true})
		}
	}
	if e.options.Decided != nil {
		e.options.Decided(e.report.States.Decided())
	}
	return nil
}

// judge holds an outcome against a history.
func (e *exploration) judge(h verdict.History, o *outcome) (Verdict, error) {
	if o.recovery.Class != verdict.Recovered {
		return Verdict{Recovery: o.recovery}, nil
	}
	key := judged{outcome: o.key, started: h.Started, acked: uint64(len(h.Records))}
	v, ok := e.verdicts[key]
	if ok {
		return v, nil
	}
	if o.tree != nil {
		var err error
		if v, err = e.judgeTree(h, o); err != nil {
			return v, err
		}
	} else {
		result := verdict.Judge(h, o.survivors(e.contents))
		v = Verdict{Recovery: o.recovery, Result: &result, Runs: runsOf(result.Ops)}
		result.Ops, _ = broken(&result) // the others are many, and of no use
	}
	e.verdicts[key] = v
	return v, nil
}
