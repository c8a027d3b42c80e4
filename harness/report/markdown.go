package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes runs for a mail or a pull request, in CommonMark with the tables
// of GitHub: of one run its calls, what broke and how to repeat it; of several one
// row each and then those that did not hold.
func Markdown(w io.Writer, docs []*Document) error {
	m := &marked{}
	if len(docs) != 1 {
		m.para("## powercut: %s", TallyRuns(docs))
		if len(docs) > 0 {
			m.grid(RunGrid(docs))
		}
	}
	for _, d := range docs {
		if len(docs) == 1 || !d.Held {
			m.run(d)
		}
	}
	_, err := io.WriteString(w, strings.TrimSuffix(m.String(), "\n"))
	return err
}

// TallyRuns counts the runs that held, and those that were not judged.
func TallyRuns(docs []*Document) string {
	held, unjudged := 0, 0
	for _, d := range docs {
		switch {
		case d.Held:
			held++
		case d.Unjudged():
			unjudged++
		}
	}
	s := fmt.Sprintf("%d of %s held", held, plural(len(docs), "run"))
	if unjudged > 0 {
		s += fmt.Sprintf(", %d not judged", unjudged)
	}
	return s
}

// marked is a Markdown text. Blocks end with an empty line.
type marked struct{ strings.Builder }

// para adds a block. Its arguments are to be escaped already.
func (m *marked) para(format string, a ...any) { fmt.Fprintf(m, format+"\n\n", a...) }

// run tells of one run.
func (m *marked) run(d *Document) {
	m.para("## powercut: %s %s", Escape(d.Scenario), outcome(d))
	m.para("%s", Escape(d.About))
	for _, f := range d.Facts()[2:] { // name and purpose are said
		fmt.Fprintf(m, "- %s: %s\n", Escape(f.Name), Escape(f.Text))
	}
	m.WriteByte('\n')
	if len(d.Calls) > 0 {
		m.grid(SurvivalGrid(d.Calls))
		m.grid(CostGrid(d.Calls))
	}
	for _, c := range d.Calls {
		m.call(c)
	}
	for _, e := range d.Expectations {
		if !e.Held {
			word := map[bool]string{false: "NOT MET", true: "BUSY"}[e.Busy]
			fmt.Fprintf(m, "- **%s** %s\n", word, Escape(e.Text+foundText(e.Found, "; found ")))
		}
	}
	m.para("- %s held", tally(d.Expectations))
	m.para("Again:")
	m.code([]string{d.Again()})
}

// call tells what broke in a call.
func (m *marked) call(c Call) {
	if !read(c) {
		m.para("**%s: recovery failed:** %s", Escape(c.Call), Escape(recoveryText(c.Recovery)))
		m.code(c.Recovery.Console)
	}
	for _, part := range []struct{ name, wrong string }{
		{"first content of the file", c.Setup}, {"size of the file", c.Size}, {"holes of the file", c.Stray},
	} {
		if part.wrong != "" {
			m.para("**%s, %s:** %s", Escape(c.Call), part.name, Escape(part.wrong))
		}
	}
	if c.Errors != nil {
		m.para("%s: %s failed: %s", Escape(c.Call), plural(c.Errors.Count, "op"), Escape(errorText(*c.Errors)))
	}
	if len(c.Findings) == 0 {
		return
	}
	m.para("**%s:**", Escape(Headline(c)))
	g, left := FindingGrid(c, DefaultFull)
	m.grid(g)
	if left > 0 {
		m.para("and %s", plural(left, "more op"))
	}
	if f := c.Findings[0]; f.Why != "" {
		m.para("%s (op %d): %s", Escape(reasonText(f)), f.Op, Escape(f.Why))
	}
}

// grid draws a table.
func (m *marked) grid(g Grid) {
	var names, rule []string
	for _, h := range g.Head {
		names = append(names, Escape(h.Name))
		rule = append(rule, map[bool]string{true: "---", false: "--:"}[h.Left])
	}
	rows := [][]string{names, rule}
	for _, r := range g.Rows {
		var cells []string
		for _, c := range r {
			s := Escape(c.Text)
			if c.Bad && s != "" {
				s = "**" + s + "**"
			}
			cells = append(cells, s)
		}
		rows = append(rows, cells)
	}
	for _, r := range rows {
		fmt.Fprintf(m, "| %s |\n", strings.Join(r, " | "))
	}
	m.WriteByte('\n')
}

// code shows lines as they are: indented, which no line can end.
func (m *marked) code(lines []string) {
	for _, l := range lines {
		fmt.Fprintf(m, "    %s\n", Clean(l))
	}
	m.WriteByte('\n')
}

// Escape makes a text mean nothing but itself: Markdown's characters are escaped
// with a backslash, which CommonMark allows for all ASCII punctuation.
func Escape(s string) string {
	var b strings.Builder
	for _, r := range Clean(s) {
		if strings.ContainsRune("\\`*_{}[]<>#|~&!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
