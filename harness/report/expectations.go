package report

import (
	"fmt"
	"strings"
)

// expectations prints what was met, one line a bound for all calls together, and
// then what was not, one line each.
func (p *page) expectations(d *Document) {
	if len(d.Expectations) > 0 {
		p.blank()
	}
	for _, m := range metBounds(d) {
		p.hang(9, green, "ok", m.text(len(d.Calls)))
	}
	for _, e := range d.Expectations {
		switch text := e.Text + foundText(e.Found, "; found "); {
		case e.Held:
		case e.Busy:
			p.hang(9, amber, "BUSY", text)
		default:
			p.hang(9, red, "NOT MET", text)
		}
	}
}

// foundText is what was found, after a separator; nothing where nothing is said.
func foundText(found, after string) string {
	if found == "" {
		return ""
	}
	return after + found
}

// met is a bound that one or more calls met.
type met struct {
	bound string
	calls []string // empty for an expectation that is not of one call
	found []string
}

// metBounds gathers the expectations that held by their bound.
func metBounds(d *Document) []*met {
	var list []*met
	by := map[string]*met{}
	for _, e := range d.Expectations {
		if !e.Held {
			continue
		}
		call, bound, ok := ofCall(d, e.Text)
		if !ok {
			list = append(list, &met{bound: e.Text, found: []string{e.Found}})
			continue
		}
		m := by[bound]
		if m == nil {
			m = &met{bound: bound}
			by[bound] = m
			list = append(list, m)
		}
		m.calls, m.found = append(m.calls, call), append(m.found, e.Found)
	}
	return list
}

// ofCall takes an expectation apart that begins with the name of one of the
// document's calls: "fsync: lost 0".
func ofCall(d *Document, text string) (call, bound string, ok bool) {
	call, bound, ok = strings.Cut(text, ": ")
	if !ok {
		return "", "", false
	}
	for _, c := range d.Calls {
		if c.Call == call {
			return call, bound, true
		}
	}
	return "", "", false
}

// text writes "lost 0: O_SYNC 0, fsync 0". Where what was found is the very word
// that the bound asks for, of all calls, there is no need to repeat it.
func (m *met) text(calls int) string {
	if len(m.calls) == 0 {
		return m.bound + foundText(m.found[0], ": ")
	}
	var parts []string
	plain := true
	for i, call := range m.calls {
		word := m.found[i]
		parts = append(parts, call+foundText(word, " "))
		plain = plain && strings.HasSuffix(m.bound, " "+word) && strings.Trim(word, "0123456789") != ""
	}
	if plain && len(m.calls) == calls && calls > 1 {
		return fmt.Sprintf("%s: all %d calls", m.bound, calls)
	}
	return m.bound + ": " + strings.Join(parts, ", ")
}
