package html

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"powercut/harness/latency"
	"powercut/harness/report/evidence"
	"powercut/harness/report/plot"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// The part of a run that a timeline holds: the last requests before the cut, and the
// ops that ran meanwhile. The rest of a long run is summed up by the other plots.
const (
	maxRequests = 900  // of a call
	allRequests = 3600 // of all calls of a page
	firstOps    = 10   // shown before anybody zooms
	tableOps    = 12
)

func nanoseconds(ns float64) time.Duration { return time.Duration(math.Round(ns)) }

// requestsOf is how many requests a timeline holds at the most, on a page of so many calls.
func requestsOf(calls int) int { return min(maxRequests, allRequests/max(calls, 1)) }

// shownFrom is the first request and the first op of a timeline of that many requests, as
// indices.
func shownFrom(c *evidence.Call, most int) (request, op int) {
	request = max(len(c.Requests)-most, 0)
	for request < len(c.Requests) && len(c.Ops) > 0 && c.Requests[request].ArriveAt < c.Ops[0].Begin {
		request++ // of the mount, and of the file's creation
	}
	op = len(c.Ops)
	for op > 0 && (request == len(c.Requests) || c.Ops[op-1].End > c.Requests[request].ArriveAt) {
		op--
	}
	return request, op
}

// beforeCut is a time in microseconds from the cut.
func beforeCut(c *evidence.Call, t time.Duration) float64 {
	return float64(min(t, c.CutTime)-c.CutTime) / float64(time.Microsecond)
}

// lane is a request's class as plots have it.
func lane(c trace.Class) string {
	if c == trace.Metadata {
		return "other"
	}
	return string(c)
}

// timeline is what the figure shows.
func timeline(c *evidence.Call, most int) plot.Timeline {
	var t plot.Timeline
	request, op := shownFrom(c, most)
	for _, o := range c.Ops[op:] {
		t.Ops = append(t.Ops, plot.TimedOp{
			Number: o.Number, Class: classOf(o), From: beforeCut(c, o.Begin), To: beforeCut(c, o.End), Acked: o.Acked,
		})
	}
	for _, r := range c.Requests[request:] {
		q := plot.TimedRequest{Class: lane(r.Class), From: beforeCut(c, r.ArriveAt), To: beforeCut(c, r.ReplyAt)}
		if r.Reply < 0 {
			q.To, q.Open = 0, true
		}
		t.Requests = append(t.Requests, q)
	}
	t.From = -1000
	if n := len(t.Ops); n > 0 {
		t.From = min(t.Ops[max(n-firstOps, 0)].From*1.04, t.From/1000)
	} else if n := len(t.Requests); n > 0 {
		t.From = min(t.Requests[max(n-4*firstOps, 0)].From, t.From/1000)
	}
	return t
}

// classOf is the verdict on an op, or that it failed.
func classOf(o evidence.Op) string {
	if o.Failed && o.Class != verdict.Foreign {
		return "failed"
	}
	return string(o.Class)
}

// timelineData is what the page's script knows of what is drawn; its indices are
// those of the figure.
type timelineData struct {
	Ops      []opData      `json:"ops"`
	Requests []requestData `json:"rqs"`
}

type opData struct {
	Number   int     `json:"n"`
	From     float64 `json:"a"`
	To       float64 `json:"b"`
	Text     string  `json:"t"`
	Requests []int   `json:"r"` // indices
}

type requestData struct {
	From float64 `json:"a"`
	To   float64 `json:"b"`
	Op   int     `json:"o"` // index of the op that ran, or -1
	Text string  `json:"t"`
}

func newTimelineData(c *evidence.Call, most int) *timelineData {
	d := &timelineData{Ops: []opData{}, Requests: []requestData{}}
	t := timeline(c, most)
	request, op := shownFrom(c, most)
	owner := map[int]int{}
	for i, o := range c.Ops[op:] {
		list := []int{}
		for _, r := range o.Requests {
			if r >= request {
				list = append(list, r-request)
				owner[r-request] = i
			}
		}
		d.Ops = append(d.Ops, opData{o.Number, round(t.Ops[i].From), round(t.Ops[i].To), opText(o), list})
	}
	for i, r := range c.Requests[request:] {
		at, ok := owner[i]
		if !ok {
			at = -1
		}
		d.Requests = append(d.Requests, requestData{round(t.Requests[i].From), round(t.Requests[i].To), at, requestText(r)})
	}
	return d
}

