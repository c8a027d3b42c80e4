package report

import (
	"fmt"
	"strings"

	"powercut/guest/workload"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// findings names the ops of each call that broke their promise, and what else is
// wrong with its file: the first ones one by one, the others by range. It tells whether
// there are others.
func (p *page) findings(calls []Call, full int) (folded bool) {
	for _, c := range calls {
		if c.Setup == "" && c.Size == "" && c.Stray == "" && len(c.Findings) == 0 {
			continue
		}
		p.blank()
		p.file(c.Call, "first content of the file (synced before op 1)", c.Setup)
		p.file(c.Call, "size of the file", c.Size)
		p.file(c.Call, "holes of the file", c.Stray)
		if len(c.Findings) > 0 {
			folded = p.ops(c, full) || folded
		}
	}
	return folded
}

// unpromised tells of the acknowledged ops that are gone without a promise broken,
// and of what was promised.
func (p *page) unpromised(d *Document) {
	first := true
	for _, c := range d.Calls {
		if !read(c) || c.Counts.Unpromised == 0 || c.Tree != nil { // of a tree each thing is told
			continue
		}
		if first {
			p.blank()
			first = false
		}
		duty := verdict.Duties[workload.Call(c.Call)]
		promise := string(duty.Promise)
		if d.Workload.Sync.Length > 0 {
			promise += fmt.Sprintf(" for bytes %s alone", extent(d.Workload.Sync))
		}
		p.hang(4, amber, fmt.Sprintf("%s, not promised:", c.Call), fmt.Sprintf("%d of %s are not there in full, and need not be; the call's promise is %s (%s)",
			c.Counts.Unpromised, plural(c.Counts.Acked, "acknowledged op"), promise, duty.Source))
	}
}

// file says what is wrong with the file of a call, if anything is.
func (p *page) file(call, part, wrong string) {
	if wrong != "" {
		p.hang(4, red, fmt.Sprintf("%s, %s:", call, part), wrong)
	}
}

// ops draws the findings of one call and explains their reasons. It tells whether
// some of them are not told one by one.
func (p *page) ops(c Call, full int) (folded bool) {
	rows, rest := rowsOf(c.Findings, full)
	cols := findingColumns()
	label, text := Headline(c), ""
	if same := uniform(c.Findings); same != "" {
		label, text = label+",", "found instead: "+same
		cols = without(cols, insteadColumn)
	}
	p.hang(4, red, label, text)
	p.line(fitting(p, visible(cols, rows), rows))
	if len(rest) > 0 {
		p.hang(4, red, fmt.Sprintf("and %s:", plural(opsIn(rest), "more op")), names(rest))
	}
	p.reasons(c.Findings)
	return len(rows) < len(c.Findings)
}

// Headline counts the findings of a call: "fsync lost 22 of 22 acknowledged ops".
// Without any it is the call's name.
func Headline(c Call) string {
	lost, foreign := 0, 0
	for _, f := range c.Findings {
		if f.Class == verdict.Foreign {
			foreign++
		} else {
			lost++
		}
	}
	var parts []string
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("lost %d of %s", lost, plural(c.Counts.Acked, "acknowledged op")))
	}
	if foreign > 0 {
		parts = append(parts, fmt.Sprintf("holds foreign bytes in %s", plural(foreign, "op")))
	}
	return strings.TrimSuffix(c.Call+" "+strings.Join(parts, " and "), " ")
}

// uniform returns what stands in place of every one of the ops, or "".
func uniform(findings []Finding) string {
	for _, f := range findings {
		if f.Found != findings[0].Found {
			return ""
		}
	}
	return findings[0].Found
}

// reasons explains each reason once, by the first op that it holds for.
func (p *page) reasons(findings []Finding) {
	seen := map[string]bool{}
	for _, f := range findings {
		reason := reasonText(f)
		if seen[reason] || f.Why == "" {
			continue
		}
		seen[reason] = true
		p.hang(6, bold, "  "+reason, fmt.Sprintf("(op %d): %s", f.Op, f.Why))
	}
}

// reasonText is the reason, for an op that was promised something.
func reasonText(f Finding) string {
	if f.Reason == "" {
		return none
	}
	return string(f.Reason)
}

const insteadColumn = "found instead"

