// Package compare holds old runs against new ones: first what became of acknowledged
// writes, then how long each sync call took, then what it cost in requests.
//
// Verdicts and bills are facts and are compared as they are. Latencies are samples:
// their medians are compared by a Mann-Whitney U-test, and a difference counts where
// it is significant and beyond a threshold as well.
package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"powercut/harness/report"
)

// Schema names the version of Comparison.
const Schema = "powercut/compare/1"

// The thresholds by default, as shares of the old value. Without a timing model a
// latency is the host's, which has other things to do as well.
const (
	DefaultThreshold = 0.10
	DefaultUntimed   = 1.0
)

// Options say what counts.
type Options struct {
	// Threshold is the share of the old value beyond which a rise is a regression; nil:
	// DefaultThreshold, and DefaultUntimed for latencies of drives that have no timing
	// model.
	Threshold *float64
}

func (o Options) threshold(timed bool) float64 {
	switch {
	case o.Threshold != nil:
		return *o.Threshold
	case timed:
		return DefaultThreshold
	}
	return DefaultUntimed
}

// Outcome is what a change amounts to.
type Outcome string

// The outcomes. A Change is neither good nor bad by itself.
const (
	Regression  Outcome = "regression"
	Improvement Outcome = "improvement"
	Change      Outcome = "change"
	Same        Outcome = "same"
)

// Comparison is what came of it.
type Comparison struct {
	Schema      string       `json:"schema" doc:"powercut/compare/1"`
	Runs        [2]int       `json:"runs" doc:"how many runs there are, old and new"`
	Differences []Difference `json:"differences" doc:"what differs between what the runs ran on"`
	OnlyOld     []string     `json:"only_old" doc:"scenarios that only the old runs have"`
	OnlyNew     []string     `json:"only_new" doc:"scenarios that only the new runs have"`
	Verdicts    []Verdict    `json:"verdicts" doc:"verdicts that changed, the worst first"`
	Latencies   []Latency    `json:"latencies" doc:"of each call of each scenario"`
	Bills       []Bill       `json:"bills" doc:"figures of bills that changed"`
	Regressions int          `json:"regressions" doc:"how many of all these are regressions"`
}

// Difference is one thing that is not the same on both sides.
type Difference struct {
	What string `json:"what" doc:"such as kernel"`
	Old  string `json:"old" doc:"as the head of a report says it"`
	New  string `json:"new" doc:"the same of the new runs"`
}

// pair is a scenario that both sides have.
type pair struct {
	name     string
	old, new []*report.Document
}

// ErrNothing says that the two sides cannot be compared.
var ErrNothing = errors.New("nothing to compare")

// Runs compares. Runs of the same scenario are compared with each other, whatever
// their seeds; where each side has one scenario only, these are, whatever their names.
// It fails with ErrNothing where there is no such pair.
func Runs(old, changed []*report.Document, o Options) (*Comparison, error) {
	c := &Comparison{
		Schema: Schema, Runs: [2]int{len(old), len(changed)}, Differences: []Difference{}, OnlyOld: []string{}, OnlyNew: []string{},
		Verdicts: []Verdict{}, Latencies: []Latency{}, Bills: []Bill{},
	}
	pairs := c.pairs(old, changed)
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%w: the two sides have no scenario in common; old: %s; new: %s", ErrNothing, names(old), names(changed))
	}
	for _, p := range pairs {
		c.differences(p)
		c.Verdicts = append(c.Verdicts, p.verdicts()...)
		for _, call := range p.calls() {
			c.Latencies = append(c.Latencies, p.latency(call, o))
			c.Bills = append(c.Bills, p.bills(call, o)...)
		}
	}
	slices.SortStableFunc(c.Verdicts, func(a, b Verdict) int { return cmp.Compare(rank(a.Outcome), rank(b.Outcome)) })
	slices.SortStableFunc(c.Bills, func(a, b Bill) int { return cmp.Compare(rank(a.Outcome), rank(b.Outcome)) })
	c.Regressions = count(c.Verdicts, Verdict.outcome) + count(c.Latencies, Latency.outcome) + count(c.Bills, Bill.outcome)
	return c, nil
}

func rank(o Outcome) int { return slices.Index([]Outcome{Regression, Change, Improvement, Same}, o) }

// count counts the regressions.
func count[T any](list []T, of func(T) Outcome) int {
	n := 0
	for _, v := range list {
		if of(v) == Regression {
			n++
		}
	}
	return n
}

func (c *Comparison) pairs(old, changed []*report.Document) []pair {
	before, after := scenarios(old), scenarios(changed)
	if len(before) == 1 && len(after) == 1 {
		return []pair{{after[0], old, changed}}
	}
	var list []pair
	for _, name := range before {
		if !slices.Contains(after, name) {
			c.OnlyOld = append(c.OnlyOld, name)
			continue
		}
		list = append(list, pair{name, of(old, name), of(changed, name)})
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			c.OnlyNew = append(c.OnlyNew, name)
		}
	}
	return list
}

// scenarios names those of runs, in order of appearance.
func scenarios(docs []*report.Document) []string {
	var list []string
	for _, d := range docs {
		if !slices.Contains(list, d.Scenario) {
			list = append(list, d.Scenario)
		}
	}
	return list
}

func names(docs []*report.Document) string {
	if list := scenarios(docs); len(list) > 0 {
		return strings.Join(list, ", ")
	}
	return "none"
}

func of(docs []*report.Document, scenario string) []*report.Document {
	return slices.DeleteFunc(slices.Clone(docs), func(d *report.Document) bool { return d.Scenario != scenario })
}

// differences notes what differs at the head of the first reports of a pair. What
// differs from run to run by its nature is left out.
func (c *Comparison) differences(p pair) {
	after := map[string]string{}
	for _, f := range p.new[0].Facts() {
		after[f.Name] = f.Text
	}
	before := map[string]string{}
	var order []string
	for _, f := range p.old[0].Facts() {
		before[f.Name] = f.Text
		order = append(order, f.Name)
	}
	for _, f := range p.new[0].Facts() {
		if !slices.Contains(order, f.Name) {
			order = append(order, f.Name)
		}
	}
	for _, name := range order {
		d := Difference{What: name, Old: before[name], New: after[name]}
		if d.Old == d.New || slices.Contains([]string{"seed", "seen", "about"}, name) || slices.Contains(c.Differences, d) {
			continue
		}
		c.Differences = append(c.Differences, d)
	}
}

// calls are those that both sides have.
func (p pair) calls() []string {
	var list []string
	for _, d := range p.old {
		for _, c := range d.Calls {
			if !slices.Contains(list, c.Call) && len(callsOf(p.new, c.Call)) > 0 {
				list = append(list, c.Call)
			}
		}
	}
	return list
}

// found is a call of a run.
type found struct {
	report.Call
	doc *report.Document
}

func callsOf(docs []*report.Document, call string) []found {
	var list []found
	for _, d := range docs {
		for _, c := range d.Calls {
			if c.Call == call {
				list = append(list, found{c, d})
			}
		}
	}
	return list
}
