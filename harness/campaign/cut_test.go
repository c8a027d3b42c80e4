package campaign

import (
	"strings"
	"testing"
	"time"

	"powercut/harness/blocklog"
	"powercut/scenarios"
)

// TestTrigger feeds a trigger the events of a drive, two for each op, and says at
// which position it cuts.
func TestTrigger(t *testing.T) {
	for _, c := range []struct {
		name   string
		cut    scenarios.Cut
		want   int
		reason string
	}{
		{"op", scenarios.Cut{Op: 3}, 6, "op 3 had begun"},
		{"ack", scenarios.Cut{Ack: 3}, 8, "op 3 was acknowledged"},
		{"position", scenarios.Cut{Position: 5}, 5, "position 5"},
		{"after", scenarios.Cut{After: 3 * time.Second}, 5, "3s after op 1"},
		{"beyond the end", scenarios.Cut{Op: 1000}, -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			trigger := newTrigger(c.cut, 1)
			got, reason := -1, ""
			for pos := 0; pos < 40 && got < 0; pos++ {
				op := uint64(pos / 2)
				e := &blocklog.Event{Started: op, Acked: op, Time: time.Duration(pos) * time.Second}
				if r, cut := trigger.event(pos, e); cut {
					got, reason = pos, r
				}
			}
			if got != c.want || !strings.Contains(reason, c.reason) {
				t.Errorf("cut at %d (%s), want %d (%s)", got, reason, c.want, c.reason)
			}
		})
	}
}

// TestTriggerWithoutDrive: ops that need no drive are cut as well.
func TestTriggerWithoutDrive(t *testing.T) {
	for _, c := range []scenarios.Cut{{Op: 5}, {Ack: 5}, {After: time.Second}} {
		trigger := newTrigger(c, 1)
		if r, cut := trigger.poll(1, 1, time.Second); cut {
			t.Errorf("%s: cut at op 1: %s", c, r)
		}
		if _, cut := trigger.poll(9, 9, time.Minute); !cut {
			t.Errorf("%s: not cut at op 9", c)
		}
	}
}

// TestRandomTrigger: the seed alone decides, and over seeds all of the range, and
// of what follows an op, is met.
func TestRandomTrigger(t *testing.T) {
	ops, events := map[uint64]bool{}, map[int]bool{}
	for seed := range uint64(500) {
		cut := scenarios.Cut{Random: scenarios.Range{First: 10, Last: 14}}
		a, b := newTrigger(cut, seed), newTrigger(cut, seed)
		if *a != *b {
			t.Fatalf("seed %d: %+v and %+v", seed, a, b)
		}
		if a.op < 10 || a.op > 14 {
			t.Fatalf("seed %d: op %d is not of the range", seed, a.op)
		}
		ops[a.op], events[a.events] = true, true
	}
	if len(ops) != 5 || len(events) != maxExtraEvents+1 {
		t.Errorf("500 seeds meet %d ops of 5 and %d of %d numbers of events", len(ops), len(events), maxExtraEvents+1)
	}
}
