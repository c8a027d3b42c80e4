package explore

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/harness/report"
	"powercut/harness/verdict"
)

var update = flag.Bool("update", false, "write docs/explore-json.md")

// TestFields: the page on the JSON of an exploration is that of its types.
func TestFields(t *testing.T) {
	const page = "../../docs/explore-json.md"
	got := "# JSON of an exploration\n\n`powercut explore --json` prints one object; `explored.json` in a call's folder is one of its `calls`. " +
		"`powercut schema explore` is its\nJSON Schema. `[]` in a path stands for each element of a list; a field marked optional is absent where there is nothing to say.\n\n" +
		report.FieldsOf(reflect.TypeFor[Document]())
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("%v (go test ./harness/explore -run Fields -update writes it)", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", page, d)
	}
}

// Neighbours of one verdict are one row, and each op is in one.
func TestRuns(t *testing.T) {
	var ops []verdict.OpVerdict
	for i, c := range []verdict.Class{verdict.Kept, verdict.Kept, verdict.Lost, verdict.Kept, verdict.Absent} {
		ops = append(ops, verdict.OpVerdict{Op: i + 1, Class: c})
	}
	got := runsOf(ops)
	if want := []Run{{1, 2, verdict.Kept}, {3, 3, verdict.Lost}, {4, 4, verdict.Kept}, {5, 5, verdict.Absent}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if runsOf(nil) != nil {
		t.Error("rows of nothing")
	}
}
