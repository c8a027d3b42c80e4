package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"powercut/guest/wire"
	"powercut/harness/machine"
	"powercut/harness/qemu"
)

// The figures of PartSpeed.
const (
	SyncedFigure     = "synced-writes"
	SequentialFigure = "sequential-writes"
	ReadsFigure      = "random-reads"

	sustained = "sustained" // a part of SequentialFigure
)

// What the recording drive may cost, against nbdkit's disk in memory.
const (
	maxSyncedCost = 1.05 // times its latency
	minThroughput = 0.95 // of its throughput
)

// rest is what the recording drive is given to write its log behind it, so that it does
// so at the cost of no rival.
const rest = 300 * time.Millisecond

// contest is a series of requests that a guest makes on each drive.
type contest struct {
	name, text string
	exercise   wire.Exercise
}

// contests are those of a round.
func (r *rig) contests() []contest {
	span := int64(r.scenario.Filesystem.Size)
	return []contest{
		{SyncedFigure, "latency of 4 KiB random writes, each with fdatasync", wire.Exercise{Bytes: 4 << 10, Count: 300, Span: span, Random: true, Sync: true}},
		{SequentialFigure, "throughput of 1 MiB sequential writes", wire.Exercise{Bytes: 1 << 20, Count: 48, Span: span}},
		// More than the log's memory takes at once, so that its file sets the pace.
		{sustained, "of 256 MiB in one go", wire.Exercise{Bytes: 1 << 20, Count: 256, Span: span}},
		{ReadsFigure, "throughput of 4 KiB random reads", wire.Exercise{Bytes: 4 << 10, Count: 400, Span: span, Random: true, Read: true}},
	}
}

// rival is a guest on one of the drives.
type rival struct {
	name  string
	guest *machine.Guest
}

// speed lets guests on three drives, which are there all the time, work in turn: on
// the recording drive, on nbdkit's disk in memory, and on a raw image in a tmpfs.
func (r *rig) speed(ctx context.Context) (figures []Figure, err error) {
	program, err := exec.LookPath("nbdkit")
	if err != nil {
		return r.skipped("nbdkit is not installed (apt-get install nbdkit)"), nil
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	var rivals []rival
	race := func(ctx context.Context, g *machine.Guest) error {
		rivals = append(rivals, rival{"raw file in tmpfs", g})
		figures, err = r.race(ctx, rivals)
		return err
	}
	err = r.withGuest(ctx, "speed", func(ctx context.Context, g *machine.Guest) error {
		rivals = append(rivals, rival{"recording drive", g})
		return r.withForeign(ctx, program, func(ctx context.Context, g *machine.Guest) error {
			rivals = append(rivals, rival{"nbdkit", g})
			return r.withRaw(ctx, race)
		})
	})
	return figures, err
}

func (r *rig) skipped(why string) (out []Figure) {
	for _, c := range r.contests() {
		if c.name == sustained {
			continue
		}
		f := bound(c, Figure{Name: c.name, Text: c.text, Unit: Times, Parts: []Part{}})
		f.Held, f.Skipped = false, why
		out = append(out, f)
	}
	return out
}

// bound holds a figure of a contest against its bound.
func bound(c contest, f Figure) Figure {
	if c.name == SyncedFigure {
		return f.atMost(maxSyncedCost)
	}
	return f.atLeast(minThroughput)
}

// withRaw calls do with a guest on a raw image in the machine's memory.
func (r *rig) withRaw(ctx context.Context, do func(context.Context, *machine.Guest) error) (err error) {
	dir, err := os.MkdirTemp(r.folder, "raw-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	size := int64(r.scenario.Filesystem.Size)
	image, err := memoryFile(size)
	if err != nil {
		return err
	}
	defer image.Close()
	g, err := r.machine.ForkFile(ctx, dir, qemu.Image{
		Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), image.Fd()), Format: "raw", AIO: "threads", Limit: size,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return do(ctx, g)
}

// memoryFile is an empty file in a tmpfs that goes with this process: one of
// memfd_create(2).
func memoryFile(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("powercut", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return f, nil
}

// race runs all contests, round by round. In every other round the order of the
// drives is the other way round, so that a load that grows or falls favours none.
func (r *rig) race(ctx context.Context, rivals []rival) ([]Figure, error) {
	contests := r.contests()
	// times[c][d][n] is what drive d took in round n of contest c, in nanoseconds.
	times := make([][][]float64, len(contests))
	for c := range times {
		times[c] = make([][]float64, len(rivals))
	}
	r.options.Progress.Stage("recording drive, nbdkit and raw file", r.effort.pairs)
	for n := range r.effort.pairs + 1 {
		for c, contest := range contests {
			for i := range rivals {
				d := i
				if n%2 == 1 {
					d = len(rivals) - 1 - i
				}
				contest.exercise.Seed = uint64(n)
				ns, err := compete(ctx, rivals[d].guest, contest)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", rivals[d].name, err)
				}
				if !contest.exercise.Sync && !contest.exercise.Read {
					time.Sleep(rest)
				}
				if n > 0 { // the first round warms up
					times[c][d] = append(times[c][d], ns)
				}
			}
		}
		r.options.Progress.Set(n)
	}
	var out []Figure
	for c, contest := range contests {
		f := verdictOf(contest, rivals, times[c])
		if contest.name == sustained {
			last := &out[len(out)-1]
			last.Parts = append(last.Parts, Part{Name: contest.text, Value: f.Value, Unit: Times, Samples: len(times[c][0])})
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

// compete returns the median latency of a guest's requests, or where throughput is
// asked for the time of all.
func compete(ctx context.Context, g *machine.Guest, c contest) (float64, error) {
	var done wire.Exertion
	err := g.Ask(ctx, wire.Exercising, c.exercise, func(f wire.Frame) (bool, error) {
		if f.Type != wire.Exercised {
			return false, fmt.Errorf("exercise the drive: unexpected message of type %d", f.Type)
		}
		return true, f.Decode(&done)
	})
	if err != nil {
		return 0, g.Failure("exercise the drive", err)
	}
	if c.name == SyncedFigure {
		return float64(done.Median), nil
	}
	return float64(done.Elapsed), nil
}

// verdictOf compares the first of the rivals with the second: by the median of the
// rounds' ratios.
func verdictOf(c contest, rivals []rival, times [][]float64) Figure {
	ratio := func(d int) float64 {
		var ratios []float64
		for n, ours := range times[0] {
			if c.name == SyncedFigure {
				ratios = append(ratios, ours/times[d][n])
			} else {
				ratios = append(ratios, times[d][n]/ours)
			}
		}
		return median(ratios)
	}
	f := Figure{Name: c.name, Text: c.text, Unit: Times, Value: ratio(1)}
	for d, r := range rivals {
		if c.name == SyncedFigure {
			f.Parts = append(f.Parts, timed(r.name, times[d]))
			continue
		}
		rate := float64(c.exercise.Bytes) * float64(c.exercise.Count) / median(times[d]) * 1e3
		f.Parts = append(f.Parts, Part{Name: r.name, Value: rate, Unit: MBs, Samples: len(times[d])})
	}
	f.Parts = append(f.Parts, Part{Name: "against the raw file", Value: ratio(2), Unit: Times, Samples: len(times[0])})
	return bound(c, f)
}
