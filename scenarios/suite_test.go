package scenarios

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// noCheck finds nothing wrong.
func noCheck(Scenario) (string, error) { return "", nil }

func cellsOf(t testing.TB, text string) []Cell {
	t.Helper()
	s, err := ParseSuite("night.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Cells(noCheck)
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

func TestSuite(t *testing.T) {
	cells := cellsOf(t, `
name: night
groups:
  - scenarios: [barrier-on]
    filesystems: [ext3, ext4]
    mounts: [barrier=1, barrier=0]
    drives: {cached: {write-cache: on}, through: {write-cache: off}}
    seeds: 3-4
    set: {workload.count: 20, cut: {op: 10}}
    rules: [{when: {mount: barrier=0, drive: cached}, expect: {lost: some}}]
    exclude: [{filesystem: ext3, mount: barrier=0}, {drive: through, seed: 4}]
  - scenarios: [faults, barrier-on]   # a family, and one that is there under another name
`)
	var names []string
	for _, c := range cells {
		names = append(names, c.Name())
	}
	got := strings.Join(names[:9], "\n")
	want := `barrier-on-ext3-barrier-1-cached-seed-3
barrier-on-ext3-barrier-1-cached-seed-4
barrier-on-ext3-barrier-1-through-seed-3
barrier-on-ext4-barrier-1-cached-seed-3
barrier-on-ext4-barrier-1-cached-seed-4
barrier-on-ext4-barrier-1-through-seed-3
barrier-on-ext4-barrier-0-cached-seed-3
barrier-on-ext4-barrier-0-cached-seed-4
barrier-on-ext4-barrier-0-through-seed-3`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	family, _ := Family("faults")
	if len(cells) != 9+len(family)+1 || names[len(names)-1] != "barrier-on-seed-1" {
		t.Errorf("%d cells: %v", len(cells), names)
	}
	s := cells[6].Scenario
	if s.Filesystem.Type != Ext4 || s.Filesystem.Mount != "barrier=0" || !s.Drive.WriteCache || s.Workload.Count != 20 || s.Expect.Lost[Every].String() != "some" || s.Matrix.Of != "barrier-on" {
		t.Errorf("%+v", s)
	}
	if lost := cells[8].Scenario.Expect.Lost[Every].String(); lost != "0" {
		t.Errorf("lost %s where no rule is about it", lost)
	}
}

// TestSuiteFile: a scenario's file is found from the suite's folder.
func TestSuiteFile(t *testing.T) {
	dir := t.TempDir()
	text, err := Default().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.NewReplacer("name: \"\"", "name: mine", "about: \"\"", "about: mine", "kind: \"\"", "kind: append", "type: \"\"", "type: ext4", "cut: {}", "cut: {op: 3}").Replace(string(text))
	night := "{name: n, groups: [{scenarios: [sub/mine.yaml]}]}"
	for file, content := range map[string]string{"sub/mine.yaml": mine, "night.yaml": night} {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{dir, filepath.Join(dir, "sub")} {
		t.Chdir(from)
		relative, err := filepath.Rel(from, filepath.Join(dir, "night.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{relative, filepath.Join(dir, "night.yaml")} {
			s, err := LoadSuite(name)
			if err != nil {
				t.Fatal(err)
			}
			if cells, err := s.Cells(noCheck); err != nil || cells[0].Name() != "mine-seed-1" {
				t.Errorf("%s from %s: %v", name, from, err)
			}
		}
	}
}

// TestSuiteMatrix: the cells of a matrix stay together, and what it compares is found.
func TestSuiteMatrix(t *testing.T) {
	own, err := Find("cache-modes")
	if err != nil {
		t.Fatal(err)
	}
	cells := cellsOf(t, `{name: n, groups: [{scenarios: [cache-modes], kernels: ["debian:6.1", "debian:6.12"]}]}`)
	if len(cells) != 2*len(own) {
		t.Fatalf("%d cells, want %d", len(cells), 2*len(own))
	}
	s := cells[len(own)].Scenario
	if s.Matrix.Of != "cache-modes-debian-6-12" || s.CellName() != own[0].CellName() || s.Kernel != "debian:6.12" {
		t.Errorf("%s of %s", s.Name, s.Matrix.Of)
	}
}

// TestCross: kernels side by side are a matrix.
func TestCross(t *testing.T) {
	all, err := Cross("barrier-on", []Axis{FieldAxis("kernel", "debian:5.10", "debian:6.1")}, Override{Path: "workload.count", Value: "70"})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[1].Name != "barrier-on-debian-6-1" || all[0].Kernel != "debian:5.10" || all[0].Workload.Count != 70 || all[1].Matrix.Cell[0] != "kernel=debian:6.1" {
		t.Errorf("%+v", all)
	}
}

func TestSuiteErrors(t *testing.T) {
	const head = "name: night\ngroups:\n"
	tests := map[string]struct{ text, want string }{
		"empty":             {"", "1:1: is no suite; it is a mapping of name, about, groups"},
		"a list":            {"[a]", "1:1: is no suite"},
		"no groups":         {"name: night", "1:1: the field groups is missing"},
		"empty groups":      {"name: night\ngroups: []", "2:9: groups: has 0 entries"},
		"a bad name":        {"name: My Night\ngroups: [{scenarios: [barrier-on]}]", `1:7: name: "My Night" is not a name`},
		"unknown field":     {head + "  - {scenarios: [barrier-on], kernel: [x]}", `3:31: unknown field "kernel" in groups.0 (did you mean kernels?)`},
		"no scenario":       {head + "  - {scenarios: []}", "3:17: groups.0.scenarios: has 0 entries"},
		"unknown scenario":  {head + "  - scenarios: [barrier-on, barier-off]", `3:29: find scenario: "barier-off" is not known (did you mean barrier-off`},
		"no such file":      {head + "  - scenarios: [nowhere.yaml]", "3:17: read scenario: open ./nowhere.yaml: no such file"},
		"twice":             {head + "  - scenarios: [barrier-on, barrier-on]", `3:29: groups.0.scenarios: "barrier-on" is in the list twice`},
		"file system":       {head + "  - scenarios: [barrier-on]\n    filesystems: [ext9]", `4:19: groups.0.filesystems: "ext9" is not known`},
		"empty axis":        {head + "  - scenarios: [barrier-on]\n    mounts: []", "4:13: groups.0.mounts: has 0 entries"},
		"mount":             {head + "  - scenarios: [barrier-on]\n    mounts: ['a b']", "4:14: "},
		"drive field":       {head + "  - scenarios: [barrier-on]\n    drives: {odd: {colour: red}}", `4:28: unknown field "colour" in drive`},
		"drive value":       {head + "  - scenarios: [barrier-on]\n    drives: {odd: {faults: [no-such-fault]}}", "4:29: drive.faults: "},
		"drive name":        {head + "  - scenarios: [barrier-on]\n    drives: {My: {}}", `4:14: drives: "My" is not a name`},
		"no drives":         {head + "  - scenarios: [barrier-on]\n    drives: {}", "4:13: drives: must be a mapping of names"},
		"seeds":             {head + "  - scenarios: [barrier-on]\n    seeds: 9-1", "4:12: seeds: 9-1 is not a range"},
		"too many seeds":    {head + "  - scenarios: [barrier-on]\n    seeds: 1-99999", "4:12: seeds: 1-99999 is not a range of at most 10000 seeds"},
		"kernel":            {head + "  - scenarios: [barrier-on]\n    kernels: [debian:6.1, bsd]", "4:27: kernel: "},
		"set":               {head + "  - scenarios: [barrier-on]\n    set: {workload.count: many}", `4:27: workload.count: "many" is not a whole number`},
		"a module's call":   {head + "  - scenarios: [barrier-on]\n    set: {workload.calls: [fsync_range-FDATASYNC]}", "4:28: workload.calls: fsync_range-FDATASYNC is no system call of Linux"},
		"set the name":      {head + "  - scenarios: [barrier-on]\n    set: {name: x}", "4:11: set: name cannot be set by a suite"},
		"exclude what":      {head + "  - scenarios: [barrier-on]\n    exclude: [{kernel: debian:6.1}]", `4:16: exclude: "kernel" is nothing that this group lists; allowed: scenario, seed`},
		"exclude value":     {head + "  - scenarios: [barrier-on]\n    mounts: [barrier=1]\n    exclude: [{mount: barrier=2}]", `5:23: exclude: the mount "barrier=2" is not known (did you mean barrier=1?)`},
		"exclude nothing":   {head + "  - scenarios: [barrier-on]\n    exclude: [{seed: 2}]", "4:15: exclude: excludes nothing"},
		"an empty matrix":   {head + "  - scenarios: [barrier-on]\n    exclude: [{scenario: barrier-on}]", "3:5: groups: this group is empty; exclude leaves nothing of it"},
		"rule about seeds":  {head + "  - scenarios: [barrier-on]\n    rules: [{when: {seed: 1}, expect: {lost: some}}]", `4:21: rules: "seed" is nothing`},
		"rule expects what": {head + "  - scenarios: [barrier-on]\n    rules: [{when: {scenario: barrier-on}, expect: {lots: some}}]", `4:59: unknown field "lots" in expect`},
		"rule of nothing":   {head + "  - scenarios: [barrier-on]\n    rules: [{when: {scenario: barrier-off}, expect: {lost: some}}]", "4:20: rules: is about nothing"},
		"two of a name":     {head + "  - scenarios: [barrier-on]\n  - {scenarios: [barrier-on], set: {workload.count: 65}}", "4:18: two scenarios that differ make a cell called barrier-on-seed-1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := ParseSuite("night.yaml", []byte(tt.text))
			if err == nil {
				_, err = s.Cells(noCheck)
			}
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "night.yaml:"+tt.want) {
				t.Errorf("got  %v\nwant night.yaml:%s", err, tt.want)
			}
		})
	}
	s, err := ParseSuite("night.yaml", []byte(head+"  - scenarios: [barrier-on]\n    kernels: [debian:6.1, debian:9]"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Cells(func(s Scenario) (string, error) {
		if s.Kernel == "debian:9" {
			return "kernel", errors.New("never heard of")
		}
		return "", nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "night.yaml:4:27: with kernel=debian:9: never heard of") {
		t.Error(err)
	}
}

// TestSuiteProduct: a suite has a cell for each combination, each with a name of its
// own, and a scenario that reads back as what it is.
func TestSuiteProduct(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(label string, from ...string) []string {
			n := rapid.IntRange(0, len(from)).Draw(rt, label)
			return rapid.Permutation(from).Draw(rt, label)[:n]
		}
		want := 1
		text := "name: n\ngroups:\n- scenarios: [barrier-on]\n"
		for _, axis := range []struct {
			name   string
			values []string
		}{
			{"filesystems", pick("fs", "ext2", "ext3", "ext4")},
			{"mounts", pick("mount", "noatime", "sync")},
			{"kernels", pick("kernel", "debian:5.10", "debian:6.1", "debian:6.12")},
		} {
			if len(axis.values) > 0 {
				want *= len(axis.values)
				text += fmt.Sprintf("  %s: [%s]\n", axis.name, strings.Join(axis.values, ", "))
			}
		}
		first, n := rapid.IntRange(1, 50).Draw(rt, "first"), rapid.IntRange(1, 9).Draw(rt, "seeds")
		text += fmt.Sprintf("  seeds: %d-%d\n", first, first+n-1)
		names := map[string]bool{}
		for _, c := range cellsOf(t, text) {
			names[c.Name()] = true
			doc, err := c.Scenario.Marshal()
			if err != nil {
				rt.Fatal(err)
			}
			back, err := Parse(c.Name(), doc)
			if err != nil {
				rt.Fatal(err)
			}
			if again, _ := back.digest(); again != c.Digest {
				rt.Fatalf("%s reads back as another scenario:\n%s", c.Name(), doc)
			}
		}
		if len(names) != want*n {
			rt.Fatalf("%d names, want %d × %d of\n%s", len(names), want, n, text)
		}
	})
}

func FuzzSuite(f *testing.F) {
	f.Add("name: n\ngroups: [{scenarios: [barrier-on], mounts: [sync], drives: {a: {}}, rules: [{when: {mount: sync}, expect: {lost: 0}}], exclude: [{seed: 2}], seeds: 1-2}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSuite("night.yaml", []byte(text))
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
		if err != nil || len(s.Groups) > 2 || len(s.Groups[0].Scenarios) > 2 {
			return
		}
		if _, err := s.lattice(0); err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
	})
}
