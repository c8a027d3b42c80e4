package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"powercut/guest/ledger"
	"powercut/harness/latency"
	"powercut/harness/report"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// run is one of a scenario with one call, whose ops took these nanoseconds; they are
// in a ledger of its folder.
func run(t testing.TB, scenario string, ns []int64, change ...func(*report.Document)) *report.Document {
	t.Helper()
	n := len(ns)
	d := &report.Document{
		Schema: report.Schema, Scenario: scenario, Folder: t.TempDir(), Drive: report.Drive{Timing: "ide-7200"}, Held: true,
		Machine: report.Machine{Release: "6.1"},
		Calls: []report.Call{{
			Call: "fsync", Folder: "fsync", Counts: verdict.Counts{Ops: n, Acked: n, Kept: n}, Latency: latency.Summarise(ns),
			Bill:     trace.Bill{Ops: n, DataWrites: 1, JournalWrites: 2, Flushes: 1, DriveTime: latency.Summarise(ns).Mean},
			Recovery: verdict.Recovery{Class: verdict.Recovered},
		}},
		Expectations: []report.Expectation{{Text: "fsync: lost 0", Found: "0", Held: true}, {Text: "fsync: p50 1ms..9ms", Found: "5 ms", Held: true}},
	}
	var b []byte
	for i, v := range ns {
		var r [ledger.RecordSize]byte
		ledger.Record{Op: uint64(i + 1), End: v, Synced: true}.Encode(r[:])
		b = append(b, r[:]...)
	}
	if err := os.MkdirAll(filepath.Join(d.Folder, "fsync"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Folder, "fsync", "ledger"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(d)
	}
	return d
}

// around is a sample of n latencies about a middle.
func around(middle int64, n int) []int64 {
	var ns []int64
	for i := range n {
		ns = append(ns, middle+int64(i%11-5)*middle/200)
	}
	return ns
}

func one(d *report.Document) []*report.Document { return []*report.Document{d} }

func compared(t testing.TB, old, changed []*report.Document, o Options) *Comparison {
	t.Helper()
	c, err := Runs(old, changed, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPlanted: each planted regression is found and named, and nothing else is.
func TestPlanted(t *testing.T) {
	call := func(f func(*report.Call)) func(*report.Document) {
		return func(d *report.Document) { f(&d.Calls[0]) }
	}
	untimed := func(d *report.Document) { d.Drive.Timing = "none" }
	host := call(func(c *report.Call) { c.Bill.DriveTime = 1000 })
	fifth := 0.2
	tests := map[string]struct {
		old, new *report.Document
		o        Options
		want     []string
	}{
		"nothing":         {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 140)), Options{}, nil},
		"a lost op":       {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Counts.Kept, c.Counts.Lost = 99, 1 })), Options{}, []string{"s fsync lost 0 of 100 → 1 of 100 regression"}},
		"no more lost op": {run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Counts.Lost = 9 })), run(t, "s", around(8e6, 100)), Options{}, []string{"s fsync lost 9 of 100 → 0 of 100 improvement"}},
		"more of them":    {run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Counts.Lost = 9 })), run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Counts.Lost = 50 })), Options{}, nil},
		"foreign":         {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Counts.Foreign = 2 })), Options{}, []string{"s fsync foreign 0 of 100 → 2 of 100 regression"}},
		"recovery":        {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Recovery.Class = verdict.MountFailed })), Options{}, []string{"s fsync recovery recovered → mount failed in 1 of 1 regression"}},
		"an expectation":  {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), func(d *report.Document) { d.Expectations[1].Held = false }), Options{}, []string{"s fsync p50 1ms..9ms met in 1 of 1 → met in 0 of 1 regression"}},
		"told once": {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), func(d *report.Document) {
			d.Expectations[0].Held, d.Calls[0].Counts.Lost = false, 3
		}), Options{}, []string{"s fsync lost 0 of 100 → 3 of 100 regression"}},
		"a slower disk":      {run(t, "s", around(8e6, 100)), run(t, "s", around(9e6, 100)), Options{}, []string{"s fsync op regression"}},
		"within the limit":   {run(t, "s", around(8e6, 100)), run(t, "s", around(9e6, 100)), Options{Threshold: &fifth}, nil},
		"too few to tell":    {run(t, "s", around(8e6, 2)), run(t, "s", around(16e6, 2)), Options{}, nil},
		"faster":             {run(t, "s", around(9e6, 100)), run(t, "s", around(8e6, 100)), Options{}, []string{"s fsync op improvement"}},
		"a busy host":        {run(t, "s", around(1e6, 100), untimed, host), run(t, "s", around(3e6, 100), untimed, host), Options{}, []string{"s fsync op change"}},
		"asked for all same": {run(t, "s", around(1e6, 100), untimed, host), run(t, "s", around(3e6, 100), untimed, host), Options{Threshold: &fifth}, []string{"s fsync op regression"}},
		"a slow drive":       {run(t, "s", around(1e6, 100), untimed), run(t, "s", around(3e6, 100), untimed), Options{}, []string{"s fsync op regression"}},
		"one more flush":     {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 150), call(func(c *report.Call) { c.Bill.Flushes = 2 })), Options{}, []string{"s fsync flushes 100/100 → 300/150 regression"}},
		"a flush at times":   {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Bill.Flushes = 1.01 })), Options{}, []string{"s fsync flushes 100/100 → 101/100 change"}},
		"one write less":     {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Bill.JournalWrites = 1 })), Options{}, []string{"s fsync journal writes 200/100 → 100/100 improvement"}},
		"a mark":             {run(t, "s", around(8e6, 100)), run(t, "s", around(8e6, 100), call(func(c *report.Call) { c.Bill.FUAWrites = 1 })), Options{}, []string{"s fsync FUA writes 0/100 → 100/100 change"}},
		"other names":        {run(t, "a", around(8e6, 100)), run(t, "b", around(9e6, 100)), Options{}, []string{"b fsync op regression"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := compared(t, one(tt.old), one(tt.new), tt.o)
			if diff := cmp.Diff(tt.want, told(c)); diff != "" {
				t.Error(diff)
			}
			bad := 0
			for _, s := range tt.want {
				if strings.HasSuffix(s, "regression") {
					bad++
				}
			}
			if c.Regressions != bad {
				t.Errorf("%d regressions, want %d", c.Regressions, bad)
			}
		})
	}
}

