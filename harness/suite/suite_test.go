package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"powercut/harness/report"
	"powercut/scenarios"
)

// cellsNamed are cells of scenarios s0, s1 and so on, with seeds from 1.
func cellsNamed(scenarioCount, seeds int) []scenarios.Cell {
	var list []scenarios.Cell
	for i := range scenarioCount {
		for seed := range seeds {
			s := scenarios.Scenario{Name: fmt.Sprintf("s%d", i)}
			list = append(list, scenarios.Cell{Scenario: s, Seed: uint64(seed + 1), Digest: s.Name})
		}
	}
	return list
}

func planOf(cells []scenarios.Cell, share Share) Plan {
	return NewPlan(&scenarios.Suite{Name: "night"}, cells, share)
}

// TestShares: shares partition a suite, differ by one cell at most, and are the same
// in whatever order its cells stand.
func TestShares(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cells := cellsNamed(rapid.IntRange(1, 30).Draw(rt, "scenarios"), rapid.IntRange(1, 8).Draw(rt, "seeds"))
		n := rapid.IntRange(1, 40).Draw(rt, "n")
		shuffled := rapid.Permutation(cells).Draw(rt, "order")
		times := map[string]int{}
		least, most := len(cells), 0
		for i := range n {
			mine := Share{i, n}.Cells(cells)
			for _, c := range mine {
				times[c.Name()]++
			}
			least, most = min(least, len(mine)), max(most, len(mine))
			other := Share{i, n}.Cells(shuffled)
			byName := func(a, b scenarios.Cell) int { return strings.Compare(a.Name(), b.Name()) }
			slices.SortFunc(mine, byName)
			slices.SortFunc(other, byName)
			if !slices.EqualFunc(mine, other, func(a, b scenarios.Cell) bool { return a.Name() == b.Name() }) {
				rt.Fatalf("share %d of %d depends on the order", i, n)
			}
		}
		for _, c := range cells {
			if times[c.Name()] != 1 {
				rt.Fatalf("%s is in %d shares", c.Name(), times[c.Name()])
			}
		}
		if most-least > 1 {
			rt.Fatalf("shares of %d to %d cells", least, most)
		}
	})
	if got := (Share{1, 3}).Cells(cellsNamed(3, 2)); len(got) != 2 || got[0].Name()+" "+got[1].Name() != goldenShare {
		t.Errorf("share 1/3 is %s %s: another version of powercut would repeat what this one has done", got[0].Name(), got[1].Name())
	}
	for _, text := range []string{"", "1", "1/1", "-1/2", "2/2", "0/0", "a/b", "0/10001", "1/2/3"} {
		if _, err := ParseShare(text); err == nil {
			t.Errorf("%q is taken for a share", text)
		}
	}
}

// goldenShare is what share 1/3 must hold for good.
const goldenShare = "s0-seed-2 s2-seed-2"

// lab is a runner whose runs are decided by a function, and which counts them.
type lab struct {
	mu   sync.Mutex
	runs map[string]int
	// verdict says what a run of a cell comes to, the n-th from 1; an error breaks it.
	verdict func(cell string, n int) (held bool, err error)
}

func (l *lab) run(ctx context.Context, c scenarios.Cell, folder string) (*report.Document, error) {
	l.mu.Lock()
	l.runs[c.Name()]++
	n := l.runs[c.Name()]
	l.mu.Unlock()
	dir := filepath.Join(folder, fmt.Sprintf("run-%d", n))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "log"), make([]byte, 4096), 0o644); err != nil {
		return nil, err
	}
	held, err := l.verdict(c.Name(), n)
	if err != nil {
		return nil, err
	}
	d := &report.Document{Schema: report.Schema, Scenario: c.Scenario.Name, Seed: c.Seed, Folder: dir, Held: held, Machine: report.Machine{Release: "6.1"}}
	d.Expectations = []report.Expectation{{Text: "fsync: lost 0", Found: "3", Held: held}}
	return d, ctx.Err()
}

func (l *lab) runners(n int) []Runner { return slices.Repeat([]Runner{l.run}, n) }

// holds is a lab in which every cell holds but those named.
func holds(but ...string) *lab {
	return &lab{runs: map[string]int{}, verdict: func(cell string, _ int) (bool, error) { return !slices.Contains(but, cell), nil }}
}

