package report

import (
	"slices"
	"strconv"
	"strings"
)

// Grid is a table as plain data, for pages that draw it themselves. Its cells hold
// what Table prints of the same document.
type Grid struct {
	Head []Heading
	Rows [][]Cell // as many cells as headings in each
}

// Heading heads a column.
type Heading struct {
	Name   string
	Legend string // a sentence, without a point at its end
	Left   bool   // aligned left
}

// Cell is one field of a table.
type Cell struct {
	Text string
	Bad  bool // it tells of a broken promise
}

// SurvivalGrid says what became of the ops, one row a call.
func SurvivalGrid(calls []Call) Grid { return grid(visible(survivalColumns(), calls), calls) }

// CostGrid says what the calls cost, one row a call.
func CostGrid(calls []Call) Grid {
	return grid(visible(slices.Concat(survivalColumns()[:1], costColumns()), calls), calls)
}

// CutGrid says where the power went, one row a call.
func CutGrid(calls []Call) Grid { return grid(visible(cutColumns(calls), calls), calls) }

// RunGrid sums up several runs, one row each: the name, the outcome, and the rest.
func RunGrid(docs []*Document) Grid {
	cols := without(visible(runColumns(docs), docs), lostByColumn)
	i := slices.IndexFunc(cols, func(c column[*Document]) bool { return c.name == outcomeColumn })
	return grid(slices.Insert(slices.Delete(slices.Clone(cols), i, i+1), 1, cols[i]), docs)
}

// FindingGrid lists the ops of a call that broke their promise: the first full ones
// one by one, and as many ranges after them as Table shows. left is the number of
// ops that found no room.
func FindingGrid(c Call, full int) (g Grid, left int) {
	rows, rest := rowsOf(c.Findings, full)
	return grid(visible(findingColumns(), rows), rows), opsIn(rest)
}

// grid fills a table.
func grid[R any](cols []column[R], rows []R) Grid {
	g := Grid{Rows: make([][]Cell, len(rows))}
	for _, c := range cols {
		g.Head = append(g.Head, Heading{Name: c.title(), Legend: c.legend, Left: c.left})
		for i, r := range rows {
			bad := c.style != nil && c.style(r) == red
			g.Rows[i] = append(g.Rows[i], Cell{Text: Clean(c.cell(r)), Bad: bad})
		}
	}
	return g
}

// Fact is one line of the head of a report: what a run ran on.
type Fact struct {
	Name, Text string
	Warning    bool // it limits what the run can show
}

// Facts lists what Table says at its head.
func (d *Document) Facts() []Fact {
	facts := []Fact{
		{Name: "scenario", Text: d.Scenario},
		{Name: "about", Text: d.About},
		{Name: "kernel", Text: kernel(d.Machine)},
	}
	add := func(when, warning bool, name, text string) {
		if when {
			facts = append(facts, Fact{Name: name, Text: text, Warning: warning})
		}
	}
	for _, m := range d.Machine.Modules {
		add(true, true, "module", m.String())
	}
	add(true, false, "file system", filesystem(d.Filesystem))
	add(true, false, "drive", drive(d.Drive))
	add(len(d.Drive.Faults) > 0, true, "faults", "deliberate: "+strings.Join(d.Drive.Faults, ", "))
	add(d.Drive.Seen != (Seen{}) && !d.Drive.onFile(), false, "seen", seen(d.Drive.Seen))
	add(true, false, "the cut", fate(d.Drive))
	add(true, false, "workload", plan(d.Workload))
	add(true, false, "seed", strconv.FormatUint(d.Seed, 10))
	add(true, false, "machine", emulator(d.Machine))
	add(d.Drive.onFile(), true, "limits", fileLimits(d.Drive))
	add(dropsFUA(d.Drive), true, "warning", fuaWarning)
	add(d.Machine.Ledger == LedgerSerial, true, "warning", serialWarning)
	return facts
}

// Text draws the table for a terminal, in at most Width columns if its words allow.
func (g Grid) Text(colour bool) string {
	p := &page{colour: colour}
	cols := make([]column[[]Cell], len(g.Head))
	for i, h := range g.Head {
		cols[i] = column[[]Cell]{
			name: h.Name, left: h.Left, tight: 24,
			cell: func(row []Cell) string { return row[i].Text },
			style: func(row []Cell) style {
				if row[i].Bad {
					return red
				}
				return plain
			},
		}
	}
	return fitting(p, cols, g.Rows) + "\n"
}

// Legend explains the columns, for a terminal.
func (g Grid) Legend(colour bool) string {
	p := &page{colour: colour}
	for _, h := range g.Head {
		p.hang(legendMargin, bold, h.Name, h.Legend)
	}
	return p.text.String()
}

// Markdown draws the table as GitHub's Markdown has it.
func (g Grid) Markdown() string {
	m := &marked{}
	m.grid(g)
	return m.String()
}

// Line prints a label, in red where it is bad, and a text beside it, wrapped at Width.
func Line(label, text string, bad, colour bool) string {
	p := &page{colour: colour}
	st := green
	if bad {
		st = red
	}
	p.hang(margin, st, label, text)
	return p.text.String()
}
