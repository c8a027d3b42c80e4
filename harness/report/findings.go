package report

import (
	"fmt"
	"regexp"
	"strings"

	"powercut/guest/workload"
)

// findings names the ops of each call that broke their promise, and what else is
// wrong with its file: the first ones in full, the others folded.
func (p *page) findings(calls []Call, full int) {
	for i, c := range calls {
		if c.Setup == "" && c.Size == "" && c.Stray == "" && len(c.Findings) == 0 {
			continue
		}
		p.blank()
		if c.Setup != "" {
			p.hang(4, red, c.Call+" file:", c.Setup)
		}
		if c.Size != "" {
			p.hang(4, red, c.Call+" size:", c.Size)
		}
		if c.Stray != "" {
			p.hang(4, red, c.Call+" stray:", c.Stray)
		}
		p.ops(c, i, full)
	}
}

// ops describes the findings of the call at index i of the document.
func (p *page) ops(c Call, i, full int) {
	rest := c.Findings
	// A single op is not worth folding: it takes the same line.
	if len(rest) <= full+1 {
		full = len(rest)
	}
	for _, f := range rest[:full] {
		p.hang(4, red, fmt.Sprintf("%s %s op %d:", c.Call, f.Class, f.Op), findingText(f))
	}
	rest = rest[full:]
	if len(rest) == 0 {
		return
	}
	runs := fold(rest)
	shown := min(len(runs), full)
	ops := 0
	for _, r := range runs[:shown] {
		ops += r.count()
		p.hang(4, red, fmt.Sprintf("%s %s %s:", c.Call, r.head.Class, r.name()), r.text())
	}
	if left := len(rest) - ops; left > 0 {
		p.hang(4, red, c.Call, fmt.Sprintf("and %s more", plural(left, "op")))
	}
	p.hang(4, plain, "", fmt.Sprintf("%s in all; each is in report.json, calls[%d].findings", plural(len(c.Findings), "op"), i))
}

// findingText says of one op what is missing, when it was acknowledged, what is
// there instead and why.
func findingText(f Finding) string {
	parts := []string{"bytes " + extent(f.Extent)}
	if f.Missing.Length > 0 && f.Missing != f.Extent {
		parts[0] = fmt.Sprintf("bytes %s of its %s", extent(f.Missing), extent(f.Extent))
	}
	if f.Acked {
		parts = append(parts, fmt.Sprintf("acked at position %d (%s)", f.AckedAt, clock(f.AckedTime)))
	} else {
		parts = append(parts, "never acked")
	}
	if f.Found != "" {
		parts = append(parts, "found "+f.Found)
	}
	s := strings.Join(parts, ", ")
	if f.Why == "" {
		return s
	}
	return s + ": " + f.Why
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

// run is a sequence of consecutive ops with the same reason.
type run struct {
	head Finding // the first of them
	last int     // number of the last op
}

func (r run) count() int { return r.last - r.head.Op + 1 }

func (r run) name() string {
	if r.count() == 1 {
		return fmt.Sprintf("op %d", r.head.Op)
	}
	return fmt.Sprintf("ops %d–%d", r.head.Op, r.last)
}

func (r run) text() string {
	s := findingText(r.head)
	if r.count() == 1 {
		return s
	}
	return fmt.Sprintf("%d ops, all for one reason; op %d: %s", r.count(), r.head.Op, s)
}

// fold joins neighbours of one reason; findings are in ascending order of ops.
func fold(findings []Finding) []run {
	digits := regexp.MustCompile(`[0-9]+`)
	var runs []run
	reason := ""
	for _, f := range findings {
		// The reason names requests and positions, which differ from op to op.
		this := digits.ReplaceAllString(fmt.Sprint(f.Class, f.Acked, "\n", f.Found, "\n", f.Why), "#")
		if n := len(runs); n > 0 && this == reason && f.Op == runs[n-1].last+1 {
			runs[n-1].last = f.Op
			continue
		}
		runs = append(runs, run{head: f, last: f.Op})
		reason = this
	}
	return runs
}
