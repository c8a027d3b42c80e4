package scenarios

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/guest/workload"
)

const grid = base + `matrix:
  axes:
    drive.cache: [none, directsync]
    drive.faults: [[], [flush-ignored, fua-ignored]]
  rules:
    - {when: {drive.faults: [flush-ignored, fua-ignored]}, expect: {lost: some}}
    - {when: {drive.cache: [directsync, none], drive.faults: [[]]}, expect: {foreign: "<= 1"}}
    - {when: {drive.cache: directsync}, expect: {lost: 1, p50: {fsync: "< 1s"}}}
`

// cells parses a matrix and prints each scenario in one line.
func cells(t *testing.T, text string, set ...string) []string {
	t.Helper()
	var overrides []Override
	for _, o := range set {
		parsed, err := ParseOverride(o)
		if err != nil {
			t.Fatal(err)
		}
		overrides = append(overrides, parsed)
	}
	all, err := ParseAll("case.yaml", []byte(text), overrides...)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		out = append(out, strings.Join([]string{
			s.Name, string(s.Drive.Cache), joined(s.Drive.Faults),
			"lost " + s.Expect.Lost[Every].String(), "foreign " + s.Expect.Foreign[Every].String(),
			s.Matrix.Of + ": " + strings.Join(s.Matrix.Cell, "; "),
		}, " | "))
		checkRoundTrip(t, s)
	}
	return out
}

