package report

import (
	"fmt"
	"io"
	"strings"
)

// StudiesPage writes what runs show beside published figures, as a page in Markdown.
// missing are those that should be there and are not; picture is where the picture of a
// study is, as seen from the page.
func StudiesPage(w io.Writer, docs []*Document, missing []string, picture func(Study) string) error {
	m := &marked{}
	m.para("# Published figures, and ours")
	m.para("%s", strings.Join([]string{
		"Written by `powercut seeds` from " + plural(len(docs), "run") + "; each of our figures is the median over the runs of one scenario.",
		"They ran on " + Escape(strings.Join(distinct(docs, machineOf), "; ")) + ".",
	}, "\n"))
	if len(missing) > 0 {
		m.para("**This page is not whole.** No runs were given of %s.", Escape(strings.Join(missing, ", ")))
	}
	m.para("%s", strings.Join([]string{
		"*ours / theirs*, of a published range, is 1 within it and else the ratio to its nearer end.",
		"*with the drive* is the part of an op's time, on the guest's clock, in which a request of it was with the emulated drive, by the host's clock;",
		"*held up* the part in which QEMU was ready to run and the host had no processor for it, as the host's kernel counts it; *in the guest* what these two leave,",
		"the time of the guest's processor and of its queue, and 0 at least. Each part is a median, rounded, and some of what was held up may lie within what was with the drive,",
		"so that the three may add up to more than 100 %. *turns* are revolutions of the disk in the part with the drive. The other columns are requests.",
	}, "\n"))
	for _, s := range Studies(docs) {
		m.study(s, picture(s))
	}
	_, err := io.WriteString(w, strings.TrimRight(m.String(), "\n")+"\n")
	return err
}

func machineOf(d *Document) string { return kernel(d.Machine) + ", " + emulator(d.Machine) }

// study tells of one.
func (m *marked) study(s Study, picture string) {
	m.para("## %s", Escape(s.Name))
	m.para("%s. `powercut run seeds/%s`, %s of each cell.", Escape(upper(s.About)), s.Name, plural(s.Runs, "run"))
	for _, of := range s.Of {
		m.para("Theirs: %s.", Escape(of))
	}
	m.para("![%s](%s)", Escape(s.Picture.Title), picture)
	if len(s.Figures.Rows) > 0 {
		m.grid(s.Figures)
	}
	for _, why := range s.Why {
		m.para("Why: %s.", Escape(why))
	}
	m.grid(s.Costs)
	if s.Busy != "" {
		m.para("%s.", Escape(upper(s.Busy)))
	}
	for _, c := range s.Comparisons {
		fmt.Fprintf(m, "- %s: %s\n", map[bool]string{true: "held", false: "**not held**"}[c.Held], Escape(c.Text+": "+c.found()))
	}
	if len(s.Comparisons) > 0 {
		m.WriteByte('\n')
	}
	if len(s.Lost) > 0 {
		m.para("Lost of what was acknowledged, over all runs: %s.", Escape(strings.Join(s.Lost, "; ")))
	} else {
		m.para("Nothing was lost that was acknowledged.")
	}
}

// upper begins a sentence.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
