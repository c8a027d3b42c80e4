package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"powercut/harness/promise"
)

// Matrix is the place of a run among those of a matrix of scenarios.
type Matrix struct {
	Of   string   `json:"of" doc:"name of the matrix"`
	Cell []string `json:"cell" doc:"field=value for each axis of the matrix"`
	// Compare is written as in the scenario's format.
	Compare []string `json:"compare,omitempty" doc:"what must hold between the cells of the matrix"`
}

// Runs prints several runs: those of a matrix in its tables, all others one row
// each; then published figures beside theirs, and what came of the comparisons
// between cells; and says last how many held.
func Runs(w io.Writer, docs []*Document, o Options) error {
	p := &page{colour: o.Colour}
	if !o.Quiet {
		p.several(docs, o.Explain)
	}
	p.verdict(docs)
	return p.writeTo(w)
}

// several prints the tables of several runs.
func (p *page) several(docs []*Document, legend bool) {
	var plain []*Document
	for _, d := range docs {
		if d.Matrix == nil {
			plain = append(plain, d)
		}
	}
	if len(plain) > 0 {
		p.runs(plain, legend)
	}
	for _, name := range matricesOf(docs) {
		p.matrix(name, slices.DeleteFunc(slices.Clone(docs), func(d *Document) bool { return d.Matrix == nil || d.Matrix.Of != name }), legend)
	}
	p.allFigures(docs, legend)
	p.comparisons(Compare(docs))
}

// matricesOf names the matrices of the runs, in order of appearance.
func matricesOf(docs []*Document) []string {
	var names []string
	for _, d := range docs {
		if d.Matrix != nil && !slices.Contains(names, d.Matrix.Of) {
			names = append(names, d.Matrix.Of)
		}
	}
	return names
}

// matrix draws the runs of one matrix: the first axis down, the second one across,
// and a table for each combination of the others.
func (p *page) matrix(name string, docs []*Document, legend bool) {
	p.hang(margin, bold, name, docs[0].About)
	p.blank()
	for _, block := range distinct(docs, func(d *Document) string { return strings.Join(tail(d.Matrix.Cell, 2), ", ") }) {
		if block != "" {
			p.line(p.paint(bold, Clean(block)))
		}
		in := slices.DeleteFunc(slices.Clone(docs), func(d *Document) bool { return strings.Join(tail(d.Matrix.Cell, 2), ", ") != block })
		for across := range slices.Chunk(distinct(in, second), maxAcross) {
			p.line(fitting(p, matrixColumns(in, across), distinct(in, first)))
			p.blank()
		}
	}
	if byKernel(docs) {
		p.kernels(docs)
	}
	if legend {
		p.matrixLegend(docs)
	}
	p.wrong(docs)
	p.folders(docs)
}

// matrixLegend explains the columns of a matrix, which are values of its axes, and
// the words of its cells.
func (p *page) matrixLegend(docs []*Document) {
	for i, legend := range []string{"the first axis of the matrix: one row a value", "the second axis: one column a value"} {
		if axis, _, ok := strings.Cut(at(docs[0].Matrix.Cell, i), "="); ok {
			p.hang(legendMargin, bold, axis, legend)
		}
	}
	if len(docs[0].Matrix.Cell) > 2 {
		p.hang(legendMargin, bold, "above a table", "values of the other axes, which hold for all of it")
	}
	for _, word := range [][2]string{
		{"kept N", "all N acknowledged ops are in the file after recovery; of workloads of ops, all N things that a sync call promised or that are custom: names, sizes, bytes, attributes"},
		{"lost L/N: reason", "L of N acknowledged ops are not, or their recovery failed; and why they were not durable when they were acknowledged; of workloads of ops, so many things, and which"},
		{"not promised and gone U", "acknowledged ops that are not there in full, and need not be: the call promises nothing of what is missing"},
		{"foreign F", "ops of which at least one byte is one that no op ever wrote there"},
		{wrongCell, "at least one run of the cell did not meet its expectations; a loss that is expected is not wrong"},
		{busyCell, "at least one run of the cell was not judged: all that it did not meet are times, and this machine was too busy to judge them"},
		{"flush, FUA write", "what reached the drive from op 1 to the cut: proof of what was in force"},
		{none, "no run has these values"},
	} {
		p.hang(legendMargin, bold, word[0], word[1])
	}
	p.blank()
}

// maxAcross is how many values of the second axis stand side by side.
const maxAcross = 3

// tail is what follows the first n of a list.
func tail(list []string, n int) []string { return list[min(n, len(list)):] }

func first(d *Document) string { return at(d.Matrix.Cell, 0) }

func second(d *Document) string { return at(d.Matrix.Cell, 1) }

