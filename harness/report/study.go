package report

import (
	"fmt"
	"slices"
	"strings"

	"powercut/harness/latency"
	"powercut/harness/report/plot"
)

// Study is what runs of one scenario, or of the cells of one matrix, show together.
type Study struct {
	Name, About string
	Of, Why     []string // of each published system, and of what makes ours differ, once
	Figures     Grid     // published figures beside ours; without rows where there are none
	Costs       Grid     // latencies and bill of each cell and call
	Comparisons []Comparison
	Lost        []string // what was lost, where anything was: "cell, call: 30 of 30"
	Busy        string   // of what the host was too busy to judge; empty where of nothing
	Picture     plot.Figure
	Runs        int // of each cell; of the one that was run most
}

// Studies sorts runs by what they belong to, and that by name. Of several runs of a
// cell the medians stand.
func Studies(docs []*Document) []Study {
	var list []Study
	for _, name := range slices.Sorted(slices.Values(distinct(docs, studyOf))) {
		of := slices.DeleteFunc(slices.Clone(docs), func(d *Document) bool { return studyOf(d) != name })
		list = append(list, study(name, of))
	}
	return list
}

// studyOf is the name of the matrix that a run belongs to, or of its scenario.
func studyOf(d *Document) string {
	if d.Matrix != nil {
		return d.Matrix.Of
	}
	return d.Scenario
}

// costed is one call over the runs of one cell.
type costed struct {
	beside
	runs, acked, lost  int
	mean, p50, p99, at []float64 // at is the longest
	published          bool
}

func study(name string, docs []*Document) Study {
	s := Study{Name: name, About: docs[0].About, Comparisons: Compare(docs)}
	var rows []*costed
	for _, d := range docs {
		if d.Figures != nil {
			s.Of, s.Why = once(s.Of, d.Figures.Of+perOps(d.Figures.Per)), once(s.Why, d.Figures.Why)
		}
		for _, c := range d.Calls {
			rows = costsOf(rows, strings.TrimPrefix(strings.TrimPrefix(d.Scenario, name), "-"), d, c)
		}
	}
	var figures []*beside
	for _, r := range rows {
		s.Runs = max(s.Runs, r.runs)
		if r.published {
			figures = append(figures, &r.beside)
		}
		if r.lost > 0 {
			s.Lost = append(s.Lost, fmt.Sprintf("%s: %d of %d", strings.Trim(r.scenario+", "+r.call, ", "), r.lost, r.acked))
		}
	}
	s.Busy = busy(besideOf(rows))
	cell := column[*beside]{
		name: "cell", left: true, legend: "of the matrix", cell: func(r *beside) string { return r.scenario },
		shown: func(r *beside) bool { return r.scenario != "" },
	}
	s.Figures = grid(visible(slices.Concat([]column[*beside]{cell}, besideColumns()), figures), figures)
	s.Costs = grid(visible(costedColumns(), rows), rows)
	s.Picture = picture(name, docs[0].About, rows)
	return s
}

// besideOf is what rows have in common with those of figures.
func besideOf(rows []*costed) []*beside {
	var out []*beside
	for _, r := range rows {
		out = append(out, &r.beside)
	}
	return out
}

// costsOf adds a call of a run to the row of its cell.
func costsOf(rows []*costed, cell string, d *Document, c Call) []*costed {
	i := slices.IndexFunc(rows, func(r *costed) bool { return r.scenario == cell && r.call == c.Call })
	if i < 0 {
		i = len(rows)
		rows = append(rows, &costed{beside: beside{scenario: cell, call: c.Call, per: 1, turn: d.Drive.Revolution}})
	}
	r := rows[i]
	if c.Figure != nil && d.Figures != nil {
		r.published, r.theirs, r.per = true, c.Figure.theirs(), d.Figures.Per
		r.low, r.high = c.Figure.Low, c.Figure.High
		r.ours, r.ratio = append(r.ours, c.Figure.Ours), append(r.ratio, c.Figure.Ratio)
	}
	r.cost(c)
	r.runs, r.acked, r.lost = r.runs+1, r.acked+c.Counts.Acked, r.lost+c.Counts.Lost
	r.mean, r.p50 = append(r.mean, c.Latency.Mean), append(r.p50, float64(c.Latency.P50))
	r.p99, r.at = append(r.p99, float64(c.Latency.P99)), append(r.at, float64(c.Latency.Max))
	return rows
}

// once adds a text that is not there yet.
func once(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// costedColumns are the columns of Study.Costs.
func costedColumns() []column[*costed] {
	cols := []column[*costed]{
		{
			name: "cell", left: true, cell: func(r *costed) string { return r.scenario },
			shown: func(r *costed) bool { return r.scenario != "" },
		},
		{name: "call", left: true, cell: func(r *costed) string { return r.call }},
	}
	for _, c := range []struct {
		name string
		of   func(*costed) []float64
	}{
		{"mean", func(r *costed) []float64 { return r.mean }},
		{"p50", func(r *costed) []float64 { return r.p50 }},
		{"p99", func(r *costed) []float64 { return r.p99 }},
		{"max", func(r *costed) []float64 { return r.at }},
	} {
		cols = append(cols, column[*costed]{name: c.name, cell: func(r *costed) string { return latency.Format(Median(c.of(r))) }})
	}
	for _, c := range besideColumns()[4:] {
		add := column[*costed]{name: c.name, cell: func(r *costed) string { return c.cell(&r.beside) }}
		if c.shown != nil {
			add.shown = func(r *costed) bool { return c.shown(&r.beside) }
		}
		cols = append(cols, add)
	}
	return cols
}

// picture draws published figures and ours as bars; where none were published, the
// median and the longest latency.
func picture(name, about string, rows []*costed) plot.Figure {
	var bars []plot.BarRow
	published := slices.ContainsFunc(rows, func(r *costed) bool { return r.published })
	for _, r := range rows {
		row := plot.BarRow{Label: strings.Trim(r.scenario+" "+r.call, " ")}
		add := func(name, class string, v float64, text string) {
			row.Bars = append(row.Bars, plot.Bar{Name: name, Class: class, Value: v, Text: text})
		}
		switch ours, per := Median(r.ours), float64(r.per); {
		case r.published:
			add("theirs", "wait", r.high, r.theirs)
			if r.low < r.high {
				row.Bars[0].From = r.low
			}
			add("ours", "data", ours, latency.Format(ours))
			drive := Median(r.drive) * per
			add("of it with the drive", "flush", drive, latency.Format(drive))
		case published:
			continue
		default:
			add("median", "data", Median(r.p50), latency.Format(Median(r.p50)))
			add("longest", "journal", Median(r.at), latency.Format(Median(r.at)))
		}
		bars = append(bars, row)
	}
	return plot.Bars(name, name+": "+about, bars)
}
