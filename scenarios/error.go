package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
	alone bool     // see Alone
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

// maxWord is how many bytes of a value an error repeats.
const maxWord = 400

// errorf returns an error about what stands at p. Texts among args are cut short.
func (p place) errorf(format string, args ...any) *Error {
	for i, arg := range args {
		if text, ok := arg.(string); ok && len(text) > maxWord {
			args[i] = strings.ToValidUTF8(text[:maxWord], "") + "..."
		}
	}
	e := &Error{File: p.source.name, Message: fmt.Sprintf(format, args...)}
	if len(p.source.lines) > 0 {
		e.Line, e.Column = max(p.line, 1), max(p.column, 1)
	}
	if e.Line >= 1 && e.Line <= len(p.source.lines) {
		e.Text = p.source.lines[e.Line-1]
	}
	return e
}

// inside is where in n's text the error is, or else where n stands.
func (n *node) inside(err error) place {
	p := n.place
	var f interface{ Offset() int }
	if !errors.As(err, &f) || p.line < 1 || p.line > len(p.source.lines) {
		return p
	}
	line := []rune(p.source.lines[p.line-1])
	rest := string(line[min(max(p.column-1, 0), len(line)):])
	for quotes := range 2 { // a text in quotes is placed where its quotes begin
		if len(rest) >= quotes && strings.HasPrefix(rest[quotes:], n.text) {
			p.column += quotes + utf8.RuneCountInString(n.text[:min(f.Offset(), len(n.text))])
			return p
		}
	}
	return p
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
// from it in edits, the nearest first, then those that word begins.
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
		if len(word) >= 3 && strings.HasPrefix(w, word) && !slices.Contains(near, w) {
			near = append(near, w)
		}
	}
	return near[:min(len(near), 3)]
}

// edits is how many single characters must be put in, taken out or replaced, or
// neighbours swapped, to make b of a (the optimal string alignment distance).
// Texts of more than 64 bytes are far from any other.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 1 << 10
	}
	var rows [3][]int // for i-2, i-1 and i bytes of a: the distance to each beginning of b
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[2] {
		rows[2][j] = j
	}
	for i := 1; i <= len(a); i++ {
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
		rows[2][0] = i
		for j := 1; j <= len(b); j++ {
			replace := rows[1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[2][j] = min(replace, rows[1][j]+1, rows[2][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[2][j] = min(rows[2][j], rows[0][j-2]+1)
			}
		}
	}
	return rows[2][len(b)]
}
