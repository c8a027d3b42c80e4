package cli

import (
	"errors"
	"testing"

	"powercut/harness/report"
)

// TestBusyRuns: one run that is wrong outweighs others that could not be judged, and these
// outweigh those that held.
func TestBusyRuns(t *testing.T) {
	run := func(held, busy bool) *report.Document {
		return &report.Document{Held: held, Expectations: []report.Expectation{{Held: held, Busy: busy}, {Held: true}}}
	}
	good, bad, busy := run(true, false), run(false, false), run(false, true)
	for _, c := range []struct {
		docs []*report.Document
		want error
	}{
		{[]*report.Document{good, good}, nil},
		{[]*report.Document{good, busy}, report.ErrBusy},
		{[]*report.Document{busy, good, bad}, errNotHeld},
		{[]*report.Document{bad, busy}, errNotHeld},
	} {
		if got := held(c.docs); !errors.Is(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
