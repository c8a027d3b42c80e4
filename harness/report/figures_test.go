package report

import "testing"

// withFigures is a run beside published figures, its latencies some milliseconds longer.
func withFigures(more float64) *Document {
	d := ext3Overwrite()
	d.Seed, d.Drive.Revolution = uint64(more), 60_000./7200
	d.Drive.NoMerges, d.Drive.Scheduler, d.Workload.Load = true, "bfq", "2 readers of 64MiB in one file each"
	d.Figures = &Published{Of: "Linux 2.4.22, ext3, a 7200 rpm drive", Per: 1000, Why: "one journal commit less"}
	for i, theirs := range [][2]float64{{8.413535e9, 8.413535e9}, {}, {34.5e9, 34.5e9}, {.2e9, 9e9}} {
		c := &d.Calls[i]
		c.Latency.Mean += more * 1e6
		host := 0.01
		if i == 3 {
			host = 0.12
		}
		c.HostWait, c.Bill.GuestTime = &host, 2e5
		if theirs[0] > 0 {
			c.Figure = NewFigure(theirs[0], theirs[1], c.Latency.Mean*1000)
		}
	}
	return d
}

// TestFigureRatio: of a range the nearer end counts, and within it all is as published.
func TestFigureRatio(t *testing.T) {
	for _, c := range []struct{ low, high, ours, want float64 }{
		{10, 10, 12, 1.2}, {10, 10, 5, 0.5}, {10, 10, 10, 1}, {2, 8, 1, 0.5}, {2, 8, 2, 1}, {2, 8, 5, 1}, {2, 8, 8, 1}, {2, 8, 16, 2},
	} {
		if got := NewFigure(c.low, c.high, c.ours).Ratio; got != c.want {
			t.Errorf("%v against %v to %v is %v, want %v", c.ours, c.low, c.high, got, c.want)
		}
	}
}

// TestBusy: a mean is called unjudged where the guest had to wait for the host, and
// not where that is not known.
func TestBusy(t *testing.T) {
	row := func(call string, taken float64, host ...float64) *beside {
		return &beside{scenario: "cell", call: call, host: host, taken: []float64{taken}}
	}
	quiet := []*beside{row("fsync", 10e6, 0.9e6), row("O_SYNC", 10e6, 3e6, 0.1e6, 0.2e6), row("fdatasync", 10e6)}
	if got := busy(quiet); got != "" {
		t.Errorf("of a quiet host: %s", got)
	}
	want := "this machine was too busy to judge the mean of cell O_DSYNC (2.00 ms of 11.0 ms), for which QEMU had to wait for a processor"
	if got := busy(append(quiet, row("O_DSYNC", 11e6, 2e6))); got != want {
		t.Errorf("of a busy host: %q, want %q", got, want)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{8, 1, 2, 4}, 3}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.of, got, c.want)
		}
	}
}
