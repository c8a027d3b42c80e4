package campaign

import (
	"context"
	"fmt"
	"io"

	"powercut/harness/crash"
	"powercut/harness/report"
	"powercut/harness/shrink"
	"powercut/harness/verdict"
)

// Kind says in a word or two in which way a call's promises were broken; "" where they
// were kept.
func Kind(c *report.Call) string {
	switch {
	case c.Recovery.Class != verdict.Recovered:
		return string(c.Recovery.Class)
	case c.Tree != nil && c.Tree.Broken():
		return string(c.Tree.Findings[0].Class)
	case c.Counts.Lost > 0:
		return "lost"
	case c.Counts.Foreign > 0:
		return "foreign"
	case c.Setup != "":
		return "first content"
	case c.Size != "":
		return "size"
	case c.Stray != "":
		return "holes"
	}
	return ""
}

// Shrunk is a failing state that was made small.
type Shrunk struct {
	shrink.Result
	Verdict *report.Call // of the small state
	Told    []string     // why it fails, in words
}

// Shrink reduces a failing state of a recording to the earliest cut and the fewest
// missing writes that fail with the same Kind, in at most limit checks. base is the
// recording's formatted disk, and check recovers and judges a state.
func Shrink(c *PastCall, base io.ReaderAt, s crash.State, limit int, check func(crash.State) (*report.Call, error)) (*Shrunk, error) {
	known, err := newKnown(c, base, check)
	if err != nil {
		return nil, err
	}
	first, err := known.check(s)
	if err != nil {
		return nil, err
	}
	kind := Kind(first)
	out := &Shrunk{}
	out.Result, err = shrink.Shrink(c.Log, s, limit, func(s crash.State) (bool, error) {
		v, err := known.check(s)
		return err == nil && kind != "" && Kind(v) == kind, err
	})
	if err != nil {
		return nil, err
	}
	// Once more, for itself: what is known may be of another cut.
	if out.Verdict, err = check(out.State); err != nil {
		return nil, err
	}
	if got := Kind(out.Verdict); got != kind {
		return nil, fmt.Errorf("the state %s fails in one guest (%s), and not in another (%q)", out.State, kind, got)
	}
	out.Told, err = c.Tell(base, out.State, out.Verdict)
	return out, err
}

// Tell says in words why a state fails as it does.
func (c *PastCall) Tell(base io.ReaderAt, s crash.State, v *report.Call) ([]string, error) {
	t, err := c.traceTo(s.Cut, base)
	if err != nil {
		return nil, err
	}
	op := 0
	switch {
	case len(v.Findings) > 0:
		op = v.Findings[0].Op
	case v.Tree != nil && len(v.Tree.Findings) > 0:
		op = v.Tree.Findings[0].Sync
	}
	return shrink.Tell(t, s, op), nil
}

// known remembers verdicts. Two states of the same content have the same verdict if the
// same ops had been acknowledged, and the same had begun.
type known struct {
	call     *PastCall
	hasher   *crash.Hasher
	verdicts map[outcome]*report.Call
	judge    func(crash.State) (*report.Call, error)
}

// outcome is all that a verdict depends on.
type outcome struct {
	content uint64
	records int
	started uint64
}

func newKnown(c *PastCall, base io.ReaderAt, judge func(crash.State) (*report.Call, error)) (*known, error) {
	h, err := crash.NewHasher(base, c.Log, c.Cut)
	return &known{call: c, hasher: h, verdicts: map[outcome]*report.Call{}, judge: judge}, err
}

func (k *known) check(s crash.State) (*report.Call, error) {
	content, err := k.hasher.Hash(s)
	if err != nil {
		return nil, err
	}
	h := k.call.History(s.Cut)
	key := outcome{content, len(h.Records), h.Started}
	if v := k.verdicts[key]; v != nil {
		return v, nil
	}
	v, err := k.judge(s)
	if err == nil {
		k.verdicts[key] = v
	}
	return v, err
}

// Tell says in words why a state fails as it does.
func (p *Replay) Tell(s crash.State, v *report.Call) ([]string, error) {
	return p.past.Tell(p.base, s, v)
}

// Shrink is the function Shrink, with a fresh guest for each check.
func (p *Replay) Shrink(ctx context.Context, s crash.State, limit int) (*Shrunk, error) {
	checks := 0
	out, err := Shrink(p.past, p.base, s, limit, func(s crash.State) (*report.Call, error) {
		checks++
		p.run.lab.Progress.Stage(fmt.Sprintf("shrinking, guest %d: position %d, %d writes missing", checks, s.Cut, len(s.Missing)), 0)
		return p.Check(ctx, s)
	})
	if err != nil {
		return nil, fmt.Errorf("shrink: %w", err)
	}
	return out, nil
}
