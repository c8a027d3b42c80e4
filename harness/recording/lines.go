package recording

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/trace"
)

// Line is what is shown of a request.
type Line struct {
	Request  uint64 `json:"request"`         // from 1, in order of arrival
	Arrive   int    `json:"arrive"`          // position
	Reply    int    `json:"reply"`           // position, or -1: never answered
	Time     int64  `json:"time_ns"`         // of its arrival, since the log was begun
	Took     int64  `json:"took_ns"`         // to the reply
	Op       string `json:"op"`              // read, write, flush, trim or zeroes
	FUA      bool   `json:"fua"`             // the request asked to be durable before its reply
	Through  bool   `json:"through"`         // the drive held nothing back
	NoEffect bool   `json:"no_effect"`       // a fault took the effect of the flush or FUA away
	Errno    int32  `json:"errno,omitempty"` // of the reply
	Offset   int64  `json:"offset"`          // bytes; of a flush of one disk of several, that disk
	Length   int64  `json:"length"`          // bytes
	// Class is a trace.Class, or "other" for a write of a log that has no plan, where
	// data cannot be told.
	Class  trace.Class `json:"class"`
	Detail string      `json:"detail,omitempty"` // see trace.Request
	Ops    []int       `json:"ops,omitempty"`    // whose data it carries
	During int         `json:"during"`           // the op that was running, or -1
	Acked  uint64      `json:"acked"`            // ledger records that were published before it arrived
	AckAt  []Ack       `json:"acks,omitempty"`   // of Ops
}

// Ack is where an op's acknowledgement was first counted.
type Ack struct {
	Op       int `json:"op"`
	Position int `json:"position"`
}

// Other is the class of a write of which nothing is known.
const Other trace.Class = "other"

// Filter says which requests are shown.
type Filter struct {
	Op       *int          // those that carry data of this op, or arrived while it ran
	Classes  []trace.Class // of one of these classes; none: of any
	From, To int           // that arrived at a position from From and, where To is not 0, before To
}

// Lines returns the requests of a trace of the recording that pass the filter.
func (r *Recording) Lines(t *trace.Trace, f Filter) []Line {
	var out []Line
	for _, q := range t.Requests {
		l := r.line(t, q)
		if f.passes(l) {
			out = append(out, l)
		}
	}
	return out
}

func (r *Recording) line(t *trace.Trace, q trace.Request) Line {
	e := r.Log.Events[q.Arrive]
	l := Line{
		Request: q.Number, Arrive: q.Arrive, Reply: q.Reply, Time: int64(q.ArriveAt), Op: q.Op.String(),
		FUA: q.FUA, Through: e.Through, NoEffect: q.NoEffect, Errno: q.Errno, Offset: q.Offset, Length: q.Length,
		Class: q.Class, Detail: q.Detail, Ops: q.Ops, During: q.During, Acked: e.Acked,
	}
	if q.Reply >= 0 {
		l.Took = int64(q.ReplyAt - q.ArriveAt)
	}
	if r.call == nil {
		l.During = trace.Between
		if l.Class == trace.Metadata && l.Detail == "" {
			l.Class = Other
		}
	}
	for _, op := range q.Ops {
		if c, ok := t.Cover(op); ok {
			l.AckAt = append(l.AckAt, Ack{Op: op, Position: c.AckAt})
		}
	}
	return l
}

func (f Filter) passes(l Line) bool {
	switch {
	case l.Arrive < f.From || f.To > 0 && l.Arrive >= f.To:
		return false
	case len(f.Classes) > 0 && !slices.Contains(f.Classes, l.Class):
		return false
	case f.Op != nil && l.During != *f.Op && !slices.Contains(l.Ops, *f.Op):
		return false
	}
	return true
}

// Print writes lines as a table; acked is the last op that was over when the request
// arrived.
func Print(w io.Writer, lines []Line) error {
	_, err := fmt.Fprintf(w, "%7s  %6s  %6s  %11s  %10s  %-16s %22s  %6s  %s\n",
		"request", "arrive", "reply", "time", "took", "what", "bytes", "acked", "class")
	for _, l := range lines {
		if err != nil {
			break
		}
		_, err = fmt.Fprintf(w, "%7d  %6d  %6s  %11s  %10s  %-16s %22s  %6s  %s\n",
			l.Request, l.Arrive, l.replied(), milliseconds(l.Time), l.took(), l.what(), l.extent(), l.lastAcked(), l.class())
	}
	if err != nil {
		return fmt.Errorf("print log: %w", err)
	}
	return nil
}

// PrintJSON writes lines as JSON, one object a line.
func PrintJSON(w io.Writer, lines []Line) error {
	e := json.NewEncoder(w)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
	}
	return nil
}

func (l Line) replied() string {
	if l.Reply < 0 {
		return "never"
	}
	return fmt.Sprint(l.Reply)
}

func (l Line) took() string {
	if l.Reply < 0 {
		return "-"
	}
	return milliseconds(l.Took)
}

func milliseconds(ns int64) string {
	return fmt.Sprintf("%.3f ms", float64(ns)/float64(time.Millisecond))
}

// what says what was asked: "write FUA", "flush ignored".
func (l Line) what() string {
	words := []string{l.Op}
	for _, flag := range []struct {
		on   bool
		word string
	}{{l.FUA, "FUA"}, {l.Through, "through"}, {l.NoEffect, "ignored"}} {
		if flag.on {
			words = append(words, flag.word)
		}
	}
	if l.Errno != 0 {
		words = append(words, fmt.Sprintf("errno %d", l.Errno))
	}
	return strings.Join(words, " ")
}

func (l Line) extent() string {
	if l.Op == blocklog.Flush.String() && l.Length == 0 {
		return ""
	}
	return fmt.Sprintf("%d+%d", l.Offset, l.Length)
}

// class says what the request carried: "data of op 17; op 17 acked at 61", "journal:
// descriptor+2, commit", "metadata: inode table".
func (l Line) class() string {
	text := string(l.Class)
	switch {
	case l.Class == trace.Data:
		text += " of " + l.Detail + l.acks()
	case l.Detail != "":
		text += ": " + l.Detail
	}
	if l.During != trace.Between {
		text += fmt.Sprintf(" (during op %d)", l.During)
	}
	return text
}

// acks says where the newest of its ops was acknowledged.
func (l Line) acks() string {
	newest := l.Ops[len(l.Ops)-1]
	if n := len(l.AckAt); n > 0 && l.AckAt[n-1].Op == newest {
		return fmt.Sprintf("; op %d acked at %d", newest, l.AckAt[n-1].Position)
	}
	return fmt.Sprintf("; op %d never acked", newest)
}

// lastAcked is the last op that was over when the request arrived.
func (l Line) lastAcked() string {
	if l.Acked == 0 {
		return "-"
	}
	return fmt.Sprint(l.Acked - 1) // the first record is that of op 0
}