// told lists the changes.
func told(c *Comparison) []string {
	var list []string
	for _, v := range c.Verdicts {
		list = append(list, strings.Join([]string{v.Scenario, v.Call, v.What, v.Old, "→", v.New, string(v.Outcome)}, " "))
	}
	for _, l := range c.Latencies {
		if l.Outcome != Same {
			list = append(list, strings.Join([]string{l.Scenario, l.Call, l.Unit, string(l.Outcome)}, " "))
		}
	}
	for _, b := range c.Bills {
		list = append(list, fmt.Sprintf("%s %s %s %d/%d → %d/%d %s", b.Scenario, b.Call, b.What, b.OldCount, b.OldOps, b.NewCount, b.NewOps, b.Outcome))
	}
	return list
}

// TestItself: a side that is held against itself has neither regression nor change,
// and two sides in the other order have the opposite of what they have.
func TestItself(t *testing.T) {
	opposite := map[Outcome]Outcome{Regression: Improvement, Improvement: Regression, Change: Change, Same: Same}
	folder := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		side := func(label string) []*report.Document {
			var docs []*report.Document
			for range rapid.IntRange(1, 6).Draw(rt, label) {
				ns := around(rapid.Int64Range(1e6, 1e7).Draw(rt, "middle"), rapid.IntRange(1, 60).Draw(rt, "n"))
				d := &report.Document{Schema: report.Schema, Scenario: "s", Folder: folder, Drive: report.Drive{Timing: rapid.SampledFrom([]string{"none", "ide-7200"}).Draw(rt, "timing")}}
				lost := rapid.IntRange(0, 1).Draw(rt, "lost") * len(ns)
				d.Calls = []report.Call{{
					Call: "fsync", Folder: "fsync", Counts: verdict.Counts{Ops: len(ns), Acked: len(ns), Lost: lost}, Latency: latency.Summarise(ns),
					Bill:     trace.Bill{Ops: len(ns), Flushes: float64(rapid.IntRange(0, 3).Draw(rt, "flushes"))},
					Recovery: verdict.Recovery{Class: rapid.SampledFrom([]verdict.RecoveryClass{verdict.Recovered, verdict.Hang}).Draw(rt, "class")},
				}}
				docs = append(docs, d)
			}
			return docs
		}
		old, changed := side("old"), side("new")
		if got := told(compared(t, old, old, Options{})); len(got) > 0 {
			rt.Fatalf("against itself: %v", got)
		}
		there, back := compared(t, old, changed, Options{}), compared(t, changed, old, Options{})
		for i, b := range there.Bills {
			other := slices.IndexFunc(back.Bills, func(o Bill) bool { return o.What == b.What && o.Call == b.Call })
			if other < 0 || back.Bills[other].Outcome != opposite[b.Outcome] {
				rt.Fatalf("bill %d: %+v and %+v", i, there.Bills, back.Bills)
			}
		}
		if a, b := there.Latencies[0], back.Latencies[0]; opposite[a.Outcome] != b.Outcome {
			rt.Fatalf("latency: %+v and %+v", a, b)
		}
		if len(there.Verdicts) != len(back.Verdicts) {
			rt.Fatalf("verdicts: %v and %v", there.Verdicts, back.Verdicts)
		}
	})
}

