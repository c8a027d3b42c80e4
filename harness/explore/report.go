package explore

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// End says why an exploration ended.
type End string

// The ends.
const (
	EndAll         End = "all states"
	EndStates      End = "the number of states"
	EndBudget      End = "the budget"
	EndInterrupted End = "interrupted"
	EndFailed      End = "the harness failed"
)

// ReportFile is where a call's folder keeps the report of its exploration.
const ReportFile = "explored.json"

// Report is what an exploration found of one recording.
type Report struct {
	Call      string      `json:"call"`
	Seed      uint64      `json:"seed"`
	Positions int         `json:"positions"`      // of the log, each of which is a cut
	Tree      bool        `json:"tree,omitempty"` // states are judged by the whole tree: the workload is one of ops
	Uncovered []Uncovered `json:"uncovered"`      // by the log alone; not of a tree
	States    States      `json:"states"`
	Broken    int         `json:"broken"` // states that break a promise, or do not recover
	// Violations are the first of these.
	Violations []Violation `json:"violations"`
	Confirmed  int         `json:"confirmed"` // of their outcomes, by a fresh guest
	Audited    int         `json:"audited"`   // pruned states that were checked all the same, and had that outcome
	// Blind says why it is not known what recovery looked at, and states are pruned by
	// all that was read; it is empty where it is known.
	Blind string `json:"blind,omitempty"`
	Fsck  *Fsck  `json:"fsck,omitempty"` // the second opinion, where one was asked for
	// Shrunk is the first violation made small; nil where nobody did.
	Shrunk  *Shrunk `json:"shrunk,omitempty"`
	Ended   End     `json:"ended"`
	Seconds float64 `json:"seconds"`
	Checks  Checks  `json:"checks"`

	ops []string // of a workload of ops
}

// Fsck is what the file system's own checker had to say of recovered states.
type Fsck struct {
	Name     string `json:"name"`     // with its options
	Examined int    `json:"examined"` // states
	Damaged  int    `json:"damaged"`
}

func (f *Fsck) count(o *outcome) {
	if f == nil || o.recovery.Class != verdict.Recovered {
		return
	}
	f.Examined++
	if o.second != "" {
		f.Damaged++
	}
}

// States counts states that were decided. Cut is Checked + Equal + Pruned.
type States struct {
	Cut      int `json:"cut"`
	Distinct int `json:"distinct"` // contents
	Checked  int `json:"checked"`  // recovered by a guest
	Resumed  int `json:"resumed"`  // of these, in an exploration before this
	Equal    int `json:"equal"`    // in content to one that was decided
	Pruned   int `json:"pruned"`   // equal to a checked one on all that its recovery looked at
}

// Decided is how many.
func (s States) Decided() int { return s.Checked + s.Equal + s.Pruned }

// Checks says where the time of checks went, in milliseconds for each on average.
type Checks struct {
	Guest Guest   `json:"guest_ms"`
	Total float64 `json:"total_ms"` // from the state's being put in to the answer, by the harness's clock
	n     int
	sum   phases
}

// Guest is guest time.
type Guest struct {
	Fsck  float64 `json:"fsck"`
	Mount float64 `json:"mount"`
	Read  float64 `json:"read"`
}

// Uncovered is an op whose data was volatile when it was acknowledged.
type Uncovered struct {
	Op       int    `json:"op"`
	Position int    `json:"position"` // of the ack
	Reason   string `json:"reason"`
	Why      string `json:"why"`
}

// Shrunk is a violation reduced to the earliest cut and the fewest missing writes that
// fail in the same way.
type Shrunk struct {
	State   string   `json:"state"`
	Tests   int      `json:"tests"`   // states that were tried
	Minimal bool     `json:"minimal"` // nothing more can be taken away
	Told    []string `json:"told"`    // why it fails, in words
	Bundle  string   `json:"bundle"`  // the file with all that recovers it again
}