// night runs a share of cells in a folder of its own.
func night(t testing.TB, dir string, cells []scenarios.Cell, share Share, l *lab) *Folder {
	t.Helper()
	s, err := Open(dir, planOf(cells, share), false, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(context.Background(), cells, l.runners(1), Options{Program: "p", Confirm: true, Ended: func(*Result, int) {}}); err != nil {
		t.Fatal(err)
	}
	return s.Folder
}

// TestKilledAndResumed: however often a night is killed, wherever in a line, nothing
// that has ended is run again, nothing is lost, and only what failed keeps evidence.
func TestKilledAndResumed(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		cells := cellsNamed(rapid.IntRange(1, 5).Draw(rt, "scenarios"), 2)
		bad := cells[rapid.IntRange(0, len(cells)-1).Draw(rt, "bad")].Name()
		l := holds(bad)
		ended := map[string]int{}
		for range 100 {
			stopAfter := rapid.IntRange(0, 4).Draw(rt, "stop after")
			ctx, stop := context.WithCancel(context.Background())
			if stopAfter == 0 {
				stop()
			}
			s, err := Open(dir, planOf(cells, Share{0, 1}), true, 1<<30)
			if err != nil {
				rt.Fatal(err)
			}
			here := 0
			err = s.Run(ctx, cells, l.runners(rapid.IntRange(1, 3).Draw(rt, "jobs")), Options{Ended: func(r *Result, _ int) {
				ended[r.Cell]++
				if here++; here == stopAfter {
					stop()
				}
			}})
			s.Close()
			stop()
			if err == nil {
				break
			}
			// What a kill in the middle of a line leaves, and that of a cell without a line.
			f, err := os.OpenFile(filepath.Join(dir, resultsFile), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				rt.Fatal(err)
			}
			torn := `{"schema":"powercut/result/1","cell":"s0-seed-1"}`
			f.WriteString(torn[:rapid.IntRange(0, len(torn)).Draw(rt, "torn at")])
			f.Close()
		}
		f, err := Read(dir)
		if err != nil {
			rt.Fatal(err)
		}
		if len(f.Results) != len(cells) || f.torn >= 0 {
			rt.Fatalf("%d results of %d cells", len(f.Results), len(cells))
		}
		for _, c := range cells {
			if ended[c.Name()] != 1 {
				rt.Fatalf("%s ended %d times", c.Name(), ended[c.Name()])
			}
		}
		kept, err := os.ReadDir(filepath.Join(dir, evidenceFolder))
		if err != nil || len(kept) != 1 || kept[0].Name() != bad || f.Results[bad].Outcome != NotMet || f.Results[bad].evidence() == "" {
			rt.Fatalf("evidence of %v, want %s: %v", kept, bad, err)
		}
	})
}

// TestBroken: what the harness could not do is told, the others go on, and a resumed
// night tries it again.
func TestBroken(t *testing.T) {
	dir, cells := t.TempDir(), cellsNamed(2, 2)
	l := &lab{runs: map[string]int{}, verdict: func(cell string, n int) (bool, error) {
		if cell == "s0-seed-2" && n == 1 {
			return false, errors.New("no memory\nevidence: x")
		}
		return true, nil
	}}
	n := Tell(night(t, dir, cells, Share{0, 1}, l), nil)
	if n.Held != 3 || n.Outcome() != Broken || len(n.Broken) != 1 || n.Broken[0].What != "no memory" {
		t.Fatalf("%+v", n)
	}
	s, err := Open(dir, planOf(cells, Share{0, 1}), true, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(t.Context(), cells, l.runners(2), Options{Ended: func(*Result, int) {}}); err != nil {
		t.Fatal(err)
	}
	f, err := Read(dir)
	if err != nil || Tell(f, nil).Outcome() != Held || l.runs["s0-seed-2"] != 2 || l.runs["s0-seed-1"] != 1 {
		t.Errorf("%v, runs %v", err, l.runs)
	}
}

// TestRoom: evidence goes, the oldest first, until the rest fits; the newest stays.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var kept []evidence
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, 100), 1, 20).Draw(rt, "sizes") {
			kept = append(kept, evidence{bytes: n})
		}
		limit := rapid.Int64Range(0, 500).Draw(rt, "limit")
		gone := excess(kept, limit)
		sum := func(list []evidence) (n int64) {
			for _, e := range list {
				n += e.bytes
			}
			return n
		}
		rest := kept[gone:]
		if len(rest) == 0 || len(rest) > 1 && sum(rest) > limit {
			rt.Fatalf("%d of %v stay, of %d bytes", len(rest), kept, limit)
		}
		if gone > 0 && sum(kept[gone-1:]) <= limit {
			rt.Fatalf("%d of %v go, and one less would do for %d", gone, kept, limit)
		}
	})
	dir, cells := t.TempDir(), cellsNamed(4, 1)
	s, err := Open(dir, planOf(cells, Share{0, 1}), false, 9000)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := holds("s0-seed-1", "s1-seed-1", "s3-seed-1")
	if err := s.Run(t.Context(), cells, l.runners(1), Options{Ended: func(*Result, int) {}}); err != nil {
		t.Fatal(err)
	}
	if s.Results["s0-seed-1"].evidence() != "" || s.Results["s1-seed-1"].evidence() == "" || s.Results["s3-seed-1"].evidence() == "" {
		t.Error("not the oldest evidence made room")
	}
}

