package plot

import (
	"fmt"
	"math"
	"strconv"
)

// Timeline is what happened before a cut. Times are microseconds from the cut, so
// that all before it are negative; it is where a number is exact to the last digit,
// also in the single precision in which browsers draw.
type Timeline struct {
	Ops      []TimedOp
	Requests []TimedRequest
	From     float64 // what is shown at first: from here to a little behind the cut
}

// TimedOp is an op in a timeline.
type TimedOp struct {
	Number   int
	Class    string // of its verdict
	From, To float64
	Acked    bool // at To
}

// TimedRequest is a request in a timeline.
type TimedRequest struct {
	Class    string // data, journal, other, flush, read or discard
	From, To float64
	Open     bool // never answered: To is the cut
}

// The timeline's geometry, in pixels.
const (
	timelineWidth = 1000 // of a file
	laneTitle     = 15
	laneBar       = 15
	opBar         = 22
	opsHigh       = laneTitle + opBar + 8
	axisHigh      = 22
)

// Lanes are the classes of requests, each of which has a lane where it is met.
func lanes() []string { return []string{"data", "journal", "other", "flush", "read", "discard"} }

// row is the lane of one class.
type row struct {
	class string
	y     float64
	rows  int // 2 where requests overlap
}

// rows are the lanes that are met, below that of the ops, and the height of all.
func (t Timeline) rows() (list []row, high float64) {
	high = opsHigh
	for _, class := range lanes() {
		n := 0
		t.stack(class, func(_, at int) { n = max(n, at+1) })
		if n > 0 {
			list = append(list, row{class, high, n})
			high += float64(laneTitle + n*laneBar + 4)
		}
	}
	return list, high
}

// stack gives each request of a class a row of its lane: the second to one that
// overlaps another.
func (t Timeline) stack(class string, put func(i, row int)) {
	free := [2]float64{math.Inf(-1), math.Inf(-1)}
	for i, r := range t.Requests {
		if r.Class != class {
			continue
		}
		at := 0
		if r.From < free[0] && r.From >= free[1] {
			at = 1
		}
		free[at] = r.To
		put(i, at)
	}
}

// Figure draws ops and requests, one lane a class. What is drawn lies in an inner
// element with class "window", which is stretched over the width: a script that
// changes its viewBox zooms. Each op has its index in data-op, each request in
// data-rq; the element with class "ticks" holds the axis and the numbers of ops.
func (t Timeline) Figure(id, call string) Figure {
	p := &pen{}
	rows, high := t.rows()
	p.text("strong", "start", 2, laneTitle-4, "ops, and where each was acknowledged")
	for _, r := range rows {
		p.text("strong", "start", 2, r.y+laneTitle-4, laneName(r.class))
		p.add(`<line class="rule" x1="0" x2="100%%" y1="%s" y2="%s"/>`, num(r.y), num(r.y))
	}
	from, to := t.From, -t.From*0.04+1
	p.add(`<svg class="window" x="0" y="0" width="100%%" height="%s" preserveAspectRatio="none" viewBox="%s 0 %s %s">`, num(high), num(from), num(to-from), num(high))
	t.drawOps(p)
	for _, r := range rows {
		t.drawLane(p, r)
	}
	p.add(`<line class="cut" vector-effect="non-scaling-stroke" x1="0" x2="0" y1="0" y2="%s"/></svg>`, num(high))
	p.add(`<g class="ticks">`)
	t.ticks(p, from, to, high)
	t.numbers(p, from, to)
	p.add(`</g>`)
	return Figure{ID: id, Name: call + "-timeline", Title: "Around the cut of " + call, Alt: t.alt(), Width: timelineWidth, Height: high + axisHigh, Fluid: true, Body: p.String()}
}

// laneName names a lane for a reader.
func laneName(class string) string {
	return map[string]string{
		"data": "data writes", "journal": "journal writes", "other": "other metadata", "flush": "flushes", "read": "reads", "discard": "discards",
	}[class]
}

func (t Timeline) drawOps(p *pen) {
	for i, o := range t.Ops {
		p.add(`<rect class="op %s" data-op="%d" x="%s" y="%d" width="%s" height="%d"><title>op %d: %s</title></rect>`,
			or(o.Class, "unknown"), i, num(o.From), laneTitle, num(math.Max(o.To-o.From, 0)), opBar, o.Number, or(o.Class, "not known"))
	}
	for _, o := range t.Ops {
		if o.Acked {
			p.add(`<line class="ack" x1="%s" x2="%s" y1="%d" y2="%d"/>`, num(o.To), num(o.To), laneTitle-2, laneTitle+opBar+3)
		}
	}
}

// numbers writes the numbers of ops into those that have room at first.
func (t Timeline) numbers(p *pen, from, to float64) {
	for _, o := range t.Ops {
		if o.From < from || o.To-o.From < (to-from)*(0.01+0.009*float64(len(strconv.Itoa(o.Number)))) {
			continue
		}
		p.add(`<text class="onop" text-anchor="middle" x="%s%%" y="%d">%d</text>`, num(((o.From+o.To)/2-from)/(to-from)*100), laneTitle+opBar-6, o.Number)
	}
}

func (t Timeline) drawLane(p *pen, lane row) {
	t.stack(lane.class, func(i, at int) {
		r := t.Requests[i]
		open := ""
		if r.Open {
			open = " open"
		}
		p.add(`<rect class="rq %s%s" data-rq="%d" x="%s" y="%s" width="%s" height="%d"/>`,
			lane.class, open, i, num(r.From), num(lane.y+float64(laneTitle+at*laneBar)), num(math.Max(r.To-r.From, 0)), laneBar-4)
	})
}

// ticks draws the axis of what is shown at first.
func (t Timeline) ticks(p *pen, from, to, high float64) {
	step := niceStep((to - from) / 6)
	for v := math.Ceil(from/step) * step; v <= to; v += step {
		at := (v - from) / (to - from) * 100
		if at < 4 || at > 96 {
			continue
		}
		p.add(`<line class="axis" x1="%s%%" x2="%s%%" y1="%s" y2="%s"/>`, num(at), num(at), num(high), num(high+4))
		p.add(`<text text-anchor="middle" x="%s%%" y="%s">%s</text>`, num(at), num(high+17), tickName(v))
	}
}

// niceStep is the least of 1, 2 and 5 times a power of ten that is no less.
func niceStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least {
			return m * power
		}
	}
	return 10 * power
}

// tickName names a time in microseconds from the cut.
func tickName(us float64) string {
	if math.Abs(us) < 1e-9 {
		return "cut"
	}
	return map[bool]string{true: "−", false: "+"}[us < 0] + short(math.Abs(us)*1e3)
}

func (t Timeline) alt() string {
	open := 0
	for _, r := range t.Requests {
		if r.Open {
			open++
		}
	}
	acked := 0
	for _, o := range t.Ops {
		if o.Acked {
			acked++
		}
	}
	return fmt.Sprintf("The last %d ops before the cut, %d of them acknowledged, and the %d requests that reached the drive meanwhile, of which %d had not been answered. The table below tells the last of them one by one.",
		len(t.Ops), acked, len(t.Requests), open)
}
