package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"powercut/harness/latency"
	"powercut/harness/report"
)

// View says how Text prints.
type View struct {
	Colour, Explain, Quiet bool
}

// Text prints the comparison for a terminal: verdicts, latencies, bills, and last how
// many regressions there are.
func (c *Comparison) Text(w io.Writer, v View) error {
	var b strings.Builder
	if !v.Quiet {
		for _, d := range c.Differences {
			b.WriteString(report.Line("differs", fmt.Sprintf("%s: %s → %s", d.What, or(d.Old), or(d.New)), false, false))
		}
		for _, s := range c.OnlyOld {
			b.WriteString(report.Line("only old", s, false, false))
		}
		for _, s := range c.OnlyNew {
			b.WriteString(report.Line("only new", s, false, false))
		}
		for _, part := range c.parts() {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(part.title + "\n")
			if len(part.Rows) == 0 {
				continue
			}
			b.WriteString(part.Text(v.Colour))
			if v.Explain {
				b.WriteString("\n" + part.Legend(v.Colour))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString(report.Line(c.outcome()+":", c.summary(), c.Regressions > 0, v.Colour))
	return write(w, b.String())
}

// Markdown prints it for a mail or a pull request.
func (c *Comparison) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## powercut: %s\n\n%s\n\n", c.outcome(), report.Escape(c.summary()))
	for _, d := range c.Differences {
		fmt.Fprintf(&b, "- %s: %s → %s\n", report.Escape(d.What), report.Escape(or(d.Old)), report.Escape(or(d.New)))
	}
	if len(c.Differences) > 0 {
		b.WriteByte('\n')
	}
	for _, part := range c.parts() {
		fmt.Fprintf(&b, "### %s\n\n", report.Escape(part.title))
		if len(part.Rows) > 0 {
			b.WriteString(part.Markdown())
		}
	}
	return write(w, strings.TrimSuffix(b.String(), "\n"))
}

// JSONSchema is the JSON Schema (draft 2020-12) of what JSON writes.
func JSONSchema() []byte { return report.SchemaOf(reflect.TypeFor[Comparison](), Schema) }

// JSON prints it as one document.
func (c *Comparison) JSON(w io.Writer) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode comparison: %w", err)
	}
	return write(w, string(b)+"\n")
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func or(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (c *Comparison) outcome() string {
	if c.Regressions == 0 {
		return "no regression"
	}
	return plural(c.Regressions, "regression")
}

func (c *Comparison) summary() string {
	return fmt.Sprintf("%d of verdicts, %d of latencies, %d of bills; %s old, %d new",
		count(c.Verdicts, Verdict.outcome), count(c.Latencies, Latency.outcome), count(c.Bills, Bill.outcome), plural(c.Runs[0], "run"), c.Runs[1])
}

// part is one table.
type part struct {
	title string
	report.Grid
}

func (c *Comparison) parts() []part {
	list := []part{
		{"Verdicts that changed", c.verdictGrid()},
		{"Latency: medians of acknowledged ops, and the Mann-Whitney U-test", c.latencyGrid()},
		{"Requests an op that changed", c.billGrid()},
	}
	if len(c.Verdicts) == 0 {
		list[0].title = "No verdict changed."
	}
	if len(c.Bills) == 0 {
		list[2].title = "No bill changed."
	}
	return list
}

var (
	scenarioHead = report.Heading{Name: "scenario", Legend: "name of the scenario", Left: true}
	callHead     = report.Heading{Name: "call", Legend: "the sync call", Left: true}
	outcomeHead  = report.Heading{Name: "outcome", Legend: "REGRESSION decides the exit code. A change is neither good nor bad by itself; that of a latency on a drive without a timing model is the host's or the guest's, if the drive accounts for less than half of it", Left: true}
)

// outcomeCell writes an outcome.
func outcomeCell(o Outcome) report.Cell {
	switch o {
	case Regression:
		return report.Cell{Text: "REGRESSION", Bad: true}
	case Same:
		return report.Cell{}
	}
	return report.Cell{Text: string(o)}
}

func text(s string) report.Cell { return report.Cell{Text: s} }

func (c *Comparison) verdictGrid() report.Grid {
	g := report.Grid{Head: []report.Heading{
		scenarioHead, callHead,
		{Name: "what", Legend: "lost or foreign: acknowledged ops of all runs; recovery: how fresh guests fared; or an expectation of the scenario", Left: true},
		{Name: "old", Legend: "what it was", Left: true},
		{Name: "new", Legend: "what it is", Left: true},
		outcomeHead,
	}}
	for _, v := range c.Verdicts {
		g.Rows = append(g.Rows, []report.Cell{text(v.Scenario), text(v.Call), text(v.What), text(v.Old), text(v.New), outcomeCell(v.Outcome)})
	}
	return g
}

func (c *Comparison) latencyGrid() report.Grid {
	g := report.Grid{Head: []report.Heading{
		scenarioHead, callHead,
		{Name: "old", Legend: "median latency, and its confidence interval of 95%: of all ops or, where each side has at least four runs, of the runs' medians"},
		{Name: "new", Legend: "the same of the new runs"},
		{Name: "change", Legend: "of the median; ~ where the test finds no difference"},
		{Name: "p", Legend: "of the U-test: how likely such a difference is without a cause. – without samples, as in a report that has lost its run folder"},
		{Name: "n", Legend: "values on both sides: ops, or runs"},
		outcomeHead,
	}}
	for _, l := range c.Latencies {
		change, p := fmt.Sprintf("%+.1f%%", l.Change*100), "–"
		if l.P != nil {
			p = fmt.Sprintf("%.3f", *l.P)
			if *l.P >= 0.05 {
				change = "~"
			}
		}
		if l.Old.N == 0 || l.New.N == 0 {
			change = "–"
		}
		unit := map[string]string{"op": "ops", "run": "runs", "none": "ops"}[l.Unit]
		g.Rows = append(g.Rows, []report.Cell{
			text(l.Scenario), text(l.Call), text(l.Old.String()), text(l.New.String()), text(change), text(p),
			text(fmt.Sprintf("%d+%d %s", l.Old.N, l.New.N, unit)), outcomeCell(l.Outcome),
		})
	}
	return g
}

// String writes "8.31 ms ±2%", with the wider half of the interval.
func (m Median) String() string {
	switch {
	case m.N == 0:
		return "–"
	case m.Lo == nil || m.Center == 0:
		return latency.Format(m.Center)
	}
	return fmt.Sprintf("%s ±%.0f%%", latency.Format(m.Center), 100*max(*m.Hi-m.Center, m.Center-*m.Lo)/m.Center)
}

func (c *Comparison) billGrid() report.Grid {
	g := report.Grid{Head: []report.Heading{
		scenarioHead, callHead,
		{Name: "what", Legend: "requests that reached the drive while ops ran", Left: true},
		{Name: "old", Legend: "so many in so many ops, exactly"},
		{Name: "new", Legend: "the same of the new runs"},
		{Name: "old/op", Legend: "the mean"},
		{Name: "new/op", Legend: "the mean"},
		outcomeHead,
	}}
	for _, b := range c.Bills {
		g.Rows = append(g.Rows, []report.Cell{
			text(b.Scenario), text(b.Call), text(b.What), text(fmt.Sprintf("%d in %d", b.OldCount, b.OldOps)), text(fmt.Sprintf("%d in %d", b.NewCount, b.NewOps)),
			text(fmt.Sprintf("%.2f", b.Old)), text(fmt.Sprintf("%.2f", b.New)), outcomeCell(b.Outcome),
		})
	}
	return g
}