// TestMatrix: every combination is a scenario, later rules win, and a field that
// is set from outside is no axis any more.
func TestMatrix(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []string
		want []string
	}{
		{"whole", nil, []string{
			"x-none-no-faults | none |  | lost 0 | foreign <= 1 | x: drive.cache=none; drive.faults=[]",
			"x-none-flush-ignored-fua-ignored | none | flush-ignored+fua-ignored | lost some | foreign 0 | x: drive.cache=none; drive.faults=[flush-ignored, fua-ignored]",
			"x-directsync-no-faults | directsync |  | lost 1 | foreign <= 1 | x: drive.cache=directsync; drive.faults=[]",
			"x-directsync-flush-ignored-fua-ignored | directsync | flush-ignored+fua-ignored | lost 1 | foreign 0 | x: drive.cache=directsync; drive.faults=[flush-ignored, fua-ignored]",
		}},
		{"one axis set", []string{"drive.faults=[]"}, []string{
			"x-none | none |  | lost 0 | foreign <= 1 | x: drive.cache=none",
			"x-directsync | directsync |  | lost 1 | foreign <= 1 | x: drive.cache=directsync",
		}},
		{"all axes set", []string{"drive.faults=[]", "drive.cache=unsafe"}, []string{"x | unsafe |  | lost 0 | foreign 0 | : "}},
		{"expectation set", []string{"expect.lost=2", "drive.cache=none"}, []string{
			"x-no-faults | none |  | lost 2 | foreign <= 1 | x: drive.faults=[]",
			"x-flush-ignored-fua-ignored | none | flush-ignored+fua-ignored | lost 2 | foreign 0 | x: drive.faults=[flush-ignored, fua-ignored]",
		}},
		{"matrix set", []string{"matrix.axes={drive.cache: [none]}", "matrix.rules=[]"}, []string{
			"x-none | none |  | lost 0 | foreign 0 | x: drive.cache=none",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, cells(t, strings.Replace(grid, "overwrite}", "overwrite, count: 9, calls: [fsync]}", 1), c.set...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMatrixIsMany: where one scenario is wanted a matrix is refused.
func TestMatrixIsMany(t *testing.T) {
	if _, err := Parse("case.yaml", []byte(grid)); err == nil || !strings.Contains(err.Error(), "matrix of 4 scenarios") {
		t.Errorf("Parse of a matrix gave %v", err)
	}
	if _, err := Load("cache-modes"); err == nil || !strings.Contains(err.Error(), "matrix of 40 scenarios") {
		t.Errorf("Load of a matrix gave %v", err)
	}
	s, err := Load("cache-modes-unsafe-barrier-1-no-faults", Override{Path: "workload.calls", Value: "[O_DSYNC]"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Drive.Cache != Unsafe || s.Matrix.Of != "cache-modes" || !slices.Equal(s.Workload.Calls, []workload.Call{workload.ODsync}) {
		t.Errorf("a cell by its name is %+v", s)
	}
}

// TestCacheModes holds the modes against the table of cache.writeback,
// cache.direct and cache.no-flush in qemu(1).
func TestCacheModes(t *testing.T) {
	for mode, want := range map[CacheMode][3]bool{
		Writeback: {true, false, false}, Uncached: {true, true, false}, Writethrough: {false, false, false},
		Directsync: {false, true, false}, Unsafe: {true, false, true},
	} {
		if got := [3]bool{mode.GuestCache(), mode.Direct(), mode.NoFlush()}; got != want {
			t.Errorf("%s: guest cache, direct, no-flush: %v, want %v", mode, got, want)
		}
		s, err := Load("barrier-on", Override{Path: "drive.cache", Value: string(mode)})
		if err != nil {
			t.Fatal(err) // the document's write-cache gives way
		}
		if s.Drive.WriteCache != mode.GuestCache() || !s.Drive.Volatile() {
			t.Errorf("%s: the drive is %+v", mode, s.Drive)
		}
	}
	both := []Override{{Path: "drive.write-cache", Value: "on"}, {Path: "drive.cache", Value: "directsync"}}
	if _, err := Load("barrier-on", both...); err == nil || !strings.Contains(err.Error(), "contradicts") {
		t.Errorf("both set from outside, and contradictory: %v", err)
	}
}

// joined joins the texts of faults.
func joined(faults []Fault) string {
	var out []string
	for _, f := range faults {
		out = append(out, f.String())
	}
	return strings.Join(out, "+")
}

// TestCases: a case sets several fields at once, rules may ask for it, it multiplies
// with the axes, and each cell knows what is compared.
func TestCases(t *testing.T) {
	text := strings.Replace(base, "overwrite}", "overwrite, count: 9, calls: [fsync]}", 1) + `figures: {of: another, mean: {fsync: 8ms}}
matrix:
  cases:
    large: {workload.size: 1MiB, expect.p50: {fsync: "< 1s"}, figures.mean.fsync: 2s..9s}
    small: {workload.size: 4KiB}
  axes:
    drive.cache: [none, directsync]
  rules:
    - {when: {case: large, drive.cache: none}, expect: {lost: 1}}
  compare:
    - mean of fsync in large-none / fsync in small-directsync >= 1.5
`
	all, err := ParseAll("case.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, strings.Join([]string{
			s.Name, s.Workload.Size.String(), string(s.Drive.Cache), "lost " + s.Expect.Lost[Every].String(),
			s.Figures.Mean["fsync"].String(), strings.Join(s.Matrix.Cell, "; "), s.Matrix.Compare[0].String(),
		}, " | "))
		checkRoundTrip(t, s)
	}
	compare := " | mean of fsync in large-none / fsync in small-directsync >= 1.5"
	want := []string{
		"x-large-none | 1MiB | none | lost 1 | 2s..9s | case=large; drive.cache=none" + compare,
		"x-large-directsync | 1MiB | directsync | lost 0 | 2s..9s | case=large; drive.cache=directsync" + compare,
		"x-small-none | 4096 | none | lost 0 | 8ms | case=small; drive.cache=none" + compare,
		"x-small-directsync | 4096 | directsync | lost 0 | 8ms | case=small; drive.cache=directsync" + compare,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestComparisonText: what String prints ParseComparison reads back.
func TestComparisonText(t *testing.T) {
	for _, text := range []string{"mean of fsync in a-b / fsync in c >= 2", "drive of O_SYNC in a / fsync in a 0.5..1", "p99 of none in x / fsync in y < 1"} {
		c, err := ParseComparison(text)
		if err != nil || c.String() != text {
			t.Errorf("%q reads as %q, %v", text, c, err)
		}
	}
}
