package evidence

import (
	"sort"
	"strings"
	"time"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
	"powercut/harness/report"
)

// place finds when each op began and ended on the clock of the log. The counts in the
// events say between which two it was; within these the guest's clock, set against
// that of the log so that both ends agree, says where.
func place(ops []Op, events []blocklog.Event, records []ledger.Record) {
	first := func(from int, is func(blocklog.Event) bool) int {
		return from + sort.Search(len(events)-from, func(i int) bool { return is(events[from+i]) })
	}
	ended := map[uint64]int{} // index of the op's record
	for i, r := range records {
		ended[r.Op] = i
	}
	for i := range ops {
		o := &ops[i]
		began := bracket(events, first(0, func(e blocklog.Event) bool { return e.Started >= uint64(o.Number) }))
		n, over := ended[uint64(o.Number)]
		if !over {
			o.Begin, o.End = began.to, timeOf(events, len(events))
			continue
		}
		end := bracket(events, first(0, func(e blocklog.Event) bool { return e.Acked > uint64(n) }))
		start, stop := time.Duration(records[n].Start), time.Duration(records[n].End)
		offset := (max(began.from-start, end.from-stop) + min(began.to-start, end.to-stop)) / 2
		o.Begin, o.End = began.clamp(start+offset), end.clamp(stop+offset)
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
