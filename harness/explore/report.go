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

// Schema is the version of Document.
const Schema = "powercut-explore/1"

// Document is what powercut explore --json prints.
type Document struct {
	Schema   string    `json:"schema" doc:"powercut-explore/1"`
	Scenario string    `json:"scenario" doc:"name of the scenario"`
	Folder   string    `json:"folder" doc:"the run folder"`
	Kernel   string    `json:"kernel" doc:"release of the kernel that recovered the states"`
	Calls    []*Report `json:"calls" doc:"what was found of each recording; explored.json in its folder holds the same"`
	Held     bool      `json:"held" doc:"no state breaks a promise, and all was looked at that was to be"`
}

// Report is what an exploration found of one recording.
type Report struct {
	Call      string      `json:"call" doc:"the sync call of the recording; ops of a workload of operations"`
	Seed      uint64      `json:"seed" doc:"what the order of states, and random ones, follow from"`
	Positions int         `json:"positions" doc:"of the log, each of which is a cut"`
	Tree      bool        `json:"tree,omitempty" doc:"states are judged by the whole tree: the workload is one of operations"`
	Doubted   []int       `json:"doubted,omitempty" doc:"ops that are sync calls which succeeded after an error, up to the run's own cut, and so promise nothing"`
	Uncovered []Uncovered `json:"uncovered" doc:"acknowledged ops whose data was volatile at the ack, by the log alone; none of operations"`
	States    States      `json:"states" doc:"the states that were decided"`
	Broken    int         `json:"broken" doc:"states that break a promise, or do not recover"`
	// Violations are the first of these.
	Violations []Violation `json:"violations" doc:"the first of these, at most 100"`
	Confirmed  int         `json:"confirmed" doc:"of their outcomes, by a fresh guest"`
	Audited    int         `json:"audited" doc:"pruned states that were checked all the same, and had the outcome that they were given"`
	Blind      string      `json:"blind,omitempty" doc:"why it is not known what recovery looked at, so that states were pruned by all that was read"`
	Fsck       *Fsck       `json:"fsck,omitempty" doc:"the second opinion, where one was asked for"`
	Shrunk     *Shrunk     `json:"shrunk,omitempty" doc:"the first violation made small"`
	Ended      End         `json:"ended" doc:"why the exploration ended: all states, the number of states, the budget, interrupted, or the harness failed"`
	Seconds    float64     `json:"seconds" doc:"how long it took"`
	Checks     Checks      `json:"checks" doc:"where the time of a check went, on average"`

	ops []string // of a workload of ops
}

// Fsck is what the file system's own checker had to say of recovered states.
type Fsck struct {
	Name     string `json:"name" doc:"the checker, with its options"`
	Examined int    `json:"examined" doc:"recovered states that it looked at"`
	Damaged  int    `json:"damaged" doc:"of these, those that it found damaged"`
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
	Cut      int `json:"cut" doc:"decided: checked, equal and pruned ones"`
	Distinct int `json:"distinct" doc:"contents"`
	Checked  int `json:"checked" doc:"recovered by a guest"`
	Resumed  int `json:"resumed" doc:"of these, in an exploration before this"`
	Equal    int `json:"equal" doc:"in content to one that was decided"`
	Pruned   int `json:"pruned" doc:"equal to a checked one on all that its recovery looked at"`
}

// Decided is how many.
func (s States) Decided() int { return s.Checked + s.Equal + s.Pruned }

// Checks says where the time of checks went, in milliseconds for each on average.
type Checks struct {
	Guest Guest   `json:"guest_ms" doc:"milliseconds of the guest's clock"`
	Total float64 `json:"total_ms" doc:"milliseconds from the state's being put in to the answer, by the harness's clock"`
	n     int
	sum   phases
}

// Guest is guest time.
type Guest struct {
	Fsck  float64 `json:"fsck" doc:"the file system's checker, where one goes first"`
	Mount float64 `json:"mount" doc:"the mount, and the replay of a journal in it"`
	Read  float64 `json:"read" doc:"reading the file, or the tree, back"`
}

// Uncovered is an op whose data was volatile when it was acknowledged.
type Uncovered struct {
	Op       int    `json:"op" doc:"its number, from 1"`
	Position int    `json:"position" doc:"of its ack"`
	Reason   string `json:"reason" doc:"in a few fixed words"`
	Why      string `json:"why" doc:"in full"`
}

// Shrunk is a violation reduced to the earliest cut and the fewest missing writes that
// fail in the same way.
type Shrunk struct {
	State   string   `json:"state" doc:"the earliest cut and the fewest missing writes that fail in the same way, as log state and replay take it"`
	Tests   int      `json:"tests" doc:"states that were tried"`
	Minimal bool     `json:"minimal" doc:"nothing more can be taken away"`
	Told    []string `json:"told" doc:"why it fails, in words"`
	Bundle  string   `json:"bundle" doc:"the file with all that recovers it again"`
}

// Violation is a state that breaks a promise, or does not recover.
type Violation struct {
	Number   int              `json:"number" doc:"among the states, from 1"`
	State    string           `json:"state" doc:"its cut, and the requests that did not reach the media"`
	How      How              `json:"how" doc:"how it was decided: checked, equal or pruned"`
	Started  uint64           `json:"started" doc:"the op that had begun last"`
	Acked    int              `json:"acked" doc:"ops that were acknowledged; of operations those that had ended"`
	Recovery verdict.Recovery `json:"recovery" doc:"what recovery came to"`
	Counts   verdict.Counts   `json:"counts" doc:"adds up its ops"`
	Fsck     string           `json:"fsck,omitempty" doc:"what the second opinion has against it"`
	sound    bool             // by the guest's
	// Ops are the first ops that are lost or foreign.
	Ops      []verdict.OpVerdict `json:"ops" doc:"the first ops that are lost or foreign, at most 8"`
	Runs     []Run               `json:"runs,omitempty" doc:"all ops, neighbours of one verdict together; none where nothing was read back"`
	Findings []promise.Finding   `json:"findings,omitempty" doc:"of operations: the first that break a promise or a custom, at most 8"`
	Text     string              `json:"text" doc:"what is wrong, in words"`
}

// Run is a row of ops with one verdict.
type Run struct {
	First int           `json:"first" doc:"number of the first op"`
	Last  int           `json:"last" doc:"number of the last op"`
	Class verdict.Class `json:"class" doc:"their verdict; empty of an operation that is no sync call"`
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
	for _, o := range s.Call.Ops() {
		r.ops = append(r.ops, o.String())
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
	if n := len(r.Doubted); n > 0 {
		fmt.Fprintf(&b, "  %d sync calls succeeded after an error, and no success promises anything then; the first is op %d, %s\n", n, r.Doubted[0], r.ops[r.Doubted[0]-1])
	}
	if !r.Tree {
		r.writeUncovered(&b)
	}
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