// Violation is a state that breaks a promise, or does not recover.
type Violation struct {
	Number   int              `json:"number"` // among the states, from 1
	State    string           `json:"state"`
	How      How              `json:"how"`
	Started  uint64           `json:"started"` // the op that had begun last
	Acked    int              `json:"acked"`   // ops that were acknowledged
	Recovery verdict.Recovery `json:"recovery"`
	Counts   verdict.Counts   `json:"counts"`
	Fsck     string           `json:"fsck,omitempty"` // the second opinion, where it is another
	sound    bool             // by the guest's
	// Ops are the first ops that are lost or foreign.
	Ops  []verdict.OpVerdict `json:"ops"`
	Runs []Run               `json:"runs,omitempty"` // all ops; none where nothing was read back
	// Findings are the first of a workload of ops.
	Findings []promise.Finding `json:"findings,omitempty"`
	Text     string            `json:"text"`
}

// Run is a row of ops with one verdict.
type Run struct {
	First int           `json:"first"`
	Last  int           `json:"last"`
	Class verdict.Class `json:"class"`
}

// runsOf joins neighbours of one verdict.
func runsOf(ops []verdict.OpVerdict) (runs []Run) {
	for _, o := range ops {
		if n := len(runs); n > 0 && runs[n-1].Class == o.Class && runs[n-1].Last == o.Op-1 {
			runs[n-1].Last = o.Op
			continue
		}
		runs = append(runs, Run{o.Op, o.Op, o.Class})
	}
	return runs
}

// The bounds of what a report names.
const (
	maxViolations = 100
	maxOps        = 8
)

func newReport(s *Subject, o Options) *Report {
	r := &Report{
		Call: string(s.Call.Plan.Call), Tree: s.Call.IsOps(), Seed: o.Seed, Positions: s.Call.Cut + 1,
		Uncovered: []Uncovered{}, Violations: []Violation{},
	}
	if r.Tree {
		for _, o := range s.Call.OpsHistory(0).Plan.Ops {
			r.ops = append(r.ops, o.String())
		}
	}
	return r
}

// count adds the times of a check.
func (r *Report) count(o *outcome) {
	c := &r.Checks
	c.n++
	c.sum.add(o.times)
	mean := func(d time.Duration) float64 { return float64(d) / float64(c.n) / float64(time.Millisecond) }
	c.Guest, c.Total = Guest{Fsck: mean(c.sum.Fsck), Mount: mean(c.sum.Mount), Read: mean(c.sum.Read)}, mean(c.sum.Total)
}

// violation adds a state that breaks a promise.
func (r *Report) violation(j job, h verdict.History, v Verdict, how How, second string) Violation {
	out := Violation{
		Number: j.number, State: j.state.String(), How: how, Started: h.Started, Acked: max(0, len(h.Records)-1),
		Recovery: v.Recovery, Ops: []verdict.OpVerdict{}, Fsck: second, sound: !v.Broken(),
	}
	switch {
	case v.Tree != nil:
		out.ofTree(v.Tree, r.ops, h.Records)
	case v.Result == nil:
		out.Text = fmt.Sprintf("%s: %s", v.Recovery.Class, v.Recovery.Detail)
		if n := len(v.Recovery.Console); n > 0 {
			out.Text += "; the kernel said last: " + v.Recovery.Console[n-1]
		}
	default:
		out.Counts = v.Result.Counts
		out.Ops, out.Text = broken(v.Result)
		out.Runs = v.Runs
	}
	if second != "" {
		if out.Text != "" {
			out.Text += "; "
		}
		out.Text += fmt.Sprintf("%s finds what was recovered damaged: %s", r.Fsck.Name, second)
	}
	r.Broken++
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, out)
	}
	return out
}

// First is the first violation that a guest finds, other than the second opinion; nil where
// there is none.
func (r *Report) First() *Violation {
	if i := slices.IndexFunc(r.Violations, func(v Violation) bool { return !v.sound }); i >= 0 {
		return &r.Violations[i]
	}
	return nil
}

