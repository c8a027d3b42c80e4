package evidence

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/harness/promise"
	"powercut/harness/report"
	"powercut/harness/verdict"
)

// TestTree: a file that is found, one that is missing though it was synced, an old name,
// and an op that failed.
func TestTree(t *testing.T) {
	var plan ops.Plan
	for _, line := range []string{"write a 1KiB", "fsync a", "write b 1KiB", "fsync b", "rename a c", "unlink x"} {
		o, err := ops.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		plan.Ops = append(plan.Ops, o)
	}
	records := []ledger.Record{{Synced: true}}
	for k := range plan.Ops {
		records = append(records, ledger.Record{Op: uint64(k + 1), Start: 10, End: 20, Synced: k == 1 || k == 3})
	}
	records[6].Errno = int32(unix.EIO)
	found := inspect.Tree{Objects: []inspect.Object{{Path: ".", Mode: unix.S_IFDIR}, {Path: "a", Mode: unix.S_IFREG}, {Path: "lost+found", Mode: unix.S_IFDIR}}}
	dir := t.TempDir()
	b, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tree.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	c := &Call{Call: &report.Call{Recovery: verdict.Recovery{Class: verdict.Recovered}, Tree: &promise.Result{
		Counts: promise.Counts{Ops: 6}, Findings: []promise.Finding{
			{Class: promise.Promised, Path: "b", Aspect: "name", Found: "missing", Sync: 4},
			{Class: promise.Unpromised, Path: "c", Aspect: "name", Found: "missing"},
		},
	}}}
	if err := c.tree(dir, plan, records); err != nil {
		t.Fatal(err)
	}
	classes := []verdict.Class{"", verdict.Kept, "", verdict.Lost, "", ""}
	for i, o := range c.Ops {
		if o.Class != classes[i] || o.Acked != (i == 1 || i == 3) || o.Failed != (i == 5) || o.Text != plan.Ops[i].String() || o.Latency != 10 {
			t.Errorf("op %d: %+v", i+1, o)
		}
	}
	type row struct {
		path                  string
		found, there          bool
		changed, synced, said int
	}
	want := []row{{".", true, true, 5, 0, 0}, {"a", true, false, 5, 2, 0}, {"b", false, true, 3, 4, 1}, {"c", false, true, 5, 2, 1}}
	for i, o := range c.Objects {
		if i >= len(want) || want[i] != (row{o.Path, o.Found != nil, o.There, o.Changed, o.Synced, len(o.Findings)}) {
			t.Errorf("%+v", o)
		}
	}
	if len(c.Objects) != len(want) {
		t.Errorf("%d objects", len(c.Objects))
	}
}

// TestGoneWith: what is in a directory that is missing is gone with it, and so is what was
// synced of it, unless it has another name.
func TestGoneWith(t *testing.T) {
	var plan ops.Plan
	records := []ledger.Record{{Synced: true}}
	for k, line := range []string{"mkdir d", "mkdir d/e", "write d/e/a 1KiB", "sync", "fsync d/e/a", "fsync d", "write d/b 1KiB", "link d/b b", "fsync d/b"} {
		o, err := ops.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		plan.Ops = append(plan.Ops, o)
		records = append(records, ledger.Record{Op: uint64(k + 1), Start: 10, End: 20, Synced: k >= 3 && k != 6 && k != 7})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tree.json"), []byte(`{"objects": [{"path": "."}, {"path": "b", "mode": 32768}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for class, gone := range map[promise.Class]verdict.Class{promise.Promised: verdict.Lost, promise.Unpromised: verdict.Kept} {
		c := &Call{Call: &report.Call{Recovery: verdict.Recovery{Class: verdict.Recovered}, Tree: &promise.Result{
			Counts: promise.Counts{Ops: 9}, Findings: []promise.Finding{{Class: class, Path: "d", Aspect: "name", Found: "missing", Sync: 4}},
		}}}
		if err := c.tree(dir, plan, records); err != nil {
			t.Fatal(err)
		}
		with := map[string]string{}
		for _, o := range c.Objects {
			with[o.Path] = o.GoneWith
		}
		if want := map[string]string{".": "", "b": "", "d": "", "d/b": "d", "d/e": "d", "d/e/a": "d"}; !maps.Equal(with, want) {
			t.Errorf("%v", with)
		}
		if c.Ops[4].Class != gone || c.Ops[5].Class != gone {
			t.Errorf("%s: fsync d/e/a is %q, fsync d %q", class, c.Ops[4].Class, c.Ops[5].Class)
		}
		if c.Ops[8].Class != verdict.Kept {
			t.Errorf("%s: fsync d/b is %q, and b is there", class, c.Ops[8].Class)
		}
	}
}
