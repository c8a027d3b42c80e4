package buildid

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	const good = "\x04\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\xef\x00"
	for name, test := range map[string]struct{ note, want string }{
		"good":            {good, "abcdef"},
		"empty":           {"", ""},
		"short":           {good[:14], ""},
		"content missing": {good[:18], ""},
		"another name":    {strings.Replace(good, "GNU", "Xen", 1), ""},
		"another type":    {good[:8] + "\x01" + good[9:], ""},
		"huge":            {good[:4] + "\xff\xff\xff\xff" + good[8:], ""},
		"no content":      {good[:4] + "\x00" + good[5:16], ""},
	} {
		if got := Parse([]byte(test.note)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestParseAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		Parse(rapid.SliceOf(rapid.Byte()).Draw(t, "note"))
	})
}

func TestLoadedNothing(t *testing.T) {
	if id := Loaded("no_such_module"); id != "" {
		t.Errorf("a module that is not there has the build ID %s", id)
	}
}
