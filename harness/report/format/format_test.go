package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gojunit "github.com/joshdk/go-junit"

	"powercut/harness/report"
)

// results are two runs of package report's goldens, with hostile texts, and one that
// the harness could not do.
func results(t *testing.T) Results {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "barrier-off.json"))
	if err != nil {
		t.Fatal(err)
	}
	var broken, held report.Document
	for _, d := range []*report.Document{&broken, &held} {
		if err := json.Unmarshal(b, d); err != nil {
			t.Fatal(err)
		}
	}
	broken.Expectations[2].Found = "]]> \x1b[31m <b> # not ok 1 | `x` \xff"
	held.Scenario, held.Seed, held.Held = "held", 2, true
	held.Expectations = []report.Expectation{{Text: "fsync: lost 0 # SKIP", Found: "0", Held: true}}
	return Results{
		Runs:   []*report.Document{&broken, &held},
		Broken: []Broken{{Scenario: "late", Seed: 3, Err: errors.New("deadline passed\nnot ok 7")}}, Several: true,
	}
}

func written(t *testing.T, f Format, r Results) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, f, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestJUnit reads the file as CI servers do.
func TestJUnit(t *testing.T) {
	r := results(t)
	suites, err := gojunit.Ingest(written(t, JUnit, r))
	if err != nil {
		t.Fatal(err)
	}
	type count struct{ tests, failed, errors int }
	var got []count
	for _, s := range suites {
		got = append(got, count{s.Totals.Tests, s.Totals.Failed, s.Totals.Error})
	}
	bad := 0
	for _, e := range r.Runs[0].Expectations {
		if !e.Held {
			bad++
		}
	}
	want := []count{{len(r.Runs[0].Expectations), bad, 0}, {1, 0, 0}, {1, 0, 1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(count{})); diff != "" {
		t.Error(diff)
	}
	if text := suites[0].Tests[2].Error.Error(); !strings.Contains(text, "]]> ·[31m <b>") || !strings.Contains(text, "evidence: "+r.Runs[0].Folder) {
		t.Errorf("the failure says %s", text)
	}
	if p := suites[0].Properties["again"]; !strings.Contains(p, "powercut run") {
		t.Errorf("properties: %v", suites[0].Properties)
	}
	if out, err := exec.Command("xmllint", "--version").CombinedOutput(); err != nil {
		t.Logf("xmllint is not here, so its opinion is missing: %v%s", err, out)
		return
	}
	c := exec.Command("xmllint", "--noout", "-")
	c.Stdin = bytes.NewReader(written(t, JUnit, r))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("xmllint: %v\n%s", err, out)
	}
}

// read is what Perl's TAP::Parser understood.
type read struct {
	Planned int
	Tests   []struct {
		OK   bool
		Name string
	}
	Skipped []int
	Errors  []string
}

func parseTAP(t *testing.T, text string) read {
	t.Helper()
	c := exec.Command("perl", filepath.Join("testdata", "tap.pl"))
	c.Stdin = strings.NewReader(text)
	out, err := c.Output()
	if err != nil {
		t.Skipf("Perl's TAP::Parser does not run here: %v", err)
	}
	var got read
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return got
}

// TestKTAP: the runs are the tests, and their expectations, less the indent, tests
// of their own.
func TestKTAP(t *testing.T) {
	r := results(t)
	text := string(written(t, KTAP, r))
	got := parseTAP(t, text)
	if len(got.Errors) > 0 || got.Planned != 3 || len(got.Tests) != 3 {
		t.Fatalf("%+v of\n%s", got, text)
	}
	if got.Tests[0].OK || !got.Tests[1].OK || !cmp.Equal(got.Skipped, []int{3}) {
		t.Errorf("%+v", got)
	}
	var inner strings.Builder
	for line := range strings.Lines(text) {
		if in, ok := strings.CutPrefix(line, "  "); ok {
			inner.WriteString(in)
		} else if inner.Len() > 0 {
			break
		}
	}
	sub := parseTAP(t, inner.String())
	if len(sub.Errors) > 0 || sub.Planned != len(r.Runs[0].Expectations) {
		t.Fatalf("%+v of\n%s", sub, inner.String())
	}
	for i, e := range r.Runs[0].Expectations {
		if sub.Tests[i].OK != e.Held || !strings.Contains(sub.Tests[i].Name, strings.ReplaceAll(e.Text, "#", "no.")) {
			t.Errorf("expectation %q was read as %+v", e.Text, sub.Tests[i])
		}
	}
}

// TestUnjudged: a time that the machine was too busy to judge is skipped, neither passed
// nor failed.
func TestUnjudged(t *testing.T) {
	r := results(t)
	r.Broken, r.Runs = nil, r.Runs[1:]
	d := r.Runs[0]
	d.Held, d.Expectations = false, append(d.Expectations, report.Expectation{Text: "fsync: p50 1ms..2ms", Found: "9 ms", Busy: true})
	suites, err := gojunit.Ingest(written(t, JUnit, r))
	if err != nil {
		t.Fatal(err)
	}
	if n := suites[0].Totals; n.Passed != 1 || n.Skipped != 1 || n.Failed+n.Error != 0 {
		t.Errorf("JUnit: %+v", n)
	}
	text := string(written(t, KTAP, r))
	if got := parseTAP(t, text); !cmp.Equal(got.Skipped, []int{1}) || len(got.Errors) > 0 {
		t.Errorf("KTAP: %+v of\n%s", got, text)
	}
	d.Expectations[0].Held = false
	if suites, err = gojunit.Ingest(written(t, JUnit, r)); err != nil || suites[0].Totals.Failed != 1 {
		t.Errorf("JUnit, of another expectation that was not met: %+v, %v", suites, err)
	}
	if got := parseTAP(t, string(written(t, KTAP, r))); got.Tests[0].OK || len(got.Skipped) > 0 {
		t.Errorf("KTAP, of another expectation that was not met: %+v", got)
	}
}

// TestFormats: each is written, of one run and of several, and a writer that fails
// is told of.
func TestFormats(t *testing.T) {
	several := results(t)
	one := Results{Runs: several.Runs[:1]}
	for _, f := range All() {
		for _, r := range []Results{one, several, {Several: true}} {
			if len(written(t, f, r)) == 0 {
				t.Errorf("%s of %d runs is empty", f, len(r.Runs))
			}
			if err := Write(full{}, f, r); !errors.Is(err, os.ErrClosed) {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
	if err := Write(new(bytes.Buffer), "pdf", one); err == nil {
		t.Error("a format that is none was written")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }
