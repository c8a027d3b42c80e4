package evidence

import (
	"slices"
	"sort"
	"strings"
	"time"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
	"powercut/harness/report"
)

// place finds when each op began and ended on the clock of the log. The counts in the
// events say between which two it was; within these the guest's clock, set against
// that of the log, says where. An op that began on the guest's clock when the one before
// it had ended does so here; one that was under way at the cut, of which the guest's clock
// says nothing, is taken to have begun as soon as that one ended.
func place(ops []Op, events []blocklog.Event, records []ledger.Record) {
	first := func(is func(blocklog.Event) bool) int {
		return sort.Search(len(events), func(i int) bool { return is(events[i]) })
	}
	ended := map[uint64]int{} // index of the op's record
	for i, r := range records {
		ended[r.Op] = i
	}
	var over []timed
	open := map[int]span{} // by index, of ops under way: when they began
	for i := range ops {
		o := &ops[i]
		began := bracket(events, first(func(e blocklog.Event) bool { return e.Started >= uint64(o.Number) }))
		n, ok := ended[uint64(o.Number)]
		if !ok {
			o.Begin, o.End = began.to, timeOf(events, len(events))
			open[i] = began
			continue
		}
		end := bracket(events, first(func(e blocklog.Event) bool { return e.Acked > uint64(n) }))
		over = append(over, timed{op: o, start: time.Duration(records[n].Start), stop: time.Duration(records[n].End), began: began, end: end})
	}
	setClocks(over)
	for i, t := range over {
		t.op.Begin = t.began.clamp(t.start + t.offset)
		if i > 0 && over[i-1].stop <= t.start {
			t.op.Begin = max(t.op.Begin, over[i-1].op.End)
		}
		t.op.End = t.end.clamp(max(t.stop+t.offset, t.op.Begin))
	}
	for i, began := range open {
		if i > 0 {
			ops[i].Begin = began.clamp(ops[i-1].End)
		}
	}
}

// timed is an op that is over: when it was on the guest's clock, and within which
// stretches it began and ended on that of the log.
type timed struct {
	op          *Op
	start, stop time.Duration
	began, end  span
	offset      time.Duration // what the log's clock is ahead of the guest's
}

// offsets are those with which both ends of the op lie in their stretches; where none
// does, as the clocks do not run equally fast, the one that comes nearest.
func (t *timed) offsets() span {
	s := span{max(t.began.from-t.start, t.end.from-t.stop), min(t.began.to-t.start, t.end.to-t.stop)}
	if s.from > s.to {
		s.from = s.to + (s.from-s.to)/2
		s.to = s.from
	}
	return s
}

// setClocks finds the offset of each op. It changes from op to op only as far as it must:
// what all ops say together is the offset that is passed on at the end, and back from
// there.
func setClocks(list []timed) {
	if len(list) == 0 {
		return
	}
	s := list[0].offsets()
	at := s.from + (s.to-s.from)/2
	for i := range list {
		at = list[i].offsets().clamp(at)
	}
	for i := range slices.Backward(list) {
		at = list[i].offsets().clamp(at)
		list[i].offset = at
	}
}

// span is a stretch of time.
type span struct{ from, to time.Duration }

func (s span) clamp(t time.Duration) time.Duration { return min(max(t, s.from), s.to) }

// bracket is the time between an event and the one before.
func bracket(events []blocklog.Event, at int) span {
	return span{timeOf(events, at-1), timeOf(events, at)}
}

// timeOf is the time of an event; that of the last one for those behind it.
func timeOf(events []blocklog.Event, at int) time.Duration {
	if len(events) == 0 || at < 0 {
		return 0
	}
	return events[min(at, len(events)-1)].Time
}

// lastLines are the last n lines of a console, made harmless.
func lastLines(text string, n int) []string {
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	for i := range lines {
		lines[i] = report.Clean(strings.TrimRight(lines[i], "\r"))
	}
	return lines
}