// at is an element of a list, or "".
func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// distinct lists the values of f over the runs, in order of appearance.
func distinct(docs []*Document, f func(*Document) string) []string {
	var list []string
	for _, d := range docs {
		if s := f(d); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// matrixColumns are the columns of one table, for those values of the second axis;
// its rows are values of the first.
func matrixColumns(docs []*Document, across []string) []column[string] {
	axis, _, _ := strings.Cut(first(docs[0]), "=")
	cols := []column[string]{{
		name: axis, left: true,
		cell: func(row string) string { _, value, _ := strings.Cut(row, "="); return value },
	}}
	for i, value := range across {
		in := func(row string) []*Document {
			return slices.DeleteFunc(slices.Clone(docs), func(d *Document) bool { return first(d) != row || second(d) != value })
		}
		cols = append(cols, column[string]{
			name: or(strings.Replace(value, "=", "\n", 1), "outcome"), left: true, first: i == 0, most: 44, tight: (Width - 22) / len(across),
			cell: func(row string) string { return cellText(in(row)) },
			style: func(row string) style {
				switch cellOutcome(in(row)) {
				case wrongCell:
					return red
				case busyCell:
					return amber
				}
				return plain
			},
		})
	}
	return cols
}

// What a cell's text begins with where not all of its runs held.
const (
	wrongCell = "WRONG"
	busyCell  = "BUSY"
)

// cellOutcome is wrongCell where a run of a cell did not meet its expectations, busyCell
// where this machine was merely too busy to judge one, and "" where all held.
func cellOutcome(docs []*Document) string {
	word := ""
	for _, d := range docs {
		switch {
		case d.Held:
		case d.Unjudged():
			word = busyCell
		default:
			return wrongCell
		}
	}
	return word
}

// cellText says what became of the acknowledged ops of the runs of one cell, and
// why, and what the drive saw: "kept 40 · 66 flushes, no FUA write", or "lost 21/21:
// no flush before the ack · no flush, no FUA write".
func cellText(docs []*Document) string {
	if len(docs) == 0 {
		return none
	}
	ackedOps, lostOps, foreignOps, unpromisedOps := 0, 0, 0, 0
	var sum Seen
	var causes []string
	note := func(s string) {
		if s != "" && !slices.Contains(causes, s) {
			causes = append(causes, s)
		}
	}
	for _, d := range docs {
		ackedOps, lostOps, foreignOps = ackedOps+total(d, acked), lostOps+total(d, lost), foreignOps+total(d, foreign)
		unpromisedOps += total(d, unpromised)
		sum.Flushes, sum.FUAWrites = sum.Flushes+d.Drive.Seen.Flushes, sum.FUAWrites+d.Drive.Seen.FUAWrites
		for _, c := range d.Calls {
			if !read(c) {
				note(className(c.Recovery))
			}
			for _, f := range c.Findings {
				note(string(f.Reason))
			}
		}
	}
	text := fmt.Sprintf("kept %d", ackedOps-unpromisedOps)
	if lostOps > 0 || len(causes) > 0 {
		text = fmt.Sprintf("lost %d/%d: %s", lostOps, ackedOps, strings.Join(causes, "; "))
	}
	if docs[0].Workload.Ops != nil {
		text = thingsText(docs, causes)
	}
	if unpromisedOps > 0 {
		text += fmt.Sprintf(", not promised and gone %d", unpromisedOps)
	}
	if foreignOps > 0 {
		text += fmt.Sprintf(", foreign %d", foreignOps)
	}
	if word := cellOutcome(docs); word != "" {
		text = word + ": " + text
	}
	if docs[0].Drive.onFile() {
		return text
	}
	flushes, fua := inForce(sum)
	return fmt.Sprintf("%s · %s, %s", text, flushes, fua)
}

// thingsText says what became of the things that the sync calls of workloads of ops
// promised: "kept 7", or "lost 1 of 7: mode of a".
func thingsText(docs []*Document, causes []string) string {
	kept, lost := 0, 0
	for _, d := range docs {
		for _, c := range d.Calls {
			if c.Tree == nil {
				continue
			}
			n := c.Tree.Counts
			kept, lost = kept+n.Kept+n.Custom, lost+n.Lost+n.Customary+n.Forbidden
			for _, f := range c.Tree.Findings {
				if what := f.Aspect + " of " + f.Path; f.Class != promise.Unpromised && !slices.Contains(causes, what) {
					causes = append(causes, what)
				}
			}
		}
	}
	if lost == 0 && len(causes) == 0 {
		return fmt.Sprintf("kept %d", kept)
	}
	return fmt.Sprintf("lost %d of %d: %s", lost, kept+lost, strings.Join(causes, "; "))
}

// wrong counts the cells that are not as expected, and those that were not judged.
func (p *page) wrong(docs []*Document) {
	cells := distinct(docs, func(d *Document) string { return d.Scenario })
	count := map[string]int{}
	for _, cell := range cells {
		count[cellOutcome(slices.DeleteFunc(slices.Clone(docs), func(d *Document) bool { return d.Scenario != cell }))]++
	}
	st, text := green, "no wrong cell"
	if n := count[busyCell]; n > 0 {
		st, text = amber, fmt.Sprintf("no wrong cell, %d BUSY", n)
	}
	if n := count[wrongCell]; n > 0 {
		st, text = red, strings.Replace(text, "no wrong cell", plural(n, "wrong cell"), 1)
	}
	p.hang(4, st, text, fmt.Sprintf("of %d, in %s; the acknowledged ops of all its runs and calls are added up in a cell.", len(cells), plural(len(docs), "run")))
	p.blank()
}
