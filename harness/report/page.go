package report

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Width is the number of terminal columns that Table and Runs keep to. Only
// a single word that is longer, such as the path of a run folder, sticks out:
// a path that is cut in two cannot be copied.
const Width = 100

// Options say how Table and Runs print.
type Options struct {
	// Colour allows ANSI colours. Whether the writer is a terminal, and whether
	// NO_COLOR is set, is for the caller to find out.
	Colour bool
	// Full is the number of lost and foreign ops that Table lists one by one for
	// each call, before it folds the rest into ranges; 0 means DefaultFull.
	Full int
	// Explain adds a legend of every column, and what else was left short.
	Explain bool
	// Quiet leaves the last line alone: what came out, and where everything is.
	Quiet bool
}

// DefaultFull is the number of findings that are listed one by one.
const DefaultFull = 6

func (o Options) full() int {
	if o.Full > 0 {
		return o.Full
	}
	return DefaultFull
}

// style is the inner part of an ANSI colour sequence (SGR); none is "".
type style string

const (
	plain style = ""
	faint style = "2"
	bold  style = "1"
	red   style = "1;31"
	green style = "32"
	amber style = "33"
)

// page gathers the text of a report.
type page struct {
	text   strings.Builder
	colour bool
}

// paint colours s. go-pretty's own colours are not used: they follow the
// environment, and whether to colour is the caller's decision here.
func (p *page) paint(st style, s string) string {
	if !p.colour || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// line adds a line as it is.
func (p *page) line(s string) {
	p.text.WriteString(strings.TrimRight(s, " "))
	p.text.WriteByte('\n')
}

// blank adds an empty line.
func (p *page) blank() { p.line("") }

// hang adds a label, painted, and a text that is wrapped beside it. The text
// begins at column indent, or a space after a longer label; the lines that
// follow begin at column indent.
func (p *page) hang(indent int, st style, label, s string) {
	label = Clean(label)
	first := max(indent, text.StringWidth(label)+1)
	lines := wrap(Clean(s), Width-first, Width-indent)
	pad := strings.Repeat(" ", first-text.StringWidth(label))
	p.line(p.paint(st, label) + pad + lines[0])
	for _, l := range lines[1:] {
		p.line(strings.Repeat(" ", indent) + l)
	}
}

// writeTo hands the page over in one write.
func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, p.text.String())
	return err
}

// wrap breaks s at its spaces into lines of at most first (the first line) and
// rest columns. A longer word gets a line of its own. There is always one line;
// the first is empty where rest has room for the first word and first has not.
func wrap(s string, first, rest int) []string {
	lines := []string{""}
	room := first
	for _, word := range strings.Fields(s) {
		n := text.StringWidth(word)
		last := &lines[len(lines)-1]
		switch {
		case *last == "" && (n <= room || room >= rest):
			*last = word
			room -= n
		case *last != "" && n+1 <= room:
			*last += " " + word
			room -= n + 1
		default:
			lines = append(lines, word)
			room = rest - n
		}
	}
	return lines
}

// split breaks s into pieces of at most n columns, wherever that may be.
func split(s string, n int) []string {
	pieces := []string{""}
	room := n
	for _, r := range s {
		width := text.RuneWidth(r)
		if width > room && room < n {
			pieces = append(pieces, "")
			room = n
		}
		pieces[len(pieces)-1] += string(r)
		room -= width
	}
	return pieces
}

// Clean makes a text from elsewhere, such as the guest's console, harmless on a
// terminal: bytes that are not UTF-8 and control characters (the beginning of
// every escape sequence) are shown as a middle dot, white space as a space.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, s)
}
