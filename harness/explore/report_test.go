package explore

import (
	"slices"
	"testing"

	"powercut/harness/verdict"
)

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
