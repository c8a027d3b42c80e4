package campaign

import (
	"testing"

	"powercut/harness/latency"
	"powercut/harness/report"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// TestBusyHost: only a time is not judged for a busy machine, and only one that is not as
// expected; a lost write is a lost write.
func TestBusyHost(t *testing.T) {
	wait := func(share float64) *float64 { return &share }
	s, err := scenarios.Load("ext3-overwrite", scenarios.Override{Path: "workload.calls", Value: "[fdatasync]"},
		scenarios.Override{Path: "expect", Value: "{lost: 0, p50: 8ms..9ms}"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		wait *float64
		p50  int64
		lost int
		held bool
		busy bool // and nothing else is wrong
	}{
		{wait(0.02), 8.3e6, 0, true, false},
		{wait(0.50), 8.3e6, 0, true, false},
		{wait(0.02), 16.6e6, 0, false, false},
		{nil, 16.6e6, 0, false, false},
		{wait(0.50), 16.6e6, 0, false, true},
		{wait(0.50), 8.3e6, 1, false, false},
		{wait(0.50), 16.6e6, 1, false, false},
	} {
		call := report.Call{
			HostWait: c.wait, Latency: latency.Summary{N: 1, P50: c.p50}, Counts: verdict.Counts{Ops: 1, Acked: 1, Lost: c.lost},
			Recovery: verdict.Recovery{Class: verdict.Recovered},
		}
		d := &report.Document{Held: true, Expectations: judgeExpectations(s.Expect, s.Workload.Calls, []report.Call{call})}
		for _, e := range d.Expectations {
			d.Held = d.Held && e.Held
		}
		if d.Held != c.held || d.Unjudged() != c.busy {
			t.Errorf("waiting %v, p50 %d, lost %d: held %v, unjudged %v\n%+v", c.wait, c.p50, c.lost, d.Held, d.Unjudged(), d.Expectations)
		}
	}
}
