package compare

import (
	"math"

	"powercut/harness/trace"
)

// Bill is a figure of a bill that is not what it was.
type Bill struct {
	Scenario string  `json:"scenario" doc:"name of the scenario"`
	Call     string  `json:"call" doc:"the sync call"`
	What     string  `json:"what" doc:"data writes, journal writes, other writes, flushes or FUA writes"`
	OldCount int     `json:"old_count" doc:"such requests in all"`
	OldOps   int     `json:"old_ops" doc:"of so many completed ops"`
	NewCount int     `json:"new_count" doc:"the same of the new runs"`
	NewOps   int     `json:"new_ops" doc:"the same of the new runs"`
	Old      float64 `json:"old_per_op" doc:"the mean"`
	New      float64 `json:"new_per_op" doc:"the mean"`
	Outcome  Outcome `json:"outcome" doc:"regression where an op pays at least half a request more, and more than the threshold"`
}

func (b Bill) outcome() Outcome { return b.Outcome }

// typical is the difference from which on most ops pay one more, or one less.
const typical = 0.5

// bills compares the bills of one call. Every change is told, however small.
func (p pair) bills(call string, o Options) []Bill {
	old, changed := callsOf(p.old, call), callsOf(p.new, call)
	var list []Bill
	for _, f := range []struct {
		what  string
		of    func(trace.Bill) float64
		judge bool
	}{
		{"data writes", func(b trace.Bill) float64 { return b.DataWrites }, true},
		{"journal writes", func(b trace.Bill) float64 { return b.JournalWrites }, true},
		{"other writes", func(b trace.Bill) float64 { return b.MetadataWrites }, true},
		{"flushes", func(b trace.Bill) float64 { return b.Flushes }, true},
		// A write with FUA is among the writes already: that it has the mark is a change.
		{"FUA writes", func(b trace.Bill) float64 { return b.FUAWrites }, false},
	} {
		b := Bill{Scenario: p.name, Call: call, What: f.what, Outcome: Change}
		b.OldCount, b.OldOps = sum(old, f.of)
		b.NewCount, b.NewOps = sum(changed, f.of)
		if b.OldOps == 0 || b.NewOps == 0 || b.OldCount*b.NewOps == b.NewCount*b.OldOps {
			continue
		}
		b.Old, b.New = float64(b.OldCount)/float64(b.OldOps), float64(b.NewCount)/float64(b.NewOps)
		switch d := b.New - b.Old; {
		case !f.judge:
		case d >= typical && d > o.threshold(true)*b.Old:
			b.Outcome = Regression
		case -d >= typical && -d > o.threshold(true)*b.New:
			b.Outcome = Improvement
		}
		list = append(list, b)
	}
	return list
}

// sum counts the requests of all runs' ops. A bill holds means; what they are means of
// is whole.
func sum(calls []found, of func(trace.Bill) float64) (requests, ops int) {
	for _, c := range calls {
		requests += int(math.Round(of(c.Bill) * float64(c.Bill.Ops)))
		ops += c.Bill.Ops
	}
	return requests, ops
}