// TestMerge: joined shares are what one machine would have brought.
func TestMerge(t *testing.T) {
	cells := cellsNamed(5, 3)
	dir := t.TempDir()
	var dirs []string
	for i := range 3 {
		dirs = append(dirs, filepath.Join(dir, fmt.Sprint(i)))
		night(t, dirs[i], cells, Share{i, 3}, holds("s1-seed-2"))
	}
	whole := night(t, filepath.Join(dir, "whole"), cells, Share{0, 1}, holds("s1-seed-2"))
	out := filepath.Join(dir, "out")
	for range 2 { // a merged folder may be merged into again
		if _, err := Merge(dirs, out); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Read(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range whole.Ordered() {
		got := f.Results[r.Cell]
		if got == nil || got.Outcome != r.Outcome || got.Run.Seed != r.Run.Seed || (got.evidence() == "") != (r.evidence() == "") {
			t.Errorf("%s: %+v", r.Cell, got)
		}
	}
	if n := Tell(f, whole); n.Outcome() != NotMet || len(n.Failing) != 1 || n.Held != 14 || len(n.Missing) != 0 {
		t.Errorf("%+v", n)
	}
	if f, err := Merge(dirs[:2], filepath.Join(dir, "part")); err != nil || len(Tell(f, nil).Missing) != 5 {
		t.Errorf("%v", err)
	}
}

// TestMergeRefuses: what contradicts itself is refused, with file and line.
func TestMergeRefuses(t *testing.T) {
	cells := cellsNamed(2, 2)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	night(t, at("a"), cells, Share{0, 1}, holds())
	night(t, at("b"), cells, Share{0, 1}, holds("s1-seed-1"))
	night(t, at("c"), cellsNamed(2, 1), Share{0, 1}, holds())
	for _, d := range []string{"old", "bad"} {
		night(t, at(d), cells, Share{0, 1}, holds())
	}
	edit := func(file, from, to string) {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(from)) {
			t.Fatal(file, err)
		}
		if err := os.WriteFile(file, bytes.Replace(b, []byte(from), []byte(to), 1), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	edit(at("old/suite.json"), PlanSchema, "powercut/suite/0")
	edit(at("bad/results.jsonl"), `"outcome":"held"`, `"outcome":"fine"`)
	for name, tt := range map[string]struct {
		dirs []string
		want string
	}{
		"outcomes": {[]string{"a", "b"}, at("b/results.jsonl") + ":3: says s1-seed-1 not met, and " + at("a/results.jsonl") + ":3 says held"},
		"suites":   {[]string{"a", "c"}, at("c/suite.json") + ": has the cell s1-seed-1 of digest s1 where there is s0-seed-2"},
		"schema":   {[]string{"a", "old"}, at("old/suite.json") + `:2: its schema is "powercut/suite/0"; this powercut reads "powercut/suite/1"`},
		"a word":   {[]string{"a", "bad"}, at("bad/results.jsonl") + `:1: the outcome of s0-seed-1 is "fine"`},
		"nothing":  {[]string{"a", "."}, "there is no suite.json"},
	} {
		t.Run(name, func(t *testing.T) {
			var dirs []string
			for _, d := range tt.dirs {
				dirs = append(dirs, at(d))
			}
			_, err := Merge(dirs, at("out"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if _, err := os.Stat(at("out")); err == nil {
				t.Error("something was written")
			}
		})
	}
	var usage *UsageError
	if _, err := Merge([]string{at("a")}, at("b")); !errors.As(err, &usage) {
		t.Errorf("merged over results: %v", err)
	}
	if _, err := Merge([]string{at("a")}, at("a")); !errors.As(err, &usage) {
		t.Errorf("merged into itself: %v", err)
	}
	for _, tt := range []struct {
		share  Share
		cells  []scenarios.Cell
		resume bool
	}{{Share{0, 1}, cells, false}, {Share{0, 2}, cells, true}, {Share{0, 1}, cellsNamed(3, 2), true}} {
		if _, err := Open(at("a"), planOf(tt.cells, tt.share), tt.resume, 0); !errors.As(err, &usage) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	s, err := Open(at("new"), planOf(cells, Share{0, 1}), true, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Open(at("new"), planOf(cells, Share{0, 1}), true, 0); err == nil || !strings.Contains(err.Error(), "another powercut is at work") {
		t.Errorf("two at work in a folder: %v", err)
	}
}

// TestTell: each kind of change is told where it belongs, and flaky ones first.
func TestTell(t *testing.T) {
	cells := cellsNamed(1, 6)
	dir := t.TempDir()
	verdicts := map[string][2]string{ // of the baseline, and of this night; b: broken; ! a second run is different
		"s0-seed-1": {"held", "held"}, "s0-seed-2": {"held", "not"}, "s0-seed-3": {"not", "not"}, "s0-seed-4": {"not", "held"},
		"s0-seed-5": {"held", "b"}, "s0-seed-6": {"held", "not!"},
	}
	at := func(side int) *lab {
		return &lab{runs: map[string]int{}, verdict: func(cell string, n int) (bool, error) {
			switch v := verdicts[cell][side]; {
			case v == "b":
				return false, errors.New("no guest")
			case v == "not!":
				return n == 2, nil
			default:
				return v == "held", nil
			}
		}}
	}
	old := night(t, filepath.Join(dir, "old"), cells, Share{0, 1}, at(0))
	now := night(t, filepath.Join(dir, "now"), cells, Share{0, 1}, at(1))
	told := func(n *Night) string {
		list := func(rows []Row) (s string) {
			for _, r := range rows {
				s += strings.TrimPrefix(r.Cell, "s0-seed-")
			}
			return s
		}
		return fmt.Sprintf("flaky %s broke %s failing %s mended %s broken %s", list(n.Flaky), list(n.Broke), list(n.Failing), list(n.Mended), list(n.Broken))
	}
	// The same powercut and kernel: whatever differs is flaky.
	if got, want := told(Tell(now, old)), "flaky 246 broke  failing 3 mended  broken 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := told(Tell(now, nil)), "flaky 6 broke 23 failing  mended  broken 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, r := range old.Results {
		r.Program = "older"
	}
	n := Tell(now, old)
	if got, want := told(n), "flaky 6 broke 2 failing 3 mended 4 broken 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n.Outcome() != NotMet || n.Held != 2 {
		t.Errorf("%+v", n)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return n.Text(b, false, false) },
		"markdown": func(b *bytes.Buffer) error { return n.Markdown(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, want := range []string{"Flaky", "s0-seed-6", "new since", "s0-seed-2", "fsync: lost 0, found 3", "as in", "s0-seed-3", "harness failed", "no guest", "Mended", "s0-seed-4", "evidence"} {
			i := strings.Index(b.String()[last:], want)
			if i < 0 {
				t.Fatalf("%s lacks %q after byte %d:\n%s", name, want, last, b.String())
			}
			last += i
		}
		for _, want := range []string{"NOT MET", "2 of 6 cells held, 1 flaky, 1 newly not met, 1 not met as before, 1 mended, 1 that the harness could not do"} {
			if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, b.String())
			}
		}
	}
}

// TestSchema: a line of results holds what its documentation says.
func TestSchema(t *testing.T) {
	dir, cells := t.TempDir(), cellsNamed(1, 1)
	night(t, dir, cells, Share{0, 1}, holds("s0-seed-1"))
	b, err := os.ReadFile(filepath.Join(dir, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(b, &line); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"schema", "cell", "digest", "outcome", "again", "program", "ended", "seconds", "evidence", "run"} {
		if line[key] == nil {
			t.Errorf("no %s in %s", key, b)
		}
	}
}
