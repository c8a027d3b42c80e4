package report

import (
	"fmt"
	"slices"
	"time"

	"powercut/harness/latency"
)

// Published is what somebody measured of the same work on another system. The
// figures themselves stand at the calls.
type Published struct {
	Of  string `json:"of" doc:"the system that the figures were measured on"`
	Per int    `json:"per" doc:"ops that a figure is for"`
	Why string `json:"why,omitempty" doc:"what makes the two agree or differ"`
}

// Figure is a published figure beside what the run measured.
type Figure struct {
	Low   float64 `json:"low_ns" doc:"the published time of as many ops as figures.per says, nanoseconds; of a range, its beginning"`
	High  float64 `json:"high_ns" doc:"the same, or the range's end"`
	Ours  float64 `json:"ours_ns" doc:"the mean latency of the run, times that number of ops, nanoseconds"`
	Ratio float64 `json:"ratio" doc:"ours over theirs; of a range over its nearer end, and 1 within it"`
}

// NewFigure holds what the run measured against a published time, which is a range
// or the same number twice; none of the three is 0.
func NewFigure(low, high, ours float64) *Figure {
	f := &Figure{Low: low, High: high, Ours: ours, Ratio: 1}
	switch {
	case ours < low:
		f.Ratio = ours / low
	case ours > high:
		f.Ratio = ours / high
	}
	return f
}

// theirs writes the published figure.
func (f Figure) theirs() string { return span(latency.Format(f.Low), latency.Format(f.High)) }

// beside is a row of the table of figures: one call, over the runs of one scenario.
type beside struct {
	scenario string
	call     string
	theirs   string
	low      float64 // of the published figure
	high     float64 // the same, or the end of a published range
	per      int
	ours     []float64 // of each run, as is all below
	ratio    []float64
	drive    []float64 // nanoseconds of an op in which a request of it was with the drive
	host     []float64 // nanoseconds of an op in which it waited for a processor of the host; of runs that know
	taken    []float64 // nanoseconds of an op
	side     bool      // ops ran side by side, so that an op's parts are not to be told apart
	turn     float64   // of the disk, milliseconds; 0 where there is none
	bill     [4][]float64
}

// besides gathers the calls of runs that have a published figure, one row for each
// call of a scenario.
func besides(docs []*Document) []*beside {
	var rows []*beside
	for _, d := range docs {
		for _, c := range d.Calls {
			if c.Figure == nil || d.Figures == nil {
				continue
			}
			i := slices.IndexFunc(rows, func(r *beside) bool { return r.scenario == d.Scenario && r.call == c.Call })
			if i < 0 {
				i = len(rows)
				rows = append(rows, &beside{
					scenario: d.Scenario, call: c.Call, theirs: c.Figure.theirs(), per: d.Figures.Per, turn: d.Drive.Revolution,
				})
			}
			rows[i].add(c)
		}
	}
	return rows
}

func (r *beside) add(c Call) {
	r.ours, r.ratio = append(r.ours, c.Figure.Ours), append(r.ratio, c.Figure.Ratio)
	r.cost(c)
}

// cost adds what a run says of the call's cost.
func (r *beside) cost(c Call) {
	r.drive, r.taken = append(r.drive, c.Bill.DriveTime), append(r.taken, c.Latency.Mean)
	r.side = r.side || c.Bill.GuestTime == 0
	if c.HostWait != nil {
		r.host = append(r.host, min(1, *c.HostWait)*c.Latency.Mean)
	}
	for i, n := range []float64{c.Bill.DataWrites, c.Bill.JournalWrites, c.Bill.MetadataWrites, c.Bill.Flushes} {
		r.bill[i] = append(r.bill[i], n)
	}
}

