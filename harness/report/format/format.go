// Package format writes what a campaign brought for other programs: JUnit XML for a
// CI server, KTAP for the tools of the kernel, Markdown and JSON.
package format

import (
	"fmt"
	"io"
	"strings"

	"powercut/harness/report"
)

// Format names one of them.
type Format string

// The formats.
const (
	Text     Format = "text" // the tables, without colour
	JSON     Format = "json"
	JUnit    Format = "junit"
	KTAP     Format = "ktap"
	Markdown Format = "markdown"
)

// All lists them.
func All() []Format { return []Format{Text, JSON, JUnit, KTAP, Markdown} }

// Results are what a campaign brought.
type Results struct {
	Runs   []*report.Document // finished, in order
	Broken []Broken           // those that the harness could not do
	// Several: more than one run was asked for. JSON is then one report.Combined, and
	// Text a summary, however many there are.
	Several bool
}

// Broken is a run that the harness could not do, which says nothing about the file
// system.
type Broken struct {
	Scenario string
	Seed     uint64
	Err      error
}

// name is the name of a run among tests.
func name(scenario string, seed uint64) string { return fmt.Sprintf("%s seed %d", scenario, seed) }

// Write writes the results. The harness's own failures are told in JUnit and KTAP,
// which have a word for them. It fails where w does.
func Write(w io.Writer, f Format, r Results) error {
	switch f {
	case JSON:
		if r.Several || len(r.Runs) != 1 {
			return report.JSONAll(w, r.Runs)
		}
		return report.JSON(w, r.Runs[0])
	case JUnit:
		return writeJUnit(w, r)
	case KTAP:
		return writeKTAP(w, r)
	case Markdown:
		return report.Markdown(w, r.Runs)
	case Text:
		if r.Several || len(r.Runs) != 1 {
			return report.Runs(w, r.Runs, report.Options{})
		}
		return report.Table(w, r.Runs[0], report.Options{})
	}
	return fmt.Errorf("write report: %q is no format", f)
}

// evidence tells in lines why an expectation of a call, or of the run as a whole,
// did not hold: where everything is, and of lost ops the first few.
func evidence(d *report.Document, e report.Expectation) []string {
	const shown = 5
	lines := []string{"expected: " + e.Text, "found: " + e.Found}
	call, _, _ := strings.Cut(e.Text, ": ")
	for _, c := range d.Calls {
		if c.Call != call {
			continue
		}
		if c.Recovery.Detail != "" {
			lines = append(lines, "recovery: "+c.Recovery.Detail)
		}
		for _, f := range c.Findings[:min(shown, len(c.Findings))] {
			lines = append(lines, fmt.Sprintf("op %d %s: %s", f.Op, f.Class, f.Why))
		}
		if left := len(c.Findings) - shown; left > 0 {
			lines = append(lines, fmt.Sprintf("and %d more ops", left))
		}
	}
	lines = append(lines, "evidence: "+d.Folder)
	for i := range lines {
		lines[i] = report.Clean(lines[i])
	}
	return lines
}
