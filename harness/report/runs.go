package report

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"powercut/harness/verdict"
)

// runs draws the table of runs in the airiest form that fits. Where the folders
// find no room beside the rest, those of the runs that did not hold stand below.
func (p *page) runs(docs []*Document, legend bool) {
	cols, s := p.runTable(docs)
	p.line(s)
	if legend {
		p.blank()
		explain(p, cols)
		p.hang(legendMargin, bold, unread, "not known: the disk of at least one call could not be read back")
		p.hang(legendMargin, bold, none, "the run had no such call")
	}
	p.blank()
	if cols[len(cols)-1].name != folderColumn {
		p.folders(docs)
	}
}

// runTable returns the table of runs, and the columns that it shows.
func (p *page) runTable(docs []*Document) ([]column[*Document], string) {
	cols := visible(runColumns(docs), docs)
	var calls []string // the columns of single calls
	for _, call := range callsOf(docs) {
		calls = append(calls, lostIn(call))
	}
	least := without(cols, append(calls, folderColumn, lostByColumn)...)
	for _, form := range [][]column[*Document]{
		without(cols, lostByColumn),
		without(cols, lostByColumn, folderColumn),
		without(cols, append(calls, folderColumn)...),
		least,
	} {
		for _, gap := range []int{2, 1} {
			if s := render(p, form, docs, gap); fits(s) {
				return form, s
			}
		}
	}
	return least, fitting(p, least, docs)
}

const (
	lostByColumn  = "lost by"
	folderColumn  = "folder"
	outcomeColumn = "outcome"
)

// lostIn names the column of what one call lost.
func lostIn(call string) string { return "lost by\n" + call }

// callsOf lists the calls of all runs, in order of first appearance.
func callsOf(docs []*Document) []string {
	var list []string
	for _, d := range docs {
		for _, c := range d.Calls {
			if !slices.Contains(list, c.Call) {
				list = append(list, c.Call)
			}
		}
	}
	return list
}

// runColumns are the columns of the table of runs; the last one is the folder. What each
// call lost is in a column of its own, and in that of lostByColumn.
func runColumns(docs []*Document) []column[*Document] {
	parent := parentOf(docs)
	cols := []column[*Document]{
		{
			name: "scenario", left: true, tight: 16, legend: "name of the scenario",
			cell: func(d *Document) string { return d.Scenario },
		},
		{
			name: "seed", legend: "what every random decision of the run followed from",
			cell: func(d *Document) string { return strconv.FormatUint(d.Seed, 10) },
		},
		{
			name: "acked", legend: "ops acknowledged before the cut, over all sync calls of the run",
			cell: func(d *Document) string { return strconv.Itoa(total(d, acked)) },
		},
		{
			name: "kept", legend: "acked, and in the file after recovery; of a workload of ops, all that is as promised or customary",
			cell: survivors(func(n verdict.Counts) int { return n.Kept }),
		},
		{
			name: "lost", legend: "acked, and not in the file after recovery: at least one byte is older than the op, or beyond the file's end; of a workload of ops, all that is not as promised or customary",
			cell:  survivors(lost),
			style: redIf(func(d *Document) bool { return total(d, lost) > 0 }),
		},
	}
	for _, call := range callsOf(docs) {
		cols = append(cols, column[*Document]{
			name: lostIn(call), first: call == callsOf(docs)[0], legend: "ops of " + call + " that are lost",
			cell:  func(d *Document) string { return lostOf(d, call) },
			style: redIf(func(d *Document) bool { return lostOf(d, call) != "0" && lostOf(d, call) != none }),
		})
	}
	return append(cols, []column[*Document]{
		{
			name: lostByColumn, left: true, most: 24, legend: "the sync calls that lost ops, and how many each",
			cell:  lostBy,
			shown: func(d *Document) bool { return total(d, lost) > 0 },
		},
		{
			name: "foreign", legend: "ops of which at least one byte is one that no op ever wrote there",
			cell:  survivors(foreign),
			style: redIf(func(d *Document) bool { return total(d, foreign) > 0 }),
			shown: func(d *Document) bool { return total(d, foreign) > 0 },
		},
		{
			name: "recovery", left: true, most: 20, legend: "which recoveries failed, and how",
			cell:  recovered,
			style: redIf(func(d *Document) bool { return !recoveredAll(d) }),
			shown: func(d *Document) bool { return !recoveredAll(d) },
		},
		{
			name: outcomeColumn, left: true, legend: "held: every expectation of the scenario was met",
			cell:  outcome,
			style: outcomeStyle,
		},
		{
			name: folderColumn, left: true, legend: "where everything of the run is" + below(parent),
			cell: func(d *Document) string { return strings.TrimPrefix(d.Folder, parent) },
		},
	}...)
}

