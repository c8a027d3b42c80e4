package format

import (
	"fmt"
	"io"
	"strings"

	"powercut/harness/report"
)

// writeKTAP writes KTAP version 1 (Documentation/dev-tools/ktap.rst): a test for
// each run, with its expectations as subtests. To a reader of TAP the runs are the
// tests. A run that the harness could not do is skipped: it says nothing.
func writeKTAP(w io.Writer, r Results) error {
	var b strings.Builder
	fmt.Fprintf(&b, "KTAP version 1\n1..%d\n", len(r.Runs)+len(r.Broken))
	for i, d := range r.Runs {
		subtests(&b, d)
		result(&b, "", d.Held || d.Unjudged(), i+1, name(d.Scenario, d.Seed), skipped(d.Unjudged()))
	}
	for i, x := range r.Broken {
		fmt.Fprintf(&b, "# harness: %s\n", report.Clean(x.Err.Error()))
		result(&b, "", true, len(r.Runs)+i+1, name(x.Scenario, x.Seed), " # SKIP the harness failed")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write ktap: %w", err)
	}
	return nil
}

// subtests writes the expectations of a run. What is to be known of one stands
// before it.
func subtests(b *strings.Builder, d *report.Document) {
	const indent = "  "
	fmt.Fprintf(b, "%sKTAP version 1\n%s# Subtest: %s\n%s1..%d\n", indent, indent, name(d.Scenario, d.Seed), indent, len(d.Expectations))
	for i, e := range d.Expectations {
		if !e.Held {
			for _, l := range evidence(d, e) {
				fmt.Fprintf(b, "%s# %s\n", indent, l)
			}
		}
		result(b, indent, e.Held || e.Busy, i+1, e.Text, skipped(e.Busy))
	}
}

// skipped is the directive for times that the machine was too busy to judge.
func skipped(busy bool) string {
	if busy {
		return " # SKIP this machine was too busy to judge a time"
	}
	return ""
}

// result writes the line of a test. A # in its name would begin a directive.
func result(b *strings.Builder, indent string, ok bool, n int, name, directive string) {
	word := "ok"
	if !ok {
		word = "not ok"
	}
	fmt.Fprintf(b, "%s%s %d %s%s\n", indent, word, n, strings.ReplaceAll(report.Clean(name), "#", "no."), directive)
}