// Median is the middle one of values, or the mean of the two in the middle; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// besideColumns are the columns of the table of figures.
func besideColumns() []column[*beside] {
	cols := []column[*beside]{
		{
			name: "call", left: true, legend: "the sync call after each write",
			cell: func(r *beside) string { return r.call },
		},
		{
			name: "theirs", first: true, legend: "the published figure",
			cell: func(r *beside) string { return r.theirs },
		},
		{
			name: "ours", legend: "the mean latency of the run, for as many ops as the published figure is for; of several runs the median",
			cell: func(r *beside) string { return latency.Format(Median(r.ours)) },
		},
		{
			name: "ours /\ntheirs", legend: "the ratio of the two; of a published range 1 within it, and else that to its nearer end",
			cell: func(r *beside) string { return fmt.Sprintf("%.2f", Median(r.ratio)) },
		},
		{
			name: "with the\ndrive", first: true, legend: "of an op's time on the guest's clock, the part in which a request of it was with the drive, by the host's",
			cell: func(r *beside) string { return r.share(Median(r.drive)) },
		},
		{
			name: "in the\nguest", legend: "what is left: the part of the guest's processor and of its queue of requests",
			cell: func(r *beside) string {
				return r.share(max(0, Median(r.taken)-Median(r.drive)-Median(r.host)))
			},
			shown: (*beside).apart,
		},
		{
			name: "held\nup", legend: "the part in which QEMU was ready to run and the host had no processor for it, as the host's kernel counts it",
			cell: func(r *beside) string {
				if len(r.host) == 0 {
					return none
				}
				return r.share(Median(r.host))
			},
			shown: (*beside).apart,
		},
		{
			name: "turns\n/op", legend: "the part with the drive in revolutions of the disk",
			cell: func(r *beside) string {
				if r.turn == 0 {
					return none
				}
				return fmt.Sprintf("%.2f", Median(r.drive)/float64(time.Millisecond)/r.turn)
			},
		},
	}
	for i, name := range []string{"data\n/op", "journal\n/op", "other\n/op", "flush\n/op"} {
		cols = append(cols, column[*beside]{
			name: name, first: i == 0, legend: "requests of that class that reached the drive while an op ran: the mean",
			cell: func(r *beside) string { return fmt.Sprintf("%.2f", Median(r.bill[i])) },
		})
	}
	return cols
}

// share writes a part of an op's time.
func (r *beside) share(part float64) string {
	return fmt.Sprintf("%.0f %%", 100*part/max(Median(r.taken), 1))
}

// apart tells whether the parts of an op's time are known.
func (r *beside) apart() bool { return !r.side }

// figures shows the published figures of one run beside its own.
func (p *page) figures(d *Document) {
	rows := besides([]*Document{d})
	if len(rows) == 0 {
		return
	}
	p.blank()
	p.line(fitting(p, ownColumns(rows), rows))
	p.published(d.Figures)
	p.busy(rows)
}

// FigureGrid holds the published figures of a run against its own, one row a call that
// has one.
func FigureGrid(d *Document) Grid {
	rows := besides([]*Document{d})
	return grid(ownColumns(rows), rows)
}

// ownColumns are the columns of the table of figures where the bill stands elsewhere.
func ownColumns(rows []*beside) []column[*beside] {
	return visible(besideColumns()[:8], rows)
}

// published says what the figures of a scenario are of, and why ours are as they are.
func (p *page) published(f *Published) {
	p.hang(10, faint, "  theirs", f.Of+perOps(f.Per))
	if f.Why != "" {
		p.hang(10, faint, "  why", f.Why)
	}
}

func perOps(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("; figures of %d ops", n)
}

// allFigures shows the published figures of several runs, scenario by scenario.
func (p *page) allFigures(docs []*Document, legend bool) {
	for _, scenario := range distinct(docs, func(d *Document) string { return d.Scenario }) {
		of := slices.DeleteFunc(slices.Clone(docs), func(d *Document) bool { return d.Scenario != scenario })
		rows := besides(of)
		if len(rows) == 0 {
			continue
		}
		p.line(p.paint(bold, scenario) + runsText(len(of)))
		p.line(fitting(p, visible(besideColumns(), rows), rows))
		p.published(of[0].Figures)
		p.busy(rows)
		p.blank()
		if legend {
			explain(p, besideColumns()[1:])
			p.blank()
			legend = false
		}
	}
}

func runsText(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", medians of %d runs", n)
}
