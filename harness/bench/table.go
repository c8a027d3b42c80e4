package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"powercut/harness/latency"
)

// Table writes the document for a reader. It fails where w does.
func Table(w io.Writer, d *Document) error {
	var b strings.Builder
	m := d.Machine
	fmt.Fprintf(&b, "guest Linux %s, QEMU %s (%s), %d processors, load %.1f\n\n", m.Release, m.QEMU, m.Accelerator, m.Processors, m.Load)
	d.figures(&b)
	fmt.Fprintf(&b, "\nwhere the time of a run goes (%s, fdatasync)\n", scenarioName)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range d.Phases {
		fmt.Fprintf(t, "  %s\t%8s\n", p.Name, latency.Format(p.Median*1e6))
	}
	t.Flush()
	fmt.Fprintf(&b, "\n%s\n", d.conclusion())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write bench table: %w", err)
	}
	return nil
}

// figures writes a line for each figure, and below it what that was made of.
func (d *Document) figures(b *strings.Builder) {
	text, value, bound := 0, len("measured"), 0
	for _, f := range d.Figures {
		text = max(text, utf8.RuneCountInString(f.Text))
		value = max(value, utf8.RuneCountInString(f.measured()))
		bound = max(bound, utf8.RuneCountInString(f.wanted()))
	}
	fmt.Fprintf(b, "%-*s  %*s  %s\n", text, "figure", value, "measured", "wanted")
	for _, f := range d.Figures {
		fmt.Fprintf(b, "%-*s  %*s  %-*s  %s\n", text, f.Text, value, f.measured(), bound, f.wanted(), f.outcome())
		if made := f.made(); made != "" {
			fmt.Fprintf(b, "    %s\n", made)
		}
	}
}

func (d *Document) conclusion() string {
	quick := ""
	if d.Quick {
		quick = ", of few rounds"
	}
	if d.Held {
		return fmt.Sprintf("within bounds%s (%.0f s)", quick, d.Elapsed)
	}
	return fmt.Sprintf("NOT within bounds%s (%.0f s)", quick, d.Elapsed)
}

func (f Figure) measured() string {
	if f.Skipped != "" {
		return "-"
	}
	return quantity(f.Value, f.Unit)
}

func (f Figure) wanted() string {
	if f.AtLeast {
		return "≥ " + quantity(f.Bound, f.Unit)
	}
	return "≤ " + quantity(f.Bound, f.Unit)
}

func (f Figure) outcome() string {
	switch {
	case f.Skipped != "":
		return "skipped"
	case f.Held:
		return "ok"
	}
	return "OVER"
}

// made lists the parts of a figure, or says why there are none.
func (f Figure) made() string {
	if f.Skipped != "" {
		return f.Skipped
	}
	var out []string
	for _, p := range f.Parts {
		out = append(out, p.Name+" "+quantity(p.Value, p.Unit))
	}
	return strings.Join(out, ", ")
}

// quantity writes a value with its unit: times as package latency does, anything
// else with three significant digits or more.
func quantity(v float64, unit string) string {
	switch unit {
	case Nanoseconds:
		return latency.Format(v)
	case Count:
		return fmt.Sprintf("%.0f", v)
	case Percent:
		return significant(v) + " %"
	}
	return significant(v) + " " + unit
}

func significant(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
