package suite

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"powercut/harness/report"
)

// maxRows is how many cells a table of the page names.
const maxRows = 40

// section is a table of the page, and what did not find room in it.
type section struct {
	title string
	grid  report.Grid
	left  int
}

// Text prints the page for a terminal. With quiet it is the last line alone.
func (n *Night) Text(w io.Writer, colour, quiet bool) error {
	var b strings.Builder
	if !quiet {
		for _, s := range n.sections() {
			fmt.Fprintf(&b, "%s\n%s", s.title, s.grid.Text(colour))
			if s.left > 0 {
				fmt.Fprintf(&b, "and %d more\n", s.left)
			}
			b.WriteByte('\n')
		}
		for _, note := range n.notes() {
			b.WriteString(report.Line(note[0], note[1], false, colour))
		}
	}
	b.WriteString(report.Line(n.headline()+":", n.summary(), n.Outcome() != Held, colour))
	return write(w, b.String())
}

// Markdown prints it for a mail or a pull request.
func (n *Night) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## powercut: %s\n\n%s\n\n", report.Escape(n.headline()), report.Escape(n.summary()))
	for _, s := range n.sections() {
		fmt.Fprintf(&b, "### %s\n\n%s", report.Escape(s.title), s.grid.Markdown())
		if s.left > 0 {
			fmt.Fprintf(&b, "and %d more\n\n", s.left)
		}
	}
	for _, note := range n.notes() {
		fmt.Fprintf(&b, "- %s: %s\n", report.Escape(note[0]), report.Escape(note[1]))
	}
	return write(w, strings.TrimSuffix(b.String(), "\n")+"\n")
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// sections lists the tables that are not empty, what is most urgent first.
func (n *Night) sections() []section {
	since := "Not met"
	if n.Baseline != "" {
		since = "Not met, and new since " + n.Baseline
	}
	list := []section{
		rows("Flaky: the same seed and another verdict. A defect of powercut's, or a race in the file system", n.Flaky),
		rows(since, n.Broke),
		rows("Not met, as in "+n.Baseline, n.Failing),
		between(n.Between),
		dearer("Slower or dearer than in "+n.Baseline, n.Dearer),
		rows("The harness failed, which says nothing about the file system", n.Broken),
		rows("Mended since "+n.Baseline, n.Mended),
	}
	shown := list[:0]
	for _, s := range list {
		if len(s.grid.Rows) > 0 {
			shown = append(shown, s)
		}
	}
	return shown
}

func head(names ...string) []report.Heading {
	var list []report.Heading
	for _, n := range names {
		list = append(list, report.Heading{Name: n, Left: true})
	}
	return list
}

func cells(texts ...string) []report.Cell {
	var list []report.Cell
	for _, t := range texts {
		list = append(list, report.Cell{Text: t, Bad: t == string(NotMet)})
	}
	return list
}

// add adds a row, if it finds room.
func (s *section) add(texts ...string) {
	if len(s.grid.Rows) == maxRows {
		s.left++
		return
	}
	s.grid.Rows = append(s.grid.Rows, cells(texts...))
}

func rows(title string, list []Row) section {
	if !slices.ContainsFunc(list, func(r Row) bool { return r.Was != "" }) {
		s := section{title: title, grid: report.Grid{Head: head("cell", "is", "what")}}
		for _, r := range list {
			s.add(r.Cell, r.Is, r.What)
		}
		return s
	}
	s := section{title: title, grid: report.Grid{Head: head("cell", "was", "is", "what")}}
	for _, r := range list {
		s.add(r.Cell, or(r.Was), r.Is, r.What)
	}
	return s
}

func between(list []report.Comparison) section {
	s := section{title: "Not met between cells", grid: report.Grid{Head: head("matrix", "condition", "found")}}
	for _, c := range list {
		s.add(c.Matrix, c.Text, fmt.Sprintf("%.2f", c.Ratio))
	}
	return s
}

func dearer(title string, list []Dearer) section {
	s := section{title: title, grid: report.Grid{Head: head("scenario", "call", "what", "was", "is")}}
	for _, d := range list {
		s.add(d.Scenario, d.Call, d.What, d.Was, d.Is)
	}
	return s
}

func or(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// notes are lines with a label each.
func (n *Night) notes() [][2]string {
	var list [][2]string
	add := func(label string, names []string) {
		if len(names) > 0 {
			list = append(list, [2]string{label, named(names)})
		}
	}
	add("no result", n.Missing)
	add("new cells", n.New)
	add("gone", n.Gone)
	if len(n.Evidence) > 0 {
		list = append(list, [2]string{"evidence", "in a folder of each cell in " + strings.Join(n.Evidence, ", ")})
	}
	return list
}

// named counts cells and names the first few.
func named(names []string) string {
	const few = 5
	s := fmt.Sprintf("%s: %s", plural(len(names), "cell"), strings.Join(names[:min(few, len(names))], ", "))
	if len(names) > few {
		s += " ..."
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (n *Night) headline() string {
	word := map[Outcome]string{Held: "held", NotMet: "NOT MET", Broken: "not all done"}[n.Outcome()]
	s := n.Plan.Suite
	if n.Plan.Share.Of > 1 {
		s += " " + n.Plan.Share.String()
	}
	return s + " " + word
}

// summary counts.
func (n *Night) summary() string {
	parts := []string{fmt.Sprintf("%d of %s held", n.Held, plural(n.Cells, "cell"))}
	add := func(count int, what string) {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, what))
		}
	}
	add(len(n.Flaky), "flaky")
	if n.Baseline == "" {
		add(len(n.Broke), "not met")
	} else {
		add(len(n.Broke), "newly not met")
		add(len(n.Failing), "not met as before")
		add(len(n.Mended), "mended")
	}
	add(len(n.Between), "not met between cells")
	add(len(n.Dearer), "slower or dearer")
	add(len(n.Broken), "that the harness could not do")
	add(len(n.Missing), "without a result")
	return strings.Join(parts, ", ") + "; " + (time.Duration(n.Seconds) * time.Second).String() + " of work"
}