// TestUnits: ops of few runs, medians of many, and medians alone without a folder.
func TestUnits(t *testing.T) {
	side := func(middle int64, runs int) []*report.Document {
		var docs []*report.Document
		for i := range runs {
			docs = append(docs, run(t, "s", around(middle+int64(i)*1e4, 30)))
		}
		return docs
	}
	c := compared(t, side(8e6, 4), side(9e6, 5), Options{})
	if l := c.Latencies[0]; l.Unit != "run" || l.Old.N != 4 || l.New.N != 5 || l.P == nil || *l.P > 0.02 || l.Outcome != Regression {
		t.Errorf("%+v", l)
	}
	c = compared(t, side(8e6, 3), side(9e6, 5), Options{})
	if l := c.Latencies[0]; l.Unit != "op" || l.Old.N != 90 || l.New.N != 150 || l.Old.Lo == nil || *l.Old.Lo > l.Old.Center {
		t.Errorf("%+v", l)
	}
	moved := side(8e6, 1)
	moved[0].Folder = "/nowhere"
	c = compared(t, moved, side(8e6, 1), Options{})
	if l := c.Latencies[0]; l.Unit != "none" || l.P != nil || l.Old.Center == 0 || l.Old.Lo != nil {
		t.Errorf("%+v", l)
	}
	other := side(8e6, 1) // a folder that holds the ledger of another run
	other[0].Calls[0].Latency.Mean++
	if l := compared(t, other, side(8e6, 1), Options{}).Latencies[0]; l.Unit != "none" {
		t.Errorf("%+v", l)
	}
}

// TestPairs: what only one side has is named; where nothing is common, that is said.
func TestPairs(t *testing.T) {
	ns := around(8e6, 20)
	a, b, x := run(t, "a", ns), run(t, "b", ns), run(t, "x", ns, func(d *report.Document) { d.Machine.Release = "6.12" })
	c := compared(t, []*report.Document{a, b}, []*report.Document{b, x}, Options{})
	if diff := cmp.Diff([][]string{{"a"}, {"x"}}, [][]string{c.OnlyOld, c.OnlyNew}); diff != "" {
		t.Error(diff)
	}
	c = compared(t, one(a), one(x), Options{})
	if diff := cmp.Diff([]Difference{{"scenario", "a", "x"}, {"kernel", "6.1 ()", "6.12 ()"}}, c.Differences); diff != "" {
		t.Error(diff)
	}
	_, err := Runs([]*report.Document{a, b}, one(x), Options{})
	if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "old: a, b; new: x") {
		t.Error(err)
	}
}

// TestShow: each form holds what was found, and a writer that fails is told of.
func TestShow(t *testing.T) {
	c := compared(t, one(run(t, "a|b", around(8e6, 50))), one(run(t, "a|b", around(16e6, 50), func(d *report.Document) {
		d.Calls[0].Counts.Lost, d.Calls[0].Bill.Flushes, d.Machine.Release = 4, 3, "6.12"
	})), Options{})
	for name, show := range map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return c.Text(b, View{Explain: true}) },
		"markdown": func(b *bytes.Buffer) error { return c.Markdown(b) },
	} {
		var b bytes.Buffer
		if err := show(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"3 regressions", "4 of 50", "+100.0%", "150 in 50", "6.12", "REGRESSION", "1 of verdicts, 1 of latencies, 1 of bills"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, b.String())
			}
		}
		for line := range strings.Lines(b.String()) {
			if name == "text" && len([]rune(strings.TrimSuffix(line, "\n"))) > report.Width {
				t.Errorf("too wide: %s", line)
			}
		}
	}
	var b bytes.Buffer
	if err := c.JSON(&b); err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("compare.json", schema); err != nil {
		t.Fatal(err)
	}
	validator := compiler.MustCompile("compare.json")
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validator.Validate(v); err != nil {
		t.Error(err)
	}
	v.(map[string]any)["regressions"] = "three"
	if validator.Validate(v) == nil {
		t.Error("a comparison of three regressions in words is taken for valid")
	}
	var back Comparison
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*c, back); diff != "" {
		t.Error(diff)
	}
	if err := c.Text(full{}, View{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }
