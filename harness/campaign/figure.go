package campaign

import (
	"powercut/guest/workload"
	"powercut/harness/latency"
	"powercut/harness/report"
	"powercut/scenarios"
)

// figure holds a call's mean latency against what was published of it; nil where
// nothing was, or nothing was measured.
func figure(f scenarios.Figures, call workload.Call, l latency.Summary) *report.Figure {
	theirs, ok := f.Mean.For(call)
	if !ok || l.N == 0 {
		return nil
	}
	return report.NewFigure(theirs.Value, max(theirs.Value, theirs.High), l.Mean*float64(f.Ops()))
}
