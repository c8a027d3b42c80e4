package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"powercut/guest/ledger"
	"powercut/harness/machine"
)

// maxDriveCost is how many times as long as with nbdkit's disk in memory an op may
// take with the recording drive.
const maxDriveCost = 1.15

// drives runs one workload in turn on the recording drive and on nbdkit's disk in
// memory, behind the same machine.
func (r *rig) drives(ctx context.Context) ([]Figure, error) {
	f := Figure{Name: DriveFigure, Text: "recording drive against nbdkit memory", Unit: Times, Parts: []Part{}}
	program, err := exec.LookPath("nbdkit")
	if err != nil {
		f = f.atMost(maxDriveCost)
		f.Held, f.Skipped = false, "nbdkit is not installed (apt-get install nbdkit)"
		return []Figure{f}, nil
	}
	ours := func(ctx context.Context, do func(context.Context, *machine.Guest) error) error {
		return r.withGuest(ctx, "drive", do)
	}
	theirs := func(ctx context.Context, do func(context.Context, *machine.Guest) error) error {
		return r.withForeign(ctx, program, do)
	}
	r.options.Progress.Stage("recording drive and nbdkit", 2*r.effort.pairs)
	var own, other, ratios []float64 // medians of rounds, and their ratios
	for i := range r.effort.pairs {
		a, b, err := r.pair(ctx, i, ours, theirs)
		if err != nil {
			return nil, err
		}
		own, other, ratios = append(own, a), append(other, b), append(ratios, a/b)
		r.options.Progress.Set(2 * (i + 1))
	}
	f.Value = median(ratios)
	f.Parts = []Part{
		timed("recording drive", own), timed("nbdkit", other),
		{Name: "ops a round", Value: float64(r.effort.ops), Unit: Count, Samples: 1},
	}
	return []Figure{f.atMost(maxDriveCost)}, nil
}

// withDrive calls do with a guest on some drive.
type withDrive func(ctx context.Context, do func(context.Context, *machine.Guest) error) error

// pair runs one round on each drive and returns the median latency of an op on
// each, in nanoseconds. Odd pairs have the second drive go first, so that a load
// that grows or falls favours neither.
func (r *rig) pair(ctx context.Context, i int, ours, theirs withDrive) (a, b float64, err error) {
	if i%2 == 1 {
		b, a, err = r.pair(ctx, i-1, theirs, ours)
		return a, b, err
	}
	if a, err = r.round(ctx, ours); err != nil {
		return 0, 0, err
	}
	b, err = r.round(ctx, theirs)
	return a, b, err
}

// round runs the workload once and returns the median latency of its ops.
func (r *rig) round(ctx context.Context, with withDrive) (ns float64, err error) {
	err = with(ctx, func(ctx context.Context, g *machine.Guest) error {
		records, err := r.runWorkload(ctx, g, overwrite(r.effort.ops))
		ns = medianLatency(records)
		return err
	})
	return ns, err
}

func medianLatency(records []ledger.Record) float64 {
	var ns []int64
	for _, rec := range records {
		ns = append(ns, rec.Latency())
	}
	return median(ns)
}

// withForeign calls do with a guest on a disk of nbdkit's, for at most stepDeadline.
func (r *rig) withForeign(ctx context.Context, program string, do func(context.Context, *machine.Guest) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	dir, err := os.MkdirTemp(r.folder, "nbdkit-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := startNbdkit(ctx, program, dir, r.base)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	g, err := r.machine.ForkForeign(ctx, dir, nbdkitSocket)
	if err != nil {
		return n.child.explain(err)
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := do(ctx, g); err != nil {
		return n.child.explain(g.Failure("measure", err))
	}
	return nil
}
