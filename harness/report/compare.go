package report

import (
	"fmt"
	"strings"

	"powercut/scenarios"
)

// Comparison is a condition between cells of a matrix, and what came of it.
type Comparison struct {
	Matrix    string  `json:"matrix" doc:"name of the matrix"`
	Text      string  `json:"text" doc:"the condition, as the scenario says it"`
	Ratio     float64 `json:"ratio" doc:"what the runs showed; of several, the ratio of the medians"`
	Published float64 `json:"published,omitempty" doc:"of means the same ratio between the published figures, which are means, where both are known"`
	Runs      int     `json:"runs" doc:"pairs of runs, one of each cell, that could be compared"`
	HeldIn    int     `json:"held_in" doc:"of these, those in which it held"`
	Held      bool    `json:"held" doc:"it holds of ratio"`
	Busy      bool    `json:"busy,omitempty" doc:"it does not, and the machine was too busy in one of the runs: see expectations[].busy"`
}

// Compare judges what the matrices say of their cells, where the documents have all
// that it takes. Of several runs of a cell the medians are compared, and for HeldIn
// the first runs of the two cells, the second, and so on. A condition that cannot be
// read, in a document of a later version, is not judged.
func Compare(docs []*Document) []Comparison {
	var out []Comparison
	for _, matrix := range matricesOf(docs) {
		for _, text := range conditionsOf(matrix, docs) {
			c, err := scenarios.ParseComparison(text)
			if err != nil {
				continue
			}
			over, under := termOf(matrix, c.Over, c.Measure, docs), termOf(matrix, c.Under, c.Measure, docs)
			if len(over.values) > 0 && len(under.values) > 0 {
				out = append(out, judgeComparison(matrix, c, over, under))
			}
		}
	}
	return out
}

// conditionsOf lists what the runs of a matrix say must hold between its cells.
func conditionsOf(matrix string, docs []*Document) []string {
	for _, d := range docs {
		if d.Matrix != nil && d.Matrix.Of == matrix {
			return d.Matrix.Compare
		}
	}
	return nil
}

// term is what the runs of a cell measured, and what was published of it.
type term struct {
	values    []float64
	published float64 // for one op; 0 where nothing was, or a range
	busy      bool    // in one of the runs
}

func termOf(matrix string, t scenarios.Term, m scenarios.Measure, docs []*Document) term {
	var out term
	for _, d := range docs {
		if d.Scenario != matrix+"-"+t.Cell {
			continue
		}
		for _, c := range d.Calls {
			if c.Call != string(t.Call) || c.Latency.N == 0 {
				continue
			}
			out.values, out.busy = append(out.values, measured(c, m)), out.busy || c.TooBusy()
			if c.Figure != nil && c.Figure.Low == c.Figure.High {
				out.published = c.Figure.Low / float64(d.Figures.Per)
			}
		}
	}
	return out
}

// measured is a latency of a call, in nanoseconds.
func measured(c Call, m scenarios.Measure) float64 {
	switch m {
	case scenarios.P50:
		return float64(c.Latency.P50)
	case scenarios.P99:
		return float64(c.Latency.P99)
	case scenarios.Max:
		return float64(c.Latency.Max)
	case scenarios.InDrive:
		return c.Bill.DriveTime
	}
	return c.Latency.Mean
}

func judgeComparison(matrix string, c scenarios.Comparison, over, under term) Comparison {
	out := Comparison{
		Matrix: matrix, Text: c.String(), Runs: min(len(over.values), len(under.values)),
		Ratio: ratio(Median(over.values), Median(under.values)),
	}
	for i := range out.Runs {
		if holds(c, over.values[i], under.values[i]) {
			out.HeldIn++
		}
	}
	out.Held = holds(c, Median(over.values), Median(under.values))
	out.Busy = !out.Held && (over.busy || under.busy)
	if c.Measure == scenarios.Mean { // as published figures are
		out.Published = ratio(over.published, under.published)
	}
	return out
}

// holds tells whether a ratio is as it must be; without anything to divide by it is not.
func holds(c scenarios.Comparison, over, under float64) bool {
	return under > 0 && c.Bound.Holds(over/under)
}

// ratio is over / under, and 0 where under is 0.
func ratio(over, under float64) float64 {
	if under == 0 {
		return 0
	}
	return over / under
}

// found says what the runs showed.
func (c Comparison) found() string {
	s := fmt.Sprintf("%.2f", c.Ratio)
	if c.Published > 0 {
		s += fmt.Sprintf(" (published: %.2f)", c.Published)
	}
	if c.Runs > 1 {
		s += fmt.Sprintf(", and in %d of %d pairs of runs", c.HeldIn, c.Runs)
	}
	return s
}

// comparisons says what came of each.
func (p *page) comparisons(list []Comparison) {
	for _, c := range list {
		label, st := "ok", green
		switch {
		case c.Held:
		case c.Busy:
			label, st = "BUSY", amber
		default:
			label, st = "NOT MET", red
		}
		p.hang(9, st, label, strings.Join([]string{c.Matrix, c.Text, c.found()}, ": "))
	}
	if len(list) > 0 {
		p.blank()
	}
}
