// Package bench measures powercut itself. Each figure sets two things against
// each other that were measured in turn within one run on one machine, so that it
// says something on a busy machine as well; each is held against a bound.
//
// The guest is that of the scenario barrier-on: what is measured is what a run
// pays.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"powercut/harness/machine"
	"powercut/harness/qemu"
	"powercut/images"
	"powercut/images/cache"
	"powercut/scenarios"
)

// scenarioName is the scenario whose guest, file system and workload are used.
const scenarioName = "barrier-on"

// stepDeadline bounds each single thing that a guest or a child is asked to do.
const stepDeadline = 2 * time.Minute

// Progress is told what is being measured, and how far that is.
type Progress interface {
	// Stage begins a stage of that many steps; 0 where the number is not known.
	Stage(text string, total int)
	// Set says how many of its steps are done.
	Set(n int)
}

// Options say how to measure.
type Options struct {
	Binary   string // this program: the guest's agent, and the child whose memory is measured
	QEMU     string // empty: from PATH
	Quick    bool   // fewer rounds, and so figures that vary more
	Progress Progress
}

// effort is how often and how much is measured.
type effort struct {
	boots, forks   int   // cold boots; forks in all, a multiple of boots
	bursts, echoes int   // bursts of ledger records; round trips
	pairs, ops     int   // rounds on each of the two drives; ops in each
	mixed, small   int64 // bytes written by the two memory measurements
	phases         int   // runs whose phases are timed
}

func (o Options) effort() effort {
	if o.Quick {
		return effort{boots: 1, forks: 3, bursts: 4, echoes: 50, pairs: 2, ops: 60, mixed: 48 << 20, small: 8 << 20, phases: 1}
	}
	return effort{boots: 3, forks: 12, bursts: 30, echoes: 500, pairs: 12, ops: 450, mixed: 1 << 30, small: 128 << 20, phases: 5}
}

// rig is what the measurements have in common.
type rig struct {
	options  Options
	effort   effort
	scenario scenarios.Scenario
	machine  *machine.Machine
	base     string // path of the formatted disk
	folder   string // absolute; all that is written is below it, and goes with it
}

// Run measures everything. An error means that it could not be measured; a figure
// beyond its bound is none.
func Run(ctx context.Context, o Options) (doc *Document, err error) {
	begun := time.Now()
	r := &rig{options: o, effort: o.effort()}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	c, err := cache.Default()
	if err != nil {
		return nil, err
	}
	folder, release, err := c.Scratch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r.folder = folder
	if doc, err = r.measure(ctx); err != nil {
		return nil, fmt.Errorf("measure %w", err)
	}
	doc.Elapsed = time.Since(begun).Seconds()
	return doc, nil
}

// prepare gets the kernel, the formatted disk and the machine.
func (r *rig) prepare(ctx context.Context) (err error) {
	if r.scenario, err = scenarios.Load(scenarioName); err != nil {
		return err
	}
	s := r.scenario
	r.options.Progress.Stage("kernel "+s.Kernel, 0)
	kernel, err := images.Fetch(ctx, s.Kernel)
	if err != nil {
		return err
	}
	r.options.Progress.Stage("formatting the disk", 0)
	r.base, err = images.MakeFS(ctx, images.Format{
		Type: string(s.Filesystem.Type), Size: int64(s.Filesystem.Size), Options: s.Filesystem.Mkfs,
	})
	if err != nil {
		return err
	}
	r.machine, err = machine.Prepare(ctx, machine.Spec{
		Kernel: kernel, Binary: r.options.Binary, QEMU: r.options.QEMU,
		Memory: int64(s.Guest.Memory), DriveSize: int64(s.Filesystem.Size),
		Bus: qemu.Bus(s.Drive.Bus), WriteCache: s.Drive.WriteCache, Modules: []string{"ext4"},
	}, func(text string) { r.options.Progress.Stage(text, 0) })
	return err
}

// measure takes one figure after the other.
func (r *rig) measure(ctx context.Context) (*Document, error) {
	m := r.machine
	doc := &Document{
		Schema: Schema, Quick: r.options.Quick,
		Machine: Machine{
			Release: m.Greeting.Release, QEMU: m.Version, Accelerator: string(m.Choice.Accel), Reason: m.Choice.Reason,
			Processors: runtime.NumCPU(), Load: loadAverage(),
		},
	}
	for _, step := range []struct {
		name string
		take func(context.Context) ([]Figure, error)
	}{
		{"forks", r.starts},
		{"the ledger", r.ledger},
		{"the drive", r.drives},
		{"memory", r.memory},
	} {
		figures, err := step.take(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		doc.Figures = append(doc.Figures, figures...)
	}
	var err error
	if doc.Phases, err = r.phases(ctx); err != nil {
		return nil, fmt.Errorf("the phases of a run: %w", err)
	}
	doc.Held = held(doc.Figures)
	return doc, nil
}

// loadAverage is the machine's load over the last minute (proc(5)); 0 where it
// cannot be told.
func loadAverage() (load float64) {
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(string(b), &load)
	}
	return load
}