// findingColumns are the columns of the ops that broke their promise.
func findingColumns() []column[run] {
	return []column[run]{
		{
			name: "op", tight: 12, legend: "number of the op, or of several that are alike",
			cell: run.name,
		},
		{
			name: "verdict", tight: 7, left: true, legend: "lost: acked, and not there; foreign: holds bytes that no op wrote",
			cell:  func(r run) string { return string(r.head.Class) },
			shown: func(r run) bool { return r.head.Class == verdict.Foreign },
		},
		{
			name: "bytes", tight: 14, legend: "the bytes of the file that it wrote, as offset+length; A of B: only A of its bytes B are lost",
			cell: run.bytes,
		},
		{
			name: "acked at\nposition", tight: 9, legend: "place in the block log of the first event that followed the ack; the cut stands in the same log",
			cell:  run.position,
			shown: run.logged,
		},
		{
			name: "time", tight: 12, legend: "when that event happened, from the beginning of the log, on the host's clock",
			cell:  run.time,
			shown: run.logged,
		},
		{
			name: "carried\nby", tight: 9, legend: "the numbers, in the block log, of the requests that carried its data to the drive before the ack",
			cell:  run.requests,
			shown: run.logged,
		},
		{
			name: insteadColumn, tight: 14, left: true, legend: "what its bytes hold after recovery",
			cell: func(r run) string { return or(strings.TrimPrefix(r.head.Found, "the "), none) },
		},
		{
			name: "reason", tight: 16, left: true, legend: "why it was not durable when it was acknowledged",
			cell: func(r run) string { return reasonText(r.head) },
		},
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// run is a sequence of consecutive ops with the same reason.
type run struct {
	head, last Finding
}

// logged tells whether there is a block log to find the op in.
func (r run) logged() bool { return r.head.Reason != trace.Unknown }

func (r run) count() int { return r.last.Op - r.head.Op + 1 }

func (r run) name() string { return span(fmt.Sprint(r.head.Op), fmt.Sprint(r.last.Op)) }

// span writes a range, or one value.
func span(from, to string) string {
	if from == to {
		return from
	}
	return from + "–" + to
}

func (r run) bytes() string {
	f := r.head
	switch {
	case r.count() > 1:
		return plural(r.count(), "op")
	case f.Missing.Length > 0 && f.Missing != f.Extent:
		return extent(f.Missing) + " of " + extent(f.Extent)
	}
	return extent(f.Extent)
}

func (r run) position() string {
	if !r.head.Acked {
		return "never"
	}
	return span(fmt.Sprint(r.head.AckedAt), fmt.Sprint(r.last.AckedAt))
}

func (r run) time() string {
	if !r.head.Acked || r.count() > 1 {
		return ""
	}
	return clock(r.head.AckedTime)
}

// requests names the requests that carried the op: all, or the first and how many
// more. Of several ops it names the first one's first, and the last one's.
func (r run) requests() string {
	from, to := r.head.CarriedBy, r.last.CarriedBy
	switch {
	case !r.head.Acked:
		return none
	case len(from) == 0 || len(to) == 0:
		return "none"
	case r.count() > 1:
		return span(fmt.Sprint(from[0]), fmt.Sprint(to[0]))
	case len(from) <= 2:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(from), "[]"), " ", ", ")
	}
	return fmt.Sprintf("%d and %d more", from[0], len(from)-1)
}

// rowsOf returns a row for each of the first findings and one for each of the
// first ranges after them; rest is what is left over.
func rowsOf(findings []Finding, full int) (rows, rest []run) {
	// A single op is not worth folding: it takes the same line.
	if len(findings) <= full+1 {
		full = len(findings)
	}
	for _, f := range findings[:full] {
		rows = append(rows, run{f, f})
	}
	runs := fold(findings[full:])
	n := len(runs)
	if n > full+1 {
		n = full
	}
	return append(rows, runs[:n]...), runs[n:]
}

// fold joins neighbours of one reason; findings are in ascending order of ops.
func fold(findings []Finding) []run {
	var runs []run
	for _, f := range findings {
		if n := len(runs); n > 0 && f.Op == runs[n-1].last.Op+1 && alike(f, runs[n-1].head) {
			runs[n-1].last = f
			continue
		}
		runs = append(runs, run{f, f})
	}
	return runs
}

// alike tells whether two findings differ in numbers alone.
func alike(a, b Finding) bool {
	return a.Class == b.Class && a.Acked == b.Acked && a.Reason == b.Reason &&
		(len(a.CarriedBy) == 0) == (len(b.CarriedBy) == 0) && numberless(a.Found) == numberless(b.Found)
}

func numberless(s string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, s)
}

func opsIn(runs []run) int {
	n := 0
	for _, r := range runs {
		n += r.count()
	}
	return n
}

// maxNames is the number of ranges that names writes.
const maxNames = 100

// names writes the ops of runs, by range: whatever the reason, for a range of
// several runs is as good.
func names(runs []run) string {
	var ranges []run
	for _, r := range runs {
		if n := len(ranges); n > 0 && ranges[n-1].last.Op+1 == r.head.Op {
			ranges[n-1].last = r.last
			continue
		}
		ranges = append(ranges, r)
	}
	var parts []string
	for i, r := range ranges {
		if i == maxNames {
			parts = append(parts, fmt.Sprintf("and %s", plural(opsIn(ranges[i:]), "more op")))
			break
		}
		parts = append(parts, r.name())
	}
	return strings.Join(parts, ", ")
}

// extent writes a byte range as offset+length.
func extent(e workload.Extent) string { return fmt.Sprintf("%d+%d", e.Offset, e.Length) }

// clock writes a time since the log was begun, to the microsecond.
func clock(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.3f ms", ms)
	}
	return fmt.Sprintf("%.6f s", ms/1000)
}
