package bench

import (
	"context"
	"fmt"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/campaign"
	"powercut/harness/disk"
	"powercut/harness/latency"
	"powercut/scenarios"
)

// maxDeviation is how far a drive may be off its model, in parts of one.
const maxDeviation = 0.03

// maxTries is how often a check is made that does not hold. A machine that is busy makes
// a drive late; a drive that is wrong is so each time.
const maxTries = 3

// selfTestSize is the size of the drive of a self-test, in bytes. It is not written to
// in full.
const selfTestSize = 8 << 30

// Profile is the self-test of a timing profile.
type Profile struct {
	Name   string  `json:"name"`
	Text   string  `json:"text"`
	Checks []Check `json:"checks"`
}

// Check is one thing that was measured at a drive, and what its model says of it. Each
// value is a time as a client sees it, from the answer to its last request to the
// answer to this one, or the rate that follows from such times.
type Check struct {
	Text  string  `json:"text"`
	Unit  string  `json:"unit"` // ns, or MB/s
	Model float64 `json:"model"`
	// Host is the part of a request's time that this machine took outside of the drive,
	// in nanoseconds, the median. The model has it in.
	Host      float64 `json:"host_ns"`
	Measured  float64 `json:"measured"`
	Deviation float64 `json:"deviation"` // in parts of one
	Held      bool    `json:"held"`
	Tries     int     `json:"tries"` // the values are those of the last
}

func (c Check) show(v float64) string {
	if c.Unit == Nanoseconds {
		return latency.Format(v)
	}
	return quantity(v, c.Unit)
}

func (c Check) outcome() string {
	switch {
	case !c.Held:
		return "OFF"
	case c.Tries > 1:
		return fmt.Sprintf("ok, at try %d", c.Tries)
	}
	return "ok"
}

func (p Profile) held() bool {
	for _, c := range p.Checks {
		if !c.Held {
			return false
		}
	}
	return true
}

// trial is a sequence of requests of which some are timed.
type trial struct {
	text    string
	cache   bool // the drive's write cache is on
	steps   []step
	repeats int   // of the steps; each timed step counts by its median
	bytes   int64 // moved by the timed steps, where a rate is to be found; else 0
}

// step is a request; only the timed ones count.
type step struct {
	blocklog.Event
	timed bool
}

// profile holds a drive of a profile against its model.
func (r *rig) profile(ctx context.Context, p scenarios.Profile) (Profile, error) {
	out := Profile{Name: string(p), Text: fmt.Sprintf("%s, a %s drive", p, p.Kind()), Checks: []Check{}}
	timing := campaign.Timing(p.Timing())
	var trials []trial
	switch t := timing.(type) {
	case disk.Rotating:
		trials = rotatingTrials(t, selfTestSize)
	case disk.SolidState:
		trials = solidTrials(t)
	default:
		out.Text = string(p) + ": there is nothing to hold it against"
		return out, nil
	}
	r.options.Progress.Stage("timing "+string(p), len(trials))
	for i, t := range trials {
		if r.options.Quick {
			t.repeats = min(t.repeats, 3)
		}
		var c Check
		for tries := 1; tries <= maxTries && !c.Held; tries++ {
			var err error
			if c, err = r.check(ctx, timing, t); err != nil {
				return out, fmt.Errorf("%s: %w", t.text, err)
			}
			c.Tries = tries
		}
		out.Checks = append(out.Checks, c)
		r.options.Progress.Set(i + 1)
	}
	return out, nil
}

// check plays a trial on the drive, and then asks the model about the same requests,
// at the times at which they reached the drive. These, and when its answers left, are
// in the block log. A client sees both drive and model with what the host takes outside
// of the drive on top.
func (r *rig) check(ctx context.Context, timing disk.Timing, t trial) (Check, error) {
	found, err := r.playOnDrive(ctx, timing, t)
	if err != nil {
		return Check{}, err
	}
	return compare(timing, t, found)
}

// compare holds what a drive did against what the model would have done.
func compare(timing disk.Timing, t trial, found played) (Check, error) {
	m := &modelPlayer{model: timing.Model(selfTestSize, t.cache), outside: found.outside, arrived: found.arrived}
	model, err := play(m, t)
	if err != nil {
		return Check{}, err
	}
	c := Check{
		Text: t.text, Unit: Nanoseconds, Host: median(found.outside),
		Model: sum(model) / float64(len(model)), Measured: sum(found.times) / float64(len(model)),
	}
	if t.bytes > 0 {
		c.Unit, c.Model, c.Measured = MBs, float64(t.bytes)/sum(model)*1e3, float64(t.bytes)/sum(found.times)*1e3
	}
	c.Deviation = c.Measured/c.Model - 1
	c.Held = c.Deviation >= -maxDeviation && c.Deviation <= maxDeviation
	return c, nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// player makes a request and tells how long after the answer to the one before its own
// answer came, in nanoseconds.
type player interface {
	do(e *blocklog.Event) (float64, error)
}

// play returns the time of each timed step, the median over the repeats.
func play(p player, t trial) ([]float64, error) {
	var all [][]float64
	for range t.repeats {
		n := 0
		for i := range t.steps {
			took, err := p.do(&t.steps[i].Event)
			if err != nil {
				return nil, err
			}
			if !t.steps[i].timed {
				continue
			}
			if n == len(all) {
				all = append(all, nil)
			}
			all[n] = append(all[n], took)
			n++
		}
	}
	var out []float64
	for _, times := range all {
		out = append(out, median(times))
	}
	return out, nil
}

// modelPlayer plays on a model, in time that does not pass.
type modelPlayer struct {
	model   disk.Model
	arrived []time.Duration // when each request to come reached the drive
	outside []float64       // what the host took for it outside of the drive
}

func (m *modelPlayer) do(e *blocklog.Event) (float64, error) {
	at, outside := m.arrived[0], m.outside[0]
	m.arrived, m.outside = m.arrived[1:], m.outside[1:]
	return float64(m.model.Serve(at, e)-at) + outside, nil
}
