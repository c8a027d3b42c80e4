package scenarios

import (
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what was found into testdata/errors.txt")

// base is the least that a scenario must say.
const base = `name: x
about: y
filesystem: {type: ext4}
workload: {kind: overwrite}
cut: {op: 1}
`

// bases matches "$BASE(old => new)...", which stands for base with the edits made.
var bases = regexp.MustCompile(`\$BASE((?:\([^()\n]* => [^()\n]*\))*)\n`)

// expand writes out the bases in a document of testdata/errors.txt.
func expand(t *testing.T, text string) string {
	return bases.ReplaceAllStringFunc(text, func(match string) string {
		out := base
		for _, edit := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(match, "$BASE("), ")\n"), ")(") {
			before, after, ok := strings.Cut(edit, " => ")
			if ok && !strings.Contains(out, before) {
				t.Errorf("edit %q changes nothing", edit)
			}
			if ok {
				out = strings.Replace(out, before, after, 1)
			}
		}
		return out
	})
}

// TestErrors goes through testdata/errors.txt: after each "=== name" a document,
// after ">>>" the error that it must give, to the letter.
func TestErrors(t *testing.T) {
	const file = "testdata/errors.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	ran := 0
	blocks := strings.Split(string(data), "=== ")[1:]
	for _, block := range blocks {
		name, rest, _ := strings.Cut(block, "\n")
		doc, want, ok := strings.Cut(rest, ">>>\n")
		if !ok {
			t.Fatalf("%s: case %q has no line >>>", file, name)
		}
		t.Run(name, func(t *testing.T) {
			got := errorOf(t, expand(t, doc))
			ran++
			found.WriteString("=== " + name + "\n" + doc + ">>>\n" + got)
			if diff := cmp.Diff(want, got); diff != "" && !*update {
				t.Errorf("error of\n%s(-want +got):\n%s", doc, diff)
			}
		})
	}
	if *update {
		if ran != len(blocks) {
			t.Fatalf("%s is written only when every case has run; %d of %d have", file, ran, len(blocks))
		}
		if err := os.WriteFile(file, []byte(found.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// errorOf parses doc, which must fail with an *Error, and returns its text.
func errorOf(t *testing.T, doc string) string {
	t.Helper()
	_, err := Parse("case.yaml", []byte(doc))
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("Parse gave %v (%T), not an *Error", err, err)
	}
	if e.File != "case.yaml" || e.Line < 1 || e.Column < 1 {
		t.Errorf("Parse gave the place %s:%d:%d", e.File, e.Line, e.Column)
	}
	return e.Error() + "\n"
}
