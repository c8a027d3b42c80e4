package evidence

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
	"powercut/scenarios"
)

// TestPlace draws a run on the guest's clock and one event for each thing that the
// drive saw, on another clock that runs a little faster: where ops are placed they
// keep their order, among themselves and against the events, and are as long as they were.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shift := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "shift"))
		drift := rapid.Float64Range(0.999, 1.001).Draw(t, "drift")
		host := func(guest int64) time.Duration { return time.Duration(float64(guest)*drift) + 1e12 + shift }
		var (
			now     int64
			events  []blocklog.Event
			records []ledger.Record
			ops     []Op
		)
		step := func() int64 { now += rapid.Int64Range(1000, 1e7).Draw(t, "step"); return now }
		event := func(started, acked int) {
			events = append(events, blocklog.Event{Time: host(step()), Started: uint64(started), Acked: uint64(acked)})
		}
		event(0, 0)
		records = append(records, ledger.Record{Op: 0, Start: step(), End: step(), Synced: true})
		for k := 1; k <= rapid.IntRange(1, 8).Draw(t, "ops"); k++ {
			ops = append(ops, Op{Number: k})
			start := step()
			for range rapid.IntRange(0, 3).Draw(t, "events") {
				event(k, k)
			}
			records = append(records, ledger.Record{Op: uint64(k), Start: start, Sync: start, End: step(), Synced: true})
			if rapid.Bool().Draw(t, "between") {
				event(k, k+1)
			}
		}
		cut := len(ops) + 1
		ops = append(ops, Op{Number: cut}) // begun, never over
		event(cut, cut)
		place(ops, events, records)
		for _, o := range ops {
			first := slices.IndexFunc(events, func(e blocklog.Event) bool { return e.Started >= uint64(o.Number) })
			if o.Begin > events[first].Time || first > 0 && o.Begin < events[first-1].Time {
				t.Fatalf("op %d begins at %v, not between its events", o.Number, o.Begin)
			}
			if o.Number == cut {
				if before := ops[cut-2].End; o.Begin != max(before, events[first-1].Time) {
					t.Fatalf("what was under way began at %v, the op before it ended at %v", o.Begin, before)
				}
				continue
			}
			after := slices.IndexFunc(events, func(e blocklog.Event) bool { return e.Acked > uint64(o.Number) })
			if o.End > events[after].Time || o.End < events[after-1].Time {
				t.Fatalf("op %d ends at %v, not between its events", o.Number, o.End)
			}
			if o.Number > 1 && o.Begin < ops[o.Number-2].End {
				t.Fatalf("op %d begins at %v, before op %d has ended, at %v", o.Number, o.Begin, o.Number-1, ops[o.Number-2].End)
			}
			real, got := time.Duration(records[o.Number].Latency()), o.End-o.Begin
			apart := time.Duration(math.Abs(drift-1) * float64(now)) // how far the clocks get apart
			if d := (got - real).Abs(); d > real/100+apart+time.Microsecond {
				t.Fatalf("op %d took %v and is drawn with %v", o.Number, real, got)
			}
		}
		if last := ops[len(ops)-1]; last.End != events[len(events)-1].Time {
			t.Fatalf("what the cut ended ends at %v", last.End)
		}
	})
}

func TestPlaceWithoutEvents(t *testing.T) {
	ops := []Op{{Number: 1}}
	place(ops, nil, nil)
	if ops[0].Begin != 0 || ops[0].End != 0 {
		t.Errorf("%+v", ops[0])
	}
}

// TestBounds of each profile ascend, and say why.
func TestBounds(t *testing.T) {
	for _, p := range scenarios.Profiles() {
		for _, volatile := range []bool{false, true} {
			d := scenarios.Drive{Timing: p.Timing(), WriteCache: volatile}
			list := Bounds(d, 4096)
			if (len(list) == 0) != (p == scenarios.NoTiming) {
				t.Errorf("%s: %v", p, list)
			}
			for i, b := range list {
				if b.At <= 0 || b.Name == "" || i == 0 && b.Why == "" || i > 0 && b.At < list[i-1].At {
					t.Errorf("%s: %+v", p, list)
				}
			}
		}
	}
	if got := Bounds(scenarios.Drive{Timing: scenarios.IDE7200.Timing()}, 1)[0].At; got != time.Minute/7200 {
		t.Errorf("a revolution takes %v", got)
	}
}

func TestLastLines(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "\n": nil, "a": {"a"}, "a\r\nb\n": {"a", "b"}, "1\n2\n3\n4\n": {"2", "3", "4"}, "\x1b[2J": {"·[2J"},
	} {
		if got := lastLines(text, 3); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}
