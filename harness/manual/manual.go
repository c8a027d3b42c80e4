// Package manual makes the manual page of a command line from its model.
package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Page is what a manual page says beside what the model of a command line has.
type Page struct {
	App      *kong.Application
	Brief    string  // what NAME says after the program's name
	Exits    []Entry // the exit codes
	Settings []Entry // environment variables
	Files    []Entry
}

// Entry is a term and what it means.
type Entry struct{ Term, Text string }

// Roff returns the page in the language of man(7), in section 1. Each command that
// has no commands of its own gets a subsection: its arguments first, then its flags, in
// the order of the model. What is hidden there is left out.
func (p Page) Roff() string {
	w := &writer{}
	w.line(".TH %s 1 \"\" %s \"User Commands\"", strings.ToUpper(p.App.Name), word(p.App.Name))
	w.line(".SH NAME")
	w.line("%s \\- %s", text(p.App.Name), text(p.Brief))
	w.line(".SH SYNOPSIS")
	w.line(".B %s", text(p.App.Name))
	w.line(".I command")
	w.line("[flags]")
	w.line(".SH DESCRIPTION")
	w.paragraph(p.App.Help)
	w.line(".SH COMMANDS")
	for _, n := range p.App.Leaves(true) {
		w.command(n)
	}
	w.line(".SH OPTIONS")
	w.line("Each command has these too.")
	w.flags(p.App.Node)
	w.entries("EXIT STATUS", p.Exits)
	w.entries("ENVIRONMENT", p.Settings)
	w.entries("FILES", p.Files)
	return w.String()
}

// writer gathers lines of roff.
type writer struct{ strings.Builder }

func (w *writer) line(format string, a ...any) { fmt.Fprintf(w, format+"\n", a...) }

// paragraph writes running text, of which empty lines end a paragraph.
func (w *writer) paragraph(s string) {
	for i, p := range strings.Split(strings.TrimSpace(s), "\n\n") {
		if i > 0 {
			w.line(".PP")
		}
		w.line("%s", text(strings.Join(strings.Fields(p), " ")))
	}
}

func (w *writer) command(n *kong.Node) {
	w.line(".SS %s", word(n.FullPath()))
	w.paragraph(n.Help)
	if n.Detail != "" {
		w.line(".PP")
		w.paragraph(n.Detail)
	}
	for _, a := range n.Positional {
		w.term(a.Summary(), a.Help)
	}
	for at := n; at.Type != kong.ApplicationNode; at = at.Parent {
		w.flags(at)
	}
}

func (w *writer) flags(n *kong.Node) {
	for _, f := range n.Flags {
		if !f.Hidden {
			w.term(flag(f), f.Help+preset(f))
		}
	}
}

// preset is a flag's default, where its help does not say it.
func preset(f *kong.Flag) string {
	if f.Default == "" || f.IsBool() || strings.Contains(f.Help, "Default: ") {
		return ""
	}
	return " Default: " + f.Default + "."
}

// flag is a flag as it is typed.
func flag(f *kong.Flag) string {
	name := "--" + f.Name
	if f.Tag.Negatable != "" {
		name = "--[no-]" + f.Name
	}
	if f.Short != 0 {
		name = "-" + string(f.Short) + ", " + name
	}
	if f.IsBool() || f.IsCounter() {
		return name
	}
	return name + "=" + f.FormatPlaceHolder()
}

func (w *writer) entries(title string, list []Entry) {
	w.line(".SH %s", word(title))
	for _, e := range list {
		w.term(e.Term, e.Text)
	}
}

func (w *writer) term(term, means string) {
	w.line(".TP")
	w.line(".B %s", text(term))
	w.paragraph(means)
}

// escapes are for what roff would read as its own: hyphens that are to be typed, its
// escape character, and marks that it prints as others.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// text is text as roff prints it. A line that begins with a control character is
// kept from being a request.
func text(s string) string {
	if strings.HasPrefix(s, ".") {
		return `\&` + escapes.Replace(s)
	}
	return escapes.Replace(s)
}

// word is text as one argument of a request.
func word(s string) string { return `"` + strings.ReplaceAll(text(s), `"`, `\(dq`) + `"` }
