package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/harness/latency"
	"powercut/harness/trace"
)

// ofMatrix are runs of two cells of a matrix, of which one was run thrice.
func ofMatrix() []*Document {
	run := func(cell string, mean, drive, theirs float64) *Document {
		return &Document{
			Scenario: "m-" + cell, Figures: &Published{Of: "another system", Per: 10},
			Matrix: &Matrix{Of: "m", Cell: []string{"case=" + cell}, Compare: []string{
				"mean of fsync in large / fsync in small 1.5..2.5", "drive of fsync in large / fsync in small <= 1",
				"p50 of fsync in large / fsync in other >= 1", "max of O_DSYNC in large / fsync in small >= 1", "nonsense",
				"max of fsync in small / fsync in large > 1", "p99 of fsync in small / fsync in large <= 1",
			}},
			Calls: []Call{{
				Call: "fsync", Latency: latency.Summary{N: 1, Mean: mean, Max: 70}, Bill: trace.Bill{DriveTime: drive},
				Figure: NewFigure(theirs, theirs, mean*10),
			}},
		}
	}
	return []*Document{
		run("large", 20, 9, 300), run("large", 40, 9, 300), run("large", 22, 9, 300),
		run("small", 10, 10, 100), run("small", 11, 10, 100), run("small", 90, 10, 100), run("strange", 1, 1, 1),
	}
}

// onBusyHost are the same runs, of which the first one had to wait for a processor.
func onBusyHost() []*Document {
	docs, half := ofMatrix(), 0.5
	docs[0].Calls[0].HostWait = &half
	docs[0].Expectations = []Expectation{{Text: "mean of fsync <= 1ms", Found: "2 ms", Busy: true}}
	return docs
}

// TestCompareOnBusyHost: what does not hold is no finding there, and what holds does.
func TestCompareOnBusyHost(t *testing.T) {
	for i, c := range Compare(onBusyHost()) {
		if was := Compare(ofMatrix())[i]; c.Held != was.Held || c.Busy == c.Held {
			t.Errorf("%+v", c)
		}
	}
}

// TestCompare: medians of several runs are compared, the published ratio stands
// beside those of means, and where a cell or a call was not run nothing is said of it; nothing holds
// where there is nothing to divide by.
func TestCompare(t *testing.T) {
	want := []Comparison{
		{Matrix: "m", Text: "mean of fsync in large / fsync in small 1.5..2.5", Ratio: 2, Published: 3, Runs: 3, HeldIn: 1, Held: true},
		{Matrix: "m", Text: "drive of fsync in large / fsync in small <= 1", Ratio: .9, Runs: 3, HeldIn: 3, Held: true},
		{Matrix: "m", Text: "max of fsync in small / fsync in large > 1", Ratio: 1, Runs: 3},
		{Matrix: "m", Text: "p99 of fsync in small / fsync in large <= 1", Runs: 3}, // there is nothing to divide by
	}
	if d := cmp.Diff(want, Compare(ofMatrix())); d != "" {
		t.Error(d)
	}
}
