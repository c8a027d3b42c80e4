package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/perf/benchmath"

	"powercut/harness/latency"
	"powercut/harness/report/evidence"
)

// Latency compares how long the acknowledged ops of a call took.
type Latency struct {
	Scenario  string   `json:"scenario" doc:"name of the scenario"`
	Call      string   `json:"call" doc:"the sync call"`
	Unit      string   `json:"unit" doc:"what a sample has one value of: op, run (its median, where each side has at least four) or none (a report without its run folder: there is a median and no sample)"`
	Old       Median   `json:"old" doc:"of the old runs"`
	New       Median   `json:"new" doc:"the same of the new runs"`
	Change    float64  `json:"change" doc:"of the median, as a share of the old one"`
	P         *float64 `json:"p" doc:"of the Mann-Whitney U-test: how likely so large a difference is between samples of one distribution; null where there are no samples"`
	Threshold float64  `json:"threshold" doc:"the share beyond which a rise is a regression"`
	Timed     bool     `json:"timed" doc:"the drive has a timing model; where it has none, this is the host's speed"`
	OldDrive  float64  `json:"old_drive_ns" doc:"of the mean latency, the time in which the drive had a request of the op to serve"`
	NewDrive  float64  `json:"new_drive_ns" doc:"the same of the new runs"`
	Outcome   Outcome  `json:"outcome" doc:"regression, improvement, change or same"`
}

func (l Latency) outcome() Outcome { return l.Outcome }

// Median is the middle of a sample, in nanoseconds, with its confidence interval.
type Median struct {
	N      int      `json:"n" doc:"values of the sample; of unit none, ops that were measured"`
	Center float64  `json:"median_ns" doc:"the median, nanoseconds"`
	Lo     *float64 `json:"lo_ns" doc:"of the interval with a confidence of at least 95%; null where there are too few values"`
	Hi     *float64 `json:"hi_ns" doc:"its other end"`
}

const (
	confidence = 0.95
	// leastRuns is how many runs a side needs for a sample of runs: with fewer a U-test
	// cannot find anything.
	leastRuns = 4
)

// latency compares one call.
func (p pair) latency(call string, o Options) Latency {
	old, changed := callsOf(p.old, call), callsOf(p.new, call)
	l := Latency{Scenario: p.name, Call: call, Timed: timed(old) && timed(changed), Outcome: Same}
	l.Threshold = o.threshold(l.Timed)
	unit, before, after := samples(old, changed)
	l.Unit = unit
	l.Old, l.New = median(before), median(after)
	if unit == "none" {
		l.Old, l.New = pooled(old), pooled(changed)
	}
	if l.Old.N == 0 || l.New.N == 0 || l.Old.Center == 0 {
		return l
	}
	l.Change = l.New.Center/l.Old.Center - 1
	significant := true
	if unit != "none" {
		t := benchmath.AssumeNothing.Compare(before, after)
		l.P = &t.P
		significant = t.P < t.Alpha
	}
	was, is := means(old), means(changed)
	l.OldDrive, l.NewDrive = was.drive, is.drive
	switch {
	case !significant:
	case l.Change > l.Threshold:
		l.Outcome = Regression
	case l.Change < -l.Threshold/(1+l.Threshold): // the same factor, downwards
		l.Outcome = Improvement
	}
	if l.Outcome != Same && !l.Timed && o.Threshold == nil && !drives(was, is) {
		l.Outcome = Change
	}
	return l
}

// mean is what an op took in the mean, and the drive's part of it, in nanoseconds.
type mean struct{ latency, drive float64 }

func means(calls []found) mean {
	var m mean
	ops := 0.0
	for _, c := range calls {
		n := float64(c.Latency.N)
		m.latency += c.Latency.Mean * n
		m.drive += c.Bill.DriveTime * n
		ops += n
	}
	return mean{m.latency / max(ops, 1), m.drive / max(ops, 1)}
}

// drives tells whether the drive accounts for at least half of a difference. On a
// drive that answers at once the rest is the host's and the guest's time, of which
// two runs on a busy machine can differ by any factor.
func drives(was, is mean) bool {
	return math.Abs(is.drive-was.drive) >= math.Abs(is.latency-was.latency)/2
}

// timed tells whether all drives have a timing model.
func timed(calls []found) bool {
	for _, c := range calls {
		if c.doc.Drive.Timing == "" || c.doc.Drive.Timing == "none" || c.doc.Drive.Backend == "file" {
			return false
		}
	}
	return true
}

// samples are of runs where there are enough of them, and else of ops. Ops of one run
// share its host and its cut, so they know less of other runs than their number says.
func samples(old, changed []found) (unit string, before, after *benchmath.Sample) {
	sides := [2][]float64{}
	for i, side := range [][]found{old, changed} {
		for _, c := range side {
			if c.Latency.N > 0 {
				sides[i] = append(sides[i], float64(c.Latency.P50))
			}
		}
	}
	if len(sides[0]) >= leastRuns && len(sides[1]) >= leastRuns {
		return "run", sample(sides[0]), sample(sides[1])
	}
	sides = [2][]float64{}
	for i, side := range [][]found{old, changed} {
		for _, c := range side {
			ns, err := ops(c)
			if err != nil {
				return "none", sample(nil), sample(nil)
			}
			sides[i] = append(sides[i], ns...)
		}
	}
	return "op", sample(sides[0]), sample(sides[1])
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(values, &benchmath.DefaultThresholds)
}

// ops reads the latencies of a call from its run folder, and makes sure that it is
// the folder that the report is of.
func ops(c found) ([]float64, error) {
	ns, err := evidence.Latencies(c.doc, c.Call)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read latencies: %w", err)
	}
	if latency.Summarise(ns) != c.Latency {
		return nil, fmt.Errorf("read latencies: %s holds another run than its report tells of", c.doc.Folder)
	}
	out := make([]float64, len(ns))
	for i, v := range ns {
		out[i] = float64(v)
	}
	return out, nil
}

func median(s *benchmath.Sample) Median {
	m := Median{N: len(s.Values)}
	if m.N == 0 {
		return m
	}
	sum := benchmath.AssumeNothing.Summary(s, confidence)
	m.Center = sum.Center
	if !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		m.Lo, m.Hi = &sum.Lo, &sum.Hi
	}
	return m
}

// pooled is the median of the runs' medians, for reports without samples.
func pooled(calls []found) Median {
	var values []float64
	n := 0
	for _, c := range calls {
		if c.Latency.N > 0 {
			values = append(values, float64(c.Latency.P50))
			n += c.Latency.N
		}
	}
	m := median(sample(values))
	return Median{N: n, Center: m.Center}
}
