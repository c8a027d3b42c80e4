package jbd2

import (
	"slices"
	"strings"
	"testing"
)

const text = `# event histogram
#
# trigger info: hist:keys=block:vals=hitcount:sort=hitcount:size=4096 [active]
#

{ block:          7 } hitcount:          1
{ block:        300 } hitcount:          3

Totals:
    Hits: 4
    Entries: 2
    Dropped: 0
`

// TestParse: a histogram is read whole or refused.
func TestParse(t *testing.T) {
	keys, err := parse([]byte(text))
	if err != nil || !slices.Equal(keys, []string{"7", "300"}) {
		t.Errorf("keys %q, %v", keys, err)
	}
	if keys, err := parse([]byte(strings.ReplaceAll(text[strings.Index(text, "Totals"):], "Entries: 2", "Entries: 0"))); err != nil || len(keys) > 0 {
		t.Errorf("an empty histogram: %q, %v", keys, err)
	}
	for what, bad := range map[string]string{
		"dropped entries":      strings.Replace(text, "Dropped: 0", "Dropped: 1", 1),
		"an entry is missing":  strings.Replace(text, "{ block:          7 } hitcount:          1\n", "", 1),
		"no totals":            text[:strings.Index(text, "Totals")],
		"the end is cut off":   text[:len(text)-len("Dropped: 0\n")],
		"an entry cut in two":  strings.Replace(text, "7 } hitcount", "", 1),
		"a number is none":     strings.Replace(text, "Entries: 2", "Entries: two", 1),
		"nothing":              "",
		"an entry without key": strings.Replace(text, "block:          7", "7", 1),
	} {
		if keys, err := parse([]byte(bad)); err == nil {
			t.Errorf("%s: %q", what, keys)
		}
	}
}

// TestSymbol: the name of a function is found whether it is a module's or the kernel's own.
func TestSymbol(t *testing.T) {
	for text, want := range map[string]string{
		"[ffffffffc0123e5c] jread [jbd2]             ": "jread",
		"[ffffffff81234567] do_one_pass":               "do_one_pass",
		"18446744072":                                  "18446744072",
	} {
		if got := symbol(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