func redIf(is func(*Document) bool) func(*Document) style {
	return func(d *Document) style {
		if is(d) {
			return red
		}
		return plain
	}
}

// lostOf counts what one call lost.
func lostOf(d *Document, call string) string {
	for _, c := range d.Calls {
		if c.Call == call {
			return survivor(lost)(c)
		}
	}
	return none
}

func recoveredAll(d *Document) bool { return recovered(d) == string(verdict.Recovered) }

func acked(n verdict.Counts) int   { return n.Acked }
func lost(n verdict.Counts) int    { return n.Lost }
func foreign(n verdict.Counts) int { return n.Foreign }

func unpromised(n verdict.Counts) int { return n.Unpromised }

// judged are the counts of a call that was read back. Of a workload of ops kept and lost
// are things, not ops: what is as promised or customary, and what is not.
func judged(c Call) verdict.Counts {
	n := c.Counts
	if c.Tree != nil {
		t := c.Tree.Counts
		n.Kept, n.Lost = t.Kept+t.Custom, t.Lost+t.Customary+t.Forbidden
	}
	return n
}

// total adds up a count over the calls of a run. What follows from survivors
// counts only where there is something to count: where the disk was read back.
func total(d *Document, count func(verdict.Counts) int) int {
	n := 0
	for _, c := range d.Calls {
		if read(c) {
			n += count(judged(c))
			continue
		}
		n += count(verdict.Counts{Ops: c.Counts.Ops, Acked: c.Counts.Acked, Failed: c.Counts.Failed})
	}
	return n
}

// survivors writes a total, marked where it is not the whole.
func survivors(count func(verdict.Counts) int) func(*Document) string {
	return func(d *Document) string {
		known := 0
		for _, c := range d.Calls {
			if read(c) {
				known++
			}
		}
		switch {
		case known == len(d.Calls):
			return strconv.Itoa(total(d, count))
		case known == 0:
			return unread
		}
		return fmt.Sprintf("%d+%s", total(d, count), unread)
	}
}

func lostBy(d *Document) string {
	var by []string
	for _, c := range d.Calls {
		if read(c) && judged(c).Lost > 0 {
			by = append(by, fmt.Sprintf("%s %d", c.Call, judged(c).Lost))
		}
	}
	return strings.Join(by, ", ")
}

// recovered sums up the recoveries of a run: the one word if all went well.
func recovered(d *Document) string {
	var failed []string
	for _, c := range d.Calls {
		if !read(c) {
			failed = append(failed, c.Call+": "+className(c.Recovery))
		}
	}
	if len(failed) == 0 {
		return string(verdict.Recovered)
	}
	return strings.Join(failed, ", ")
}

func outcome(d *Document) string {
	switch {
	case d.Held:
		return "held"
	case d.Unjudged():
		return "not judged"
	}
	return "NOT MET"
}

func outcomeStyle(d *Document) style {
	switch {
	case d.Held:
		return green
	case d.Unjudged():
		return amber
	}
	return red
}

// parentOf returns the folder that all run folders are in, with its last slash,
// or "" where they are not all in one.
func parentOf(docs []*Document) string {
	parent := ""
	for i, d := range docs {
		dir, _ := path.Split(d.Folder)
		if i > 0 && dir != parent {
			return ""
		}
		parent = dir
	}
	return parent
}

func below(parent string) string {
	if parent == "" {
		return ""
	}
	return ", below " + parent
}

// folders names the folders of the runs that did not hold.
func (p *page) folders(docs []*Document) {
	indent, widest := 0, 0
	for _, d := range docs {
		if !d.Held {
			indent = max(indent, text.StringWidth(title(d))+1)
			widest = max(widest, text.StringWidth(d.Folder))
		}
	}
	if indent == 0 {
		return
	}
	if indent+widest > Width {
		indent = 4
	}
	for _, d := range docs {
		if !d.Held {
			p.hang(indent, outcomeStyle(d), title(d), d.Folder)
		}
	}
	p.blank()
}

func title(d *Document) string { return fmt.Sprintf("%s seed %d", d.Scenario, d.Seed) }

// verdict is the last line.
func (p *page) verdict(docs []*Document) {
	st := green
	for _, d := range docs {
		if s := outcomeStyle(d); s == red || s == amber && st == green {
			st = s
		}
	}
	label, rest, _ := strings.Cut(TallyRuns(docs), " held")
	s := "held" + rest + "."
	if parent := parentOf(docs); parent != "" {
		s = "held" + rest + "; the run folders are in " + parent
	}
	p.hang(4, st, label, s)
}
