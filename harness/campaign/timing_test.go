package campaign

import (
	"math"
	"testing"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/scenarios"
)

// perSecond is how often a sequence of requests is answered in a second, in the
// model's own time.
func perSecond(m disk.Model, requests ...blocklog.Event) float64 {
	const times = 100
	var now time.Duration
	for range times {
		for _, r := range requests {
			now = m.Serve(now, &r)
		}
	}
	return times / now.Seconds()
}

func modelOf(p scenarios.Profile, cache bool) disk.Model {
	return Timing(p.Timing()).Model(8<<30, cache)
}

// TestMeasured holds the profiles against what was measured on the drives that they
// are of: each as the requests that the call sends, by the source's file system.
func TestMeasured(t *testing.T) {
	const kib = 1 << 10
	write := func(at, n int64) blocklog.Event { return blocklog.Event{Op: blocklog.Write, Offset: at, Length: n} }
	fua := func(at, n int64) blocklog.Event {
		return blocklog.Event{Op: blocklog.Write, Offset: at, Length: n, FUA: true}
	}
	flush := blocklog.Event{Op: blocklog.Flush}
	data, log := write(1<<30, 8*kib), fua(2<<30, 4*kib)
	for _, c := range []struct {
		name      string
		profile   scenarios.Profile
		cache     bool
		requests  []blocklog.Event
		want, off float64 // a second, and how far off the model may be
	}{
		{"990 Pro, XFS: fdatasync", scenarios.SSDConsumer, true, []blocklog.Event{data, flush}, 608, 0.03},
		{"990 Pro, XFS: open_datasync", scenarios.SSDConsumer, true, []blocklog.Event{fua(1<<30, 8*kib)}, 249, 0.03},
		{"990 Pro, XFS: fsync", scenarios.SSDConsumer, true, []blocklog.Event{data, flush, log}, 177, 0.03},
		{"990 Pro, XFS: open_sync", scenarios.SSDConsumer, true, []blocklog.Event{data, flush, log}, 185, 0.06},
		{"990 Pro: 4 KiB reads", scenarios.SSDConsumer, true, []blocklog.Event{{Op: blocklog.Read, Length: 4 * kib}}, 22000, 0.03},
		{"850 EVO: 4 KiB reads", scenarios.SSDSATA, true, []blocklog.Event{{Op: blocklog.Read, Length: 4 * kib}}, 10000, 0.03},
		{"850 EVO: 4 KiB writes", scenarios.SSDSATA, true, []blocklog.Event{write(0, 4*kib)}, 40000, 0.03},
		{"P4510: 4 KiB reads", scenarios.SSDServer, false, []blocklog.Event{{Op: blocklog.Read, Length: 4 * kib}}, 1e6 / 77, 0.03},
		{"P4510: 4 KiB writes", scenarios.SSDServer, false, []blocklog.Event{write(0, 4*kib)}, 1e6 / 18, 0.03},
		{"7200 rpm, 2004: O_DSYNC", scenarios.IDE7200, false, []blocklog.Event{write(0, 4*kib)}, 1e3 / 8.43, 0.03},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := perSecond(modelOf(c.profile, c.cache), c.requests...)
			if math.Abs(got/c.want-1) > c.off {
				t.Errorf("%.1f a second, %.1f were measured", got, c.want)
			}
		})
	}
}

// TestMeanSeek: the mean time of a seek over random distances is what the data sheets
// of rotating drives name, within 10 %.
func TestMeanSeek(t *testing.T) {
	for p, want := range map[scenarios.Profile]time.Duration{
		scenarios.IDE7200: 9 * time.Millisecond, scenarios.IDE5400: 9 * time.Millisecond, scenarios.Laptop5400: 12 * time.Millisecond,
	} {
		r := Timing(p.Timing()).(disk.Rotating)
		const tracks = 1000
		var sum time.Duration
		for from := range int64(tracks) {
			for to := range int64(tracks) {
				sum += r.SeekTime(max(from-to, to-from), tracks)
			}
		}
		if mean := sum / (tracks * tracks); (mean - want).Abs() > want/10 {
			t.Errorf("%s: %v, its data sheet says %v", p, mean, want)
		}
	}
}

// TestNoTiming: a profile of nothing is no timing, and each other one is some.
func TestNoTiming(t *testing.T) {
	for _, p := range scenarios.Profiles() {
		if got := Timing(p.Timing()); (got == nil) != (p == scenarios.NoTiming) {
			t.Errorf("%s gives %#v", p, got)
		}
	}
}
