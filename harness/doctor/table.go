package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Table writes the document for a reader: a line for each check, below it what
// helps, and at the end one command for all packages that are missing. It fails
// where w does.
func Table(w io.Writer, d *Document) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range d.Checks {
		detail := c.Detail
		if c.For != "" {
			detail += "; for: " + c.For
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.State, c.Name, detail)
		if c.Fix != "" {
			fmt.Fprintf(t, "\t\t→ %s\n", c.Fix)
		}
	}
	t.Flush()
	fmt.Fprintf(&b, "\n%s\n", d.conclusion())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	return nil
}

// install begins a Fix that brings a package.
const install = "apt-get install "

func (d *Document) conclusion() string {
	if d.Ready {
		return "everything that powercut needs is here"
	}
	missing := 0
	var packages []string
	for _, c := range d.Checks {
		if c.State != Missing {
			continue
		}
		missing++
		if pkg, ok := strings.CutPrefix(c.Fix, install); ok {
			packages = append(packages, pkg)
		}
	}
	slices.Sort(packages)
	text := fmt.Sprintf("NOT READY: %d of %d checks failed", missing, len(d.Checks))
	if packages = slices.Compact(packages); len(packages) > 0 {
		text += "\n→ " + install + strings.Join(packages, " ")
	}
	return text
}

// JSON writes the document, indented. It fails where w does.
func JSON(w io.Writer, d *Document) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	return nil
}
