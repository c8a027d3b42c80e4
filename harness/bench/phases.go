package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// The phases of a run.
const (
	phaseFork     = "fork"
	phaseMount    = "mount"
	phaseCreate   = "create the file"
	phaseOps      = "ops"
	phaseKill     = "kill"
	phaseLog      = "read the block log"
	phaseState    = "build the crash state"
	phaseRefork   = "fork for recovery"
	phaseRecovery = "mount, with recovery"
	phaseRead     = "read back and unmount"
	phaseJudge    = "judge"
)

func phaseNames() []string {
	return []string{
		phaseFork, phaseMount, phaseCreate, phaseOps, phaseKill, phaseLog, phaseState,
		phaseRefork, phaseRecovery, phaseRead, phaseJudge,
	}
}

// timings are durations of phases in nanoseconds, by name.
type timings map[string][]int64

func (t timings) add(phase string, d time.Duration) { t[phase] = append(t[phase], int64(d)) }

// phases runs the scenario's fdatasync workload, cuts the power in its last op,
// recovers and judges, several times.
func (r *rig) phases(ctx context.Context) ([]Phase, error) {
	plans := r.scenario.Plans(1)
	i := slices.IndexFunc(plans, func(p workload.Plan) bool { return p.Call == workload.Fdatasync })
	if i < 0 {
		return nil, fmt.Errorf("scenario %s has no workload with fdatasync", r.scenario.Name)
	}
	t := timings{}
	r.options.Progress.Stage("phases of a run", r.effort.phases)
	for n := range r.effort.phases {
		if err := r.timeRun(ctx, plans[i], t); err != nil {
			return nil, err
		}
		r.options.Progress.Set(n + 1)
	}
	var out []Phase
	for _, name := range phaseNames() {
		out = append(out, Phase{Name: name, Median: median(t[name]) / float64(time.Millisecond), Samples: len(t[name])})
	}
	return out, nil
}

// timeRun times the phases of one run.
func (r *rig) timeRun(ctx context.Context, p workload.Plan, t timings) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	w := &cutWatch{at: uint64(p.Count)}
	b, err := r.newBay("run", w.event)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	h, err := r.timeRecording(ctx, b, w, p, t)
	if err != nil {
		return err
	}
	begun := time.Now()
	log, err := blocklog.Open(filepath.Join(b.dir, blockLog))
	if err != nil {
		return err
	}
	defer log.Close()
	t.add(phaseLog, time.Since(begun))
	begun = time.Now()
	state, err := crash.Build(b.base, log, len(log.Events), crash.Policy(r.scenario.AtCut), p.Seed)
	if err != nil {
		return err
	}
	t.add(phaseState, time.Since(begun))
	survivors, err := r.timeRecovery(ctx, state, p, t)
	if err != nil {
		return err
	}
	begun = time.Now()
	err = judge(h, survivors, trace.Input{
		Events: log.Events, Payload: log, Plan: p, Records: h.Records, Base: b.base,
		CacheAdvertised: true,
	})
	t.add(phaseJudge, time.Since(begun))
	return err
}

// cutWatch stops the world once an op has begun, and notes when the file had been
// created. It is called under the drive's lock.
type cutWatch struct {
	at      uint64
	created atomic.Int64 // when that was first seen, Unix nanoseconds; 0: not yet
}

func (w *cutWatch) event(_ int, e *blocklog.Event) (string, bool) {
	if e.Acked > 0 && w.created.Load() == 0 {
		w.created.Store(time.Now().UnixNano())
	}
	return "the last op had begun", e.Started >= w.at
}

// timeRecording runs the workload until the cut, and kills the guest.
func (r *rig) timeRecording(ctx context.Context, b *bay, w *cutWatch, p workload.Plan, t timings) (h verdict.History, err error) {
	begun := time.Now()
	g, err := b.fork(ctx, r.machine)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	t.add(phaseFork, time.Since(begun))
	asked := time.Now()
	if err := r.untilCut(ctx, g, p); err != nil {
		return h, err
	}
	cut := time.Now()
	if err := g.Kill(); err != nil {
		return h, err
	}
	t.add(phaseKill, time.Since(cut))
	region := b.memory.Load()
	h = verdict.History{Plan: p, Started: region.Started()}
	if h.Records, err = region.Take(); err != nil {
		return h, err
	}
	if len(h.Records) == 0 || w.created.Load() == 0 {
		return h, errors.New("time a run: the workload never began")
	}
	// The guest flushes the drive as soon as it has created the file. How long it
	// took for that it has recorded itself.
	created := time.Unix(0, w.created.Load())
	took := time.Duration(h.Records[0].Latency())
	t.add(phaseMount, max(0, created.Sub(asked)-took))
	t.add(phaseCreate, took)
	t.add(phaseOps, cut.Sub(created))
	return h, nil
}

// untilCut asks for the workload and returns when the drive has stopped the world.
func (r *rig) untilCut(ctx context.Context, g *machine.Guest, p workload.Plan) error {
	ctx, cancel := context.WithCancel(ctx)
	talk := make(chan error, 1)
	go func() {
		talk <- g.Work(ctx, wire.Workload{Mount: r.mount(), Plan: p})
	}()
	select {
	case <-g.Drive().Stopped():
		cancel()
		<-talk // broken off
		return nil
	case err := <-talk:
		cancel()
		return g.Failure("run the workload", errors.Join(errors.New("it ended before the cut"), err))
	}
}

// timeRecovery lets a fresh guest recover a crash state.
func (r *rig) timeRecovery(ctx context.Context, state *crash.Image, p workload.Plan, t timings) (s verdict.Survivors, err error) {
	dir, err := os.MkdirTemp(r.folder, "recovery-")
	if err != nil {
		return s, fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log, err := blocklog.Create(filepath.Join(dir, blockLog), state.Media.Size())
	if err != nil {
		return s, err
	}
	defer log.Close()
	d := disk.New(disk.Config{Base: state.Media, Size: state.Media.Size(), Log: log, WriteCache: r.scenario.Drive.WriteCache})
	defer d.Close()
	begun := time.Now()
	g, err := r.machine.Fork(ctx, dir, d)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	t.add(phaseRefork, time.Since(begun))
	begun = time.Now()
	var content bytes.Buffer
	told, err := g.Recover(ctx, r.mount(), p, &content)
	if err == nil && told.Stage != "" {
		err = fmt.Errorf("%s: %s", told.Stage, told.Error)
	}
	if err != nil {
		return s, g.Failure("recover", err)
	}
	mounted := time.Duration(told.MountTime) // by the guest's clock
	t.add(phaseRecovery, mounted)
	t.add(phaseRead, max(0, time.Since(begun)-mounted))
	return verdict.Survivors{Exists: told.Exists, Size: told.Size, Data: verdict.Bytes(content.Bytes())}, nil
}

// judge does what a run does at its end. A run that breaks a promise is none to
// take times from.
func judge(h verdict.History, s verdict.Survivors, in trace.Input) error {
	result := verdict.Judge(h, s)
	if _, err := trace.Read(in); err != nil {
		return fmt.Errorf("read the block log: %w", err)
	}
	if result.Broken() {
		return fmt.Errorf("time a run: %d acknowledged ops were lost, which %s is not to do: see powercut run %s",
			result.Counts.Lost, scenarioName, scenarioName)
	}
	return nil
}
