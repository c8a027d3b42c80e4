package scenarios

import "testing"

func TestEdits(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"count", "count", 0},
		{"cuont", "count", 1},
		{"rmp", "rpm", 1},
		{"kernl", "kernel", 1},
		{"loose", "lose", 1},
		{"kitten", "sitting", 3},
		{"abcdef", "badcfe", 3},
	} {
		if got := edits(test.a, test.b); got != test.want {
			t.Errorf("edits(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
		if got := edits(test.b, test.a); got != test.want {
			t.Errorf("edits(%q, %q) = %d, want %d", test.b, test.a, got, test.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, test := range []struct {
		err  Error
		want string
	}{
		{Error{File: "--set a=1", Message: "no"}, "--set a=1: no"},
		{Error{File: "f", Line: 2, Column: 3, Message: "no"}, "f:2:3: no"},
		{Error{File: "f", Line: 2, Column: 3, Message: "no", Text: "abc"}, "f:2:3: no\n  abc\n    ^"},
		{Error{File: "f", Line: 2, Column: 3, Message: "no", Text: "\tbc"}, "f:2:3: no\n  \tbc\n  \t ^"},
		{Error{File: "f", Line: 2, Column: 9, Message: "no", Text: "a\x1b[1mc"}, "f:2:9: no\n  a.[1mc\n        ^"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("error prints\n%q\nwant\n%q", got, test.want)
		}
	}
}