// round leaves a hundredth of a microsecond.
func round(us float64) float64 { return math.Round(us*100) / 100 }

func opText(o evidence.Op) string {
	s := o.Text
	if s == "" {
		s = fmt.Sprintf("bytes %d+%d", o.Extent.Offset, o.Extent.Length)
	}
	switch {
	case o.Failed:
		s += ", failed after " + latency.Format(float64(o.Latency))
	case o.Acked:
		s += ", acknowledged after " + latency.Format(float64(o.Latency))
	case o.Over:
		s += ", over" + map[bool]string{true: ", and never acknowledged"}[o.Text == ""]
	default:
		s += ", under way at the cut"
	}
	if o.Class != "" {
		s += "; " + string(o.Class)
	}
	return s
}

// requestText tells of a request, with the positions of its events in the log.
func requestText(r trace.Request) string {
	s := fmt.Sprintf("request %d: %s", r.Number, r.Op)
	for _, flag := range []struct {
		on   bool
		word string
	}{{r.FUA, " FUA"}, {r.NoEffect, ", ignored by the drive"}, {r.Spoil.Kind != 0, ", spoilt by the drive"}} {
		if flag.on {
			s += flag.word
		}
	}
	if r.Length > 0 {
		s += fmt.Sprintf(" %d+%d", r.Offset, r.Length)
	}
	if r.Class != trace.Flush {
		s += ", " + string(r.Class)
		if r.Detail != "" {
			s += " (" + r.Detail + ")"
		}
	}
	if r.Reply < 0 {
		return s + fmt.Sprintf(", arrived at position %d, never answered", r.Arrive)
	}
	if r.Errno != 0 {
		s += fmt.Sprintf(", errno %d", r.Errno)
	}
	return s + fmt.Sprintf(", positions %d to %d, %s", r.Arrive, r.Reply, latency.Format(float64(r.ReplyAt-r.ArriveAt)))
}

// opRow is an op of the table below a timeline.
type opRow struct {
	Number   int
	Class    string
	Text     string
	Requests []string
}

// lastOps are the last ops before the cut.
func lastOps(c *evidence.Call) []opRow {
	var rows []opRow
	for _, o := range c.Ops[max(len(c.Ops)-tableOps, 0):] {
		row := opRow{Number: o.Number, Class: classOf(o), Text: opText(o)}
		for _, i := range o.Requests {
			row.Requests = append(row.Requests, requestText(c.Requests[i]))
		}
		rows = append(rows, row)
	}
	return rows
}

// shape is a bill that several ops have in common.
type shape struct {
	evidence.Bill
	Ops    int
	Median time.Duration // of the acknowledged ones' latency; 0 where there is none
}

// Milli is the median for the template.
func (s shape) Milli() string {
	if s.Median == 0 {
		return "–"
	}
	return latency.Format(float64(s.Median))
}

// maxShapes is how many are listed.
const maxShapes = 6

// shapes counts the ops by their bill, the most frequent first; the last one is empty
// but for the number of ops that found no room.
func shapes(ops []evidence.Op) []shape {
	by := map[evidence.Bill][]int64{}
	count := map[evidence.Bill]int{}
	for _, o := range ops {
		if !o.Over {
			continue
		}
		count[o.Bill]++
		if o.Acked {
			by[o.Bill] = append(by[o.Bill], int64(o.Latency))
		}
	}
	var list []shape
	for b, n := range count {
		list = append(list, shape{b, n, time.Duration(latency.Summarise(by[b]).P50)})
	}
	slices.SortFunc(list, func(a, b shape) int {
		return cmp.Or(cmp.Compare(b.Ops, a.Ops), cmp.Compare(a.Data, b.Data), cmp.Compare(a.Journal, b.Journal), cmp.Compare(a.Other, b.Other), cmp.Compare(a.Flush, b.Flush))
	})
	return list[:min(len(list), maxShapes)]
}
