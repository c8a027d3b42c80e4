package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"powercut/harness/compare"
	"powercut/harness/latency"
	"powercut/harness/report"
)

// Night is what a folder of results says, held against that of another night.
type Night struct {
	Plan Plan
	// Baseline is the folder of the other night; empty: there is none.
	Baseline string
	Flaky    []Row // same seed, other verdict
	Broke    []Row // not met, and held in the baseline, or there is nothing to hold it against
	Failing  []Row // not met, as in the baseline
	Mended   []Row // held, and not in the baseline
	Broken   []Row // the harness failed
	Missing  []string
	New      []string // cells that the baseline does not have, or has with another scenario
	Gone     []string // cells that the baseline alone has
	Between  []report.Comparison
	Dearer   []Dearer
	Held     int
	Cells    int     // of the share
	Seconds  float64 // of the host, added up

	Evidence []string // folders that evidence is in
}

// Row is a cell that the page names.
type Row struct {
	Cell     string
	Was, Is  string
	What     string
	Evidence string // the run folder, if it is still there
}

// Dearer is a latency or a bill that is a regression against the baseline.
type Dearer struct{ Scenario, Call, What, Was, Is string }

// Tell tells of a folder. baseline may be nil.
func Tell(f, baseline *Folder) *Night {
	n := &Night{Plan: f.Plan}
	if baseline != nil {
		n.Baseline = baseline.Path
	}
	mine := f.Plan.Share.names(f.Plan.names())
	n.Cells = len(mine)
	for _, e := range f.Plan.Cells {
		if !mine[e.Cell] {
			continue
		}
		r := f.Results[e.Cell]
		if r == nil {
			n.Missing = append(n.Missing, e.Cell)
			continue
		}
		n.Seconds += r.Seconds
		n.cell(r, baseline.of(e))
		if baseline != nil && baseline.of(e) == nil {
			n.New = append(n.New, e.Cell)
		}
	}
	for _, c := range report.Compare(runs(f.Ordered())) {
		if !c.Held {
			n.Between = append(n.Between, c)
		}
	}
	n.against(f, baseline)
	return n
}

// names lists the names of the plan's cells.
func (p Plan) names() []string {
	var list []string
	for _, e := range p.Cells {
		list = append(list, e.Cell)
	}
	return list
}

// of returns what the folder has of the very same cell; nil: nothing.
func (f *Folder) of(e PlanEntry) *Result {
	if f == nil || f.Results[e.Cell] == nil || f.Results[e.Cell].Digest != e.Digest {
		return nil
	}
	return f.Results[e.Cell]
}

// cell puts a result where it belongs.
func (n *Night) cell(r, before *Result) {
	row := Row{Cell: r.Cell, Is: string(r.Outcome), What: r.what(), Evidence: r.evidence()}
	if before.done() {
		row.Was = string(before.Outcome)
	}
	if row.Evidence != "" {
		root := strings.TrimSuffix(row.Evidence[:strings.LastIndex(row.Evidence, r.Cell)], "/")
		if !slices.Contains(n.Evidence, root) {
			n.Evidence = append(n.Evidence, root)
		}
	}
	if r.Outcome == Held {
		n.Held++
	}
	switch {
	case r.Flaky():
		row.Was, row.Is = string(r.Outcome), string(r.Again)
		n.Flaky = append(n.Flaky, row)
	case r.Outcome == Broken:
		n.Broken = append(n.Broken, row)
	case before.done() && before.Outcome != r.Outcome && before.likewise(r):
		n.Flaky = append(n.Flaky, row)
	case r.Outcome == NotMet && before.done() && before.Outcome == NotMet:
		n.Failing = append(n.Failing, row)
	case r.Outcome == NotMet:
		n.Broke = append(n.Broke, row)
	case before.done() && before.Outcome == NotMet:
		n.Mended = append(n.Mended, row)
	}
}

// likewise tells whether two results of a cell come from the same powercut and the
// same kernel, so that nothing but the verdict differs.
func (r *Result) likewise(o *Result) bool {
	a, b := r.Run.Machine, o.Run.Machine
	return r.Program == o.Program && r.Program != "" && a.Release == b.Release && a.QEMU == b.QEMU && a.Accelerator == b.Accelerator &&
		slices.EqualFunc(a.Modules, b.Modules, func(x, y report.Module) bool { return x.BuildID == y.BuildID })
}

// what says in one line what did not hold.
func (r *Result) what() string {
	if r.Outcome == Broken {
		text, _, _ := strings.Cut(r.Error, "\n")
		return text
	}
	var list []string
	for _, e := range r.Run.Expectations {
		if !e.Held {
			list = append(list, e.Text+", found "+e.Found)
		}
	}
	if len(list) > 1 {
		return fmt.Sprintf("%s; and %d more", list[0], len(list)-1)
	}
	return strings.Join(list, "")
}

// runs lists the documents of results that have one.
func runs(results []*Result) []*report.Document {
	var docs []*report.Document
	for _, r := range results {
		if r.Run != nil {
			docs = append(docs, r.Run)
		}
	}
	return docs
}

// Runs are the runs of a folder, in the order of the suite.
func (f *Folder) Runs() []*report.Document { return runs(f.Ordered()) }

// against notes what the baseline alone has, and what became slower or dearer since.
func (n *Night) against(f, baseline *Folder) {
	if baseline == nil {
		return
	}
	here := map[string]bool{}
	for _, e := range f.Plan.Cells {
		here[e.Cell] = true
	}
	for _, e := range baseline.Plan.Cells {
		if !here[e.Cell] {
			n.Gone = append(n.Gone, e.Cell)
		}
	}
	var old, changed []*Result
	for _, r := range f.Ordered() {
		if before := baseline.of(PlanEntry{r.Cell, r.Digest}); before.done() && r.done() {
			old, changed = append(old, before), append(changed, r)
		}
	}
	c, err := compare.Runs(runs(old), runs(changed), compare.Options{})
	if errors.Is(err, compare.ErrNothing) {
		return
	}
	for _, l := range c.Latencies {
		if l.Outcome == compare.Regression && l.P != nil { // a difference that no test has seen is none
			n.Dearer = append(n.Dearer, Dearer{l.Scenario, l.Call, "median latency", latency.Format(l.Old.Center), latency.Format(l.New.Center)})
		}
	}
	for _, b := range c.Bills {
		if b.Outcome == compare.Regression {
			n.Dearer = append(n.Dearer, Dearer{b.Scenario, b.Call, b.What + " an op", fmt.Sprintf("%.2f", b.Old), fmt.Sprintf("%.2f", b.New)})
		}
	}
}

// Outcome sums the night up. It is NotMet where a cell, or a condition between cells,
// did not hold; else Broken where the harness failed, a result is missing or one is
// flaky; else Held.
func (n *Night) Outcome() Outcome {
	switch {
	case n.Held+len(n.Broken)+len(n.Missing) < n.Cells, len(n.Between) > 0:
		return NotMet
	case len(n.Broken)+len(n.Missing)+len(n.Flaky) > 0:
		return Broken
	}
	return Held
}