// broken lists the first ops that break a promise, and says it in words.
func broken(r *verdict.Result) (ops []verdict.OpVerdict, text string) {
	ops = []verdict.OpVerdict{}
	var words []string
	if c := r.Setup.Class; c == verdict.Lost || c == verdict.Foreign {
		words = append(words, fmt.Sprintf("the file's first content is %s: %s", c, r.Setup.Found))
	}
	for _, o := range r.Ops {
		if o.Class != verdict.Lost && o.Class != verdict.Foreign {
			continue
		}
		if len(ops) == 0 {
			words = append(words, fmt.Sprintf("op %d %s, found instead: %s", o.Op, o.Class, o.Found))
		}
		if len(ops) < maxOps {
			ops = append(ops, o)
		}
	}
	if n := r.Counts.Lost + r.Counts.Foreign; n > 1 {
		words = append(words, fmt.Sprintf("and %d more", n-1))
	}
	if r.Size != "" {
		words = append(words, r.Size)
	}
	if r.Stray != nil {
		words = append(words, "in a hole: "+r.Stray.Found)
	}
	return ops, strings.Join(words, "; ")
}

// String says it in one line, the state shortened where it lacks many writes.
func (v Violation) String() string {
	state := v.State
	if len(state) > shownState {
		state = state[:strings.LastIndexByte(state[:shownState], ',')+1] + "..."
	}
	return fmt.Sprintf("state %d (cut %s): %s", v.Number, state, v.Text)
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	s := r.States
	decided := s.Decided()
	fmt.Fprintf(&b, "%s: %d states of %d positions, seed %d: %d distinct, %d checked, %d equal, %d pruned (%d checked all the same)\n",
		r.Call, decided, r.Positions, r.Seed, s.Distinct, s.Checked, s.Equal, s.Pruned, r.Audited)
	if s.Resumed > 0 {
		fmt.Fprintf(&b, "  %d of the checks are of explorations before this\n", s.Resumed)
	}
	fmt.Fprintf(&b, "  in %.1f s (%.1f a second, %.1f checks a second), ended by %s\n",
		r.Seconds, float64(decided)/max(r.Seconds, 1e-9), float64(s.Checked-s.Resumed)/max(r.Seconds, 1e-9), r.Ended)
	if s.Checked > s.Resumed {
		c := r.Checks
		fmt.Fprintf(&b, "  a check took %.0f ms: guest %.0f ms mount, %.0f ms read", c.Total, c.Guest.Mount, c.Guest.Read)
		if c.Guest.Fsck > 0 {
			fmt.Fprintf(&b, ", %.0f ms fsck", c.Guest.Fsck)
		}
		b.WriteString("\n")
	}
	if r.Blind != "" {
		fmt.Fprintf(&b, "  states were pruned by all that was read, which is more than was looked at: %s\n", r.Blind)
	}
	if r.Fsck != nil {
		fmt.Fprintf(&b, "  %s examined %d recovered states, and found %d damaged\n", r.Fsck.Name, r.Fsck.Examined, r.Fsck.Damaged)
	}
	r.writeUncovered(&b)
	switch {
	case r.Broken == 0 && decided == 0:
		b.WriteString("  no state was decided\n")
	case r.Broken == 0:
		b.WriteString("  none of these breaks a promise\n")
	default:
		fmt.Fprintf(&b, "  %d states break a promise; the first, of which %d were confirmed by a fresh guest:\n", r.Broken, r.Confirmed)
		for _, v := range r.Violations[:min(len(r.Violations), shownViolations)] {
			fmt.Fprintf(&b, "    %s\n", v)
		}
	}
	r.Shrunk.write(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// The bounds of what Write shows.
const (
	shownViolations = 10
	shownState      = 60 // bytes of a state
)

func (r *Report) writeUncovered(b *strings.Builder) {
	if r.Tree {
		return
	}
	if len(r.Uncovered) == 0 {
		b.WriteString("  by the log alone: the data of each acknowledged op was durable at its ack\n")
		return
	}
	u := r.Uncovered[0]
	fmt.Fprintf(b, "  by the log alone: the data of %d acknowledged ops was volatile at its ack; first op %d: %s\n", len(r.Uncovered), u.Op, u.Why)
}

func (s *Shrunk) write(b *strings.Builder) {
	if s == nil {
		return
	}
	fmt.Fprintf(b, "  the first made small, after %d states: %s\n", s.Tests, s.State)
	for _, line := range s.Told {
		fmt.Fprintf(b, "    %s\n", line)
	}
	fmt.Fprintf(b, "    in one file: powercut replay %s\n", s.Bundle)
}
