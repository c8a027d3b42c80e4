package report

import (
	"strings"
	"testing"

	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// ofOps is a run of a workload of ops that lost something.
func ofOps() *Document {
	d := barrierOff()
	d.Workload = Workload{Kind: "ops", Count: 3, Ops: []string{"write a 4KiB", "fsync a", "fsync ."}}
	d.Calls = []Call{{
		Call: "ops", Folder: "ops", Cut: Cut{Reason: "op 3 was acknowledged", Position: 70, Op: 3, Acked: 2},
		Recovery: verdict.Recovery{Class: verdict.Recovered}, Findings: []Finding{},
		Counts: verdict.Counts{Ops: 3, Acked: 2, Lost: 1},
		Tree: &promise.Result{
			Counts: promise.Counts{Ops: 3, Syncs: 2, Kept: 4, Lost: 1, Undone: 1},
			Findings: []promise.Finding{
				{Class: promise.Promised, Path: "a", Aspect: "size", Found: "0", Want: "4096", Sync: 2},
				{Class: promise.Unpromised, Path: "b", Aspect: "name", Found: "missing"},
			},
			Doubted:     []int{2, 3},
			Unsupported: &promise.Unsupported{Op: 3, Text: "fsync .", Errno: "ENOSYS", Partly: true},
		},
	}}
	return d
}

// TestTree: the table tells what was lost, and which op had promised it.
func TestTree(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, ofOps(), Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"3 ops: write a 4KiB; fsync a; fsync .", "Lost: 1 promised, 0 customary, 1 neither. Never",
		"lost, promised: a, size: 0, not 4096 (op 2: fsync a)", "lost, not promised: b, name: missing", "op 3, fsync ., failed with ENOSYS",
		"not believed: op 2 (fsync a) and 1 later sync call succeeded",
	} {
		if flat := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestTreeInSummary: a run of ops that broke a custom has lost something, in a summary too.
func TestTreeInSummary(t *testing.T) {
	d := &Document{Scenario: "x", Workload: Workload{Ops: []string{"fsync a"}}, Calls: []Call{{
		Call: "ops", Recovery: verdict.Recovery{Class: verdict.Recovered}, Counts: verdict.Counts{Ops: 1, Acked: 1},
		Tree: &promise.Result{Counts: promise.Counts{Ops: 1, Syncs: 1, Kept: 13, Custom: 1, Luck: 5, Customary: 2, Undone: 3}},
	}}}
	g := RunGrid([]*Document{d})
	row := map[string]Cell{}
	for i, h := range g.Head {
		row[h.Name] = g.Rows[0][i]
	}
	if g.Head[1].Name != "outcome" || row["outcome"].Text != "NOT MET" || row["acked"].Text != "1" || row["kept"].Text != "14" || row["lost"] != (Cell{"2", true}) || row["lost by ops"].Text != "2" {
		t.Errorf("%v", row)
	}
}
