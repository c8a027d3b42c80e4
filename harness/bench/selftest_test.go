package bench

import (
	"testing"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/campaign"
	"powercut/harness/disk"
	"powercut/scenarios"
)

// simulated is a drive whose time does not pass, and on which the host takes as long
// each time.
type simulated struct {
	model disk.Model
	now   time.Duration
	found played
}

const simulatedHost = 50 * time.Microsecond

func (s *simulated) do(e *blocklog.Event) (float64, error) {
	arrived := s.now + simulatedHost/2
	answer := s.model.Serve(arrived, e) + simulatedHost/2
	took := answer - s.now
	s.now = answer
	s.found.arrived = append(s.found.arrived, arrived)
	s.found.outside = append(s.found.outside, float64(simulatedHost))
	return float64(took), nil
}

// simulate plays a trial on a drive that is as timing says.
func simulate(t *testing.T, timing disk.Timing, trial trial) played {
	t.Helper()
	s := &simulated{model: timing.Model(selfTestSize, trial.cache)}
	times, err := play(s, trial)
	if err != nil {
		t.Fatal(err)
	}
	s.found.times = times
	return s.found
}

// offChecks are the checks that a drive fails which is as actual, and should be as
// timing says.
func offChecks(t *testing.T, timing, actual disk.Timing) (off []string) {
	t.Helper()
	var all []trial
	switch m := timing.(type) {
	case disk.Rotating:
		all = rotatingTrials(m, selfTestSize)
	case disk.SolidState:
		all = solidTrials(m)
	}
	for _, trial := range all {
		trial.repeats = min(trial.repeats, 5)
		c, err := compare(timing, trial, simulate(t, actual, trial))
		if err != nil {
			t.Fatal(err)
		}
		if !c.Held {
			off = append(off, c.Text)
		}
	}
	return off
}

// TestSelfTest: the self-test clears the drive of each profile, and a drive that is not
// as its profile says fails it.
func TestSelfTest(t *testing.T) {
	for _, p := range scenarios.Profiles() {
		timing := campaign.Timing(p.Timing())
		if timing == nil {
			continue
		}
		if off := offChecks(t, timing, timing); len(off) > 0 {
			t.Errorf("%s, the right drive, is accused: %q", p, off)
		}
		for name, wrong := range wrongDrives(timing) {
			if off := offChecks(t, timing, wrong); len(off) == 0 {
				t.Errorf("%s is not caught: %s", p, name)
			}
		}
	}
}

// wrongDrives are drives that are nearly as timing says.
func wrongDrives(timing disk.Timing) map[string]disk.Timing {
	if t, rotating := timing.(disk.Rotating); rotating {
		slow, bus, density, seek := t, t, t, t
		slow.RPM = t.RPM * 100 / 105
		bus.BusRate /= 2
		density.SectorsPerTrack /= 2
		seek.SeekMax = t.SeekMax * 3 / 2
		return map[string]disk.Timing{
			"a revolution 5 % too slow": slow, "half the rate of the bus": bus, "half the rate of the media": density, "long seeks": seek,
		}
	}
	t := timing.(disk.SolidState)
	bus, read, fua, flush := t, t, t, t
	bus.BusRate /= 2
	read.Read = t.Read * 5 / 4
	fua.FUA = t.FUA*5/4 + 10*time.Microsecond
	flush.Flush = t.Flush*5/4 + 10*time.Microsecond
	return map[string]disk.Timing{"half the rate of the bus": bus, "slow reads": read, "slow FUA": fua, "slow flushes": flush}
}
