package scenarios

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse: no document makes Parse panic; whatever it refuses it refuses with an
// *Error; whatever it takes, Marshal writes so that it reads back equal.
func FuzzParse(f *testing.F) {
	for _, file := range files() {
		data, err := library.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, doc := range seeds(f) {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Error() == "" {
				t.Fatalf("Parse gave %v (%T), not an *Error", err, err)
			}
			return
		}
		checkRoundTrip(t, s)
	})
}

// seeds are the documents of testdata/errors.txt.
func seeds(f *testing.F) []string {
	data, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		f.Fatal(err)
	}
	var docs []string
	for _, match := range regexp.MustCompile(`(?s)=== [^\n]*\n(.*?)>>>\n`).FindAllStringSubmatch(string(data), -1) {
		docs = append(docs, strings.ReplaceAll(match[1], "$BASE", base))
	}
	return docs
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkRoundTrip demands that s reads back equal from what Marshal writes.
func checkRoundTrip(t failer, s Scenario) {
	t.Helper()
	out, err := s.Marshal()
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	again, err := Parse("again.yaml", out)
	if err != nil {
		t.Fatalf("%v\nof the scenario as written:\n%s", err, out)
	}
	if diff := cmp.Diff(s, again); diff != "" {
		t.Fatalf("the scenario as written reads back otherwise (-was +is):\n%s\n%s", diff, out)
	}
}
