package report

import (
	"regexp"
	"strings"
	"testing"

	"powercut/guest/workload"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// TestKernels: runs that differ in the kernel alone stand side by side, call by call;
// those of another matrix do not.
func TestKernels(t *testing.T) {
	run := func(axis, value string, journal float64) *Document {
		d := &Document{Scenario: "s-" + value, Held: true, Matrix: &Matrix{Of: "s", Cell: []string{axis + "=" + value}}}
		for _, call := range []workload.Call{workload.Fsync, workload.ODsync} {
			d.Calls = append(d.Calls, Call{
				Call: string(call), Counts: verdict.Counts{Ops: 10, Acked: 9, Kept: 9}, Bill: trace.Bill{Ops: 9, JournalWrites: journal},
				Recovery: verdict.Recovery{Class: verdict.Recovered},
			})
		}
		return d
	}
	for axis, want := range map[string]int{"kernel": 2, "drive.bus": 0} {
		var b strings.Builder
		if err := Runs(&b, []*Document{run(axis, "debian:6.1", 2), run(axis, "debian:6.12", 1)}, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, row := range []string{`(?m)^debian:6\.1 +10 +9 +9 .* 2\.00 `, `(?m)^debian:6\.12 +10 +9 +9 .* 1\.00 `, `(?m)^(fsync|O_DSYNC)$`} {
			if got := len(regexp.MustCompile(row).FindAllString(b.String(), -1)); got != want {
				t.Errorf("%s: %d rows %s, want %d, in\n%s", axis, got, row, want, b.String())
			}
		}
	}
}
