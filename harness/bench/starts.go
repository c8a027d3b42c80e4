package bench

import (
	"context"
	"errors"
	"time"

	"powercut/harness/machine"
)

// minSpeedup is how many times faster a fork is to be than a cold boot.
const minSpeedup = 20

// starts measures cold boots and forks in turn, each until the guest has answered
// for the first time.
func (r *rig) starts(ctx context.Context) ([]Figure, error) {
	e := r.effort
	r.options.Progress.Stage("boots and forks", e.boots+e.forks)
	var boots, forks []int64
	warm := func(ctx context.Context, b *bay) (*machine.Guest, error) { return r.machine.Fork(ctx, b.dir, b.drive) }
	cold := func(ctx context.Context, b *bay) (*machine.Guest, error) {
		g, _, err := r.machine.Boot(ctx, b.dir, b.drive)
		return g, err
	}
	for range e.boots {
		ns, err := r.start(ctx, "boot", cold)
		if err != nil {
			return nil, err
		}
		boots = append(boots, ns)
		for range e.forks / e.boots {
			if ns, err = r.start(ctx, "fork", warm); err != nil {
				return nil, err
			}
			forks = append(forks, ns)
			r.options.Progress.Set(len(boots) + len(forks))
		}
	}
	return []Figure{Figure{
		Name: ForkFigure, Text: "fork against cold boot", Unit: Times,
		Value: median(boots) / median(forks),
		Parts: []Part{timed("cold boot", boots), timed("fork", forks)},
	}.atLeast(minSpeedup)}, nil
}

// start returns how long a guest takes from nothing to its first answer, in
// nanoseconds.
func (r *rig) start(ctx context.Context, name string, begin func(context.Context, *bay) (*machine.Guest, error)) (ns int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	b, err := r.newBay(name, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	begun := time.Now()
	g, err := begin(ctx, b)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if _, err := g.Echo(ctx); err != nil {
		return 0, err
	}
	return since(begun), nil
}
