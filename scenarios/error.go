package scenarios

import (
	"fmt"
	"strings"
	"unicode"
)

// Error says what is wrong with a scenario, and where.
type Error struct {
	File    string // path, name of the embedded file, or "--set a.b=value"
	Line    int    // from 1; 0 where File has no lines
	Column  int    // from 1, in characters
	Message string
	Text    string // the line, as it stands in the file
}

// Error prints "file:line:column: message", followed by the line with a caret
// below the column. Of a long line it shows what surrounds the column.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	text := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	if strings.TrimSpace(e.Text) == "" {
		return text
	}
	line, before := e.excerpt()
	return text + "\n  " + line + "\n  " + before + "^"
}

// maxExcerpt is how many characters of a line an error shows.
const maxExcerpt = 120

// excerpt returns the part of the line around the column, and white space as wide
// as what stands left of the column in it. Tabs stay tabs, so that the caret is
// below its column whatever the tab width; what cannot be printed is a point.
func (e *Error) excerpt() (line, before string) {
	runes := []rune(e.Text)
	column := min(e.Column-1, len(runes))
	if len(runes) > maxExcerpt {
		from := max(0, min(column-maxExcerpt/2, len(runes)-maxExcerpt))
		runes, column = runes[from:from+maxExcerpt], column-from
	}
	var left strings.Builder
	for i, r := range runes {
		if !unicode.IsPrint(r) && r != '\t' {
			runes[i] = '.'
		}
		if r != '\t' {
			r = ' '
		}
		if i < column {
			left.WriteRune(r)
		}
	}
	return string(runes), left.String()
}

// source is a text that values come from.
type source struct {
	name  string
	lines []string // none where the text is not a file
}

func newSource(name string, text []byte) *source {
	clean := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text))
	return &source{name: name, lines: strings.Split(clean, "\n")}
}

// place is where a value stands.
type place struct {
	source       *source
	line, column int
}

// errorf returns an error about what stands at p.
func (p place) errorf(format string, args ...any) *Error {
	e := &Error{File: p.source.name, Message: fmt.Sprintf(format, args...)}
	if len(p.source.lines) > 0 {
		e.Line, e.Column = max(p.line, 1), max(p.column, 1)
	}
	if e.Line >= 1 && e.Line <= len(p.source.lines) {
		e.Text = p.source.lines[e.Line-1]
	}
	return e
}

// unknown says that word is none of allowed, proposes what may have been meant,
// and lists what is allowed.
func unknown(word string, allowed []string) string {
	return fmt.Sprintf("%q is not known%s; allowed: %s", word, didYouMean(word, allowed), strings.Join(allowed, ", "))
}

// didYouMean proposes the words closest to word, if any is close.
func didYouMean(word string, words []string) string {
	near := closest(word, words)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
}

// closest lists up to three of words that are within a third of word's length
// from it in single-character edits, or that it begins; the nearest first.
func closest(word string, words []string) []string {
	var near []string
	limit := max(1, len(word)/3)
	for distance := 0; distance <= limit; distance++ {
		for _, w := range words {
			if edits(strings.ToLower(word), strings.ToLower(w)) == distance {
				near = append(near, w)
			}
		}
	}
	for _, w := range words {
		if len(near) == 0 && len(word) >= 2 && strings.HasPrefix(w, word) {
			near = append(near, w)
		}
	}
	return near[:min(len(near), 3)]
}

// edits is the Levenshtein distance of a and b. Words of more than 64 bytes are
// far from any other.
func edits(a, b string) int {
	const far = 1 << 10
	if len(a) > 64 || len(b) > 64 {
		return far
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
