package shrink

import (
	"fmt"
	"strings"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/trace"
)

// maxTold bounds the missing writes that Tell names.
const maxTold = 8

// Tell says in words, one sentence a line, what a state lacks: when the op that is
// lost was acknowledged, what each missing write was, and why it was still volatile
// then. The trace is that of the log up to the state's cut; op is 0 where the verdict
// is about none.
func Tell(t *trace.Trace, s crash.State, op int) []string {
	var out []string
	if c, ok := t.Cover(op); ok && op > 0 {
		out = append(out, fmt.Sprintf("op %d was acknowledged at position %d%s", op, c.AckAt, after(t, c.AckAt)))
	}
	for i, m := range s.Missing {
		if i == maxTold {
			out = append(out, fmt.Sprintf("%d more writes are missing", len(s.Missing)-maxTold))
			break
		}
		out = append(out, missing(t, m))
	}
	if len(s.Missing) == 0 {
		out = append(out, fmt.Sprintf("no write is missing: all that the drive had been sent by the cut at position %d was on the media", s.Cut))
	} else {
		out = append(out, fmt.Sprintf("all else that the drive had been sent by the cut at position %d was on the media", s.Cut))
	}
	return out
}

// after names the request whose event is the last before a position.
func after(t *trace.Trace, at int) string {
	for i := len(t.Requests) - 1; i >= 0; i-- {
		switch q := t.Requests[i]; at - 1 {
		case q.Arrive:
			return fmt.Sprintf(", when request %d had arrived", q.Number)
		case q.Reply:
			return fmt.Sprintf(", when request %d had been answered", q.Number)
		}
	}
	return ""
}

// missing tells of one missing write: "request 240 (journal: commit of transaction 9)
// was still in the drive's cache: answered at position 480, and no flush reached the
// drive after that".
func missing(t *trace.Trace, m crash.Loss) string {
	q := t.Requests[m.Request-1]
	text := fmt.Sprintf("request %d (%s%s) was ", q.Number, what(q), part(q, m))
	if q.Reply < 0 || q.Errno != 0 {
		return text + "in flight, never answered with success"
	}
	return text + fmt.Sprintf("still in the drive's cache: answered at position %d, and %s", q.Reply, uncovered(t, q))
}

// what says what a write carried.
func what(q trace.Request) string {
	switch {
	case q.Class == trace.Journal && q.Transaction != 0:
		return fmt.Sprintf("journal: %s of transaction %d", q.Detail, q.Transaction)
	case q.Class == trace.Data:
		return "data of " + q.Detail
	case q.Detail != "":
		return fmt.Sprintf("%s: %s", q.Class, q.Detail)
	}
	return string(q.Class)
}

// part names the missing sectors of a write as a state's text does.
func part(q trace.Request, m crash.Loss) string {
	if len(m.Sectors) == 0 {
		return ""
	}
	s := crash.State{Missing: []crash.Loss{m}}.String()
	return fmt.Sprintf("; sectors %s of %d", s[strings.IndexByte(s, '[')+1:len(s)-1], q.Length/disk.SectorSize)
}

// uncovered says what became of the flushes that arrived after a write was answered.
func uncovered(t *trace.Trace, q trace.Request) string {
	const none = "no flush reached the drive after that"
	why := none
	for _, f := range t.Requests[q.Number:] {
		if f.Op != blocklog.Flush || f.Arrive < q.Reply {
			continue
		}
		switch {
		case !f.Flushes(q):
			if why == none {
				why = fmt.Sprintf("no flush of its disk came after that: flush %d was for the other one", f.Number)
			}
		case f.NoEffect:
			why = fmt.Sprintf("flush %d after that was ignored by the drive (fault)", f.Number)
		case f.Reply >= 0 && f.Errno != 0:
			why = fmt.Sprintf("flush %d after that failed with errno %d", f.Number, f.Errno)
		default:
			return fmt.Sprintf("flush %d after that had not been answered", f.Number)
		}
	}
	if q.NoEffect {
		return "its FUA was ignored by the drive (fault), and " + why
	}
	return why
}
