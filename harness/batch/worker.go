package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"powercut/harness/blocklog"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// worker is a forked guest that takes one disk after another.
type worker struct {
	stand  *campaign.Stand
	seed   uint64
	folder string // emptied with each fork

	base  *os.File
	bay   *bay
	log   *blocklog.Writer // of the disk in the bay; nil where it is complete
	path  string           // of that log
	guest *machine.Guest
	said  int64 // bytes of the console that belong to disks before
	disks int   // that were put in; it names their logs
}

// work carries out workloads until there are no more.
func (w *worker) work(ctx context.Context, jobs <-chan Outcome, done chan<- Outcome) (err error) {
	if w.base, err = os.Open(w.stand.Base); err != nil {
		return fmt.Errorf("open formatted disk: %w", err)
	}
	defer w.base.Close()
	defer func() { err = errors.Join(err, w.retire()) }()
	for out := range jobs {
		if err := w.carryOut(ctx, &out); err != nil {
			return fmt.Errorf("workload %d: %w", out.Number, err)
		}
		done <- out
	}
	return nil
}

// retire ends the guest.
func (w *worker) retire() error {
	if w.guest == nil {
		return nil
	}
	err := errors.Join(w.guest.Close(), w.finish())
	w.guest = nil
	return err
}

// hire forks a guest, where there is none, over an empty drive.
func (w *worker) hire(ctx context.Context) (err error) {
	if w.guest != nil {
		return nil
	}
	if err := errors.Join(os.RemoveAll(w.folder), os.MkdirAll(w.folder, 0o700)); err != nil {
		return fmt.Errorf("make folder of a worker: %w", err)
	}
	w.said, w.bay = 0, &bay{}
	if err := w.insert(func(log *blocklog.Writer) *disk.Drive { return w.stand.Honest(machine.Zeros{}, log) }); err != nil {
		return err
	}
	if w.guest, err = w.stand.Machine.Fork(ctx, w.folder, w.bay); err != nil {
		err = errors.Join(err, w.finish())
	}
	return err
}

// insert puts another disk into the guest's drive, with a log of its own.
func (w *worker) insert(newDrive func(*blocklog.Writer) *disk.Drive) error {
	w.disks++
	w.path = filepath.Join(w.folder, fmt.Sprintf("%d.log", w.disks))
	log, err := blocklog.Create(w.path, int64(w.stand.Scenario.Filesystem.Size))
	if err != nil {
		return err
	}
	w.bay.put(newDrive(log))
	err = w.finish()
	w.log = log
	return err
}

// finish completes the log of the disk that was in the drive last.
func (w *worker) finish() error {
	if w.log == nil {
		return nil
	}
	err := w.log.Close()
	w.log = nil
	return err
}

// console is what the guest's kernel says from now on.
func (w *worker) console() campaign.Console {
	c := campaign.Console{Path: w.guest.ConsolePath(), From: w.said}
	if info, err := os.Stat(c.Path); err == nil {
		c.From = info.Size()
	}
	w.said = c.From
	return c
}

// carryOut runs a workload and judges its states. An error is the harness's.
func (w *worker) carryOut(ctx context.Context, out *Outcome) (err error) {
	if err := w.hire(ctx); err != nil {
		return err
	}
	h := promise.History{Plan: w.stand.Plan(out.Ops, w.seed)}
	log, err := w.record(ctx, &h, out)
	if err != nil || log == nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for _, r := range h.Records {
		switch errno := unix.ErrnoName(unix.Errno(r.Errno)); {
		case r.Op == 0:
		case r.Errno != 0 && !out.Ops[r.Op-1].Allows(errno):
			out.Failed, out.Errno = int(r.Op), errno
		case r.Synced:
			if err := w.judge(ctx, h, log, int(r.Op), out); err != nil {
				return err
			}
		}
	}
	return nil
}

// record runs the plan of h on a fresh disk, and returns the log; nil where the guest
// did not come to the end.
func (w *worker) record(ctx context.Context, h *promise.History, out *Outcome) (*blocklog.Log, error) {
	memory, err := w.guest.Ledger()
	if err != nil {
		return nil, err
	}
	counts := func() (started, acked uint64) {
		acked = memory.Published() // before what has begun: see campaign's watch
		return memory.Started(), acked
	}
	if err := w.insert(func(log *blocklog.Writer) *disk.Drive { return w.stand.Drive(w.base, log, h.Plan.Seed, counts) }); err != nil {
		return nil, err
	}
	path := w.path
	console := w.console()
	limited, cancel := context.WithTimeout(ctx, w.stand.Scenario.Timeout)
	defer cancel()
	ask := w.stand.Workload(h.Plan)
	ask.Repeated = true
	if err := w.guest.Work(limited, ask); err != nil {
		return nil, w.died(ctx, limited, console, err, out)
	}
	w.bay.current().Stop("the workload has ended")
	if _, _, err := w.bay.current().Cut(); err != nil {
		return nil, err
	}
	if h.Records, err = memory.Take(); err == nil {
		err = w.finish()
	}
	if err != nil {
		return nil, err
	}
	h.Started = memory.Started()
	out.Trouble = console.Complaint()
	log, err := blocklog.Open(path)
	return log, errors.Join(err, os.Remove(path))
}

// died says why the guest did not come to the end of a workload, if that was its own
// kernel's doing.
func (w *worker) died(ctx, limited context.Context, console campaign.Console, err error, out *Outcome) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	v, err := campaign.Explain(limited, console, w.stand.Scenario.Timeout, err)
	out.Trouble = v.Detail
	return errors.Join(err, w.retire())
}

// judge has the state recovered that a cut right after op k left, and judges it.
func (w *worker) judge(ctx context.Context, h promise.History, log *blocklog.Log, k int, out *Outcome) error {
	at := ackOf(log, k)
	if at < len(log.Events) {
		e := log.Events[at]
		h.Records, h.Started = h.Records[:min(e.Acked, uint64(len(h.Records)))], e.Started
	}
	image, err := crash.Build(w.base, log, at, crash.Policy(w.stand.Scenario.AtCut), h.Plan.Seed)
	if err != nil {
		return err
	}
	state, err := w.recovered(ctx, h, image, k)
	if err == nil && state.Broken() {
		err = w.again(ctx, h, image, state)
	}
	if err != nil {
		return err
	}
	out.Unsupported = state.Result.Unsupported
	out.States = append(out.States, state)
	return nil
}

// again has a fresh guest recover a state that breaks a promise.
func (w *worker) again(ctx context.Context, h promise.History, image *crash.Image, was State) error {
	if err := errors.Join(w.retire(), w.hire(ctx)); err != nil {
		return err
	}
	now, err := w.recovered(ctx, h, image, was.Op)
	if err == nil && (now.Recovery.Class != was.Recovery.Class || now.Result.Counts != was.Result.Counts) {
		err = fmt.Errorf("judge the state after op %d: a guest that had recovered others found %s, %+v, and a fresh one %s, %+v; neither is to be believed",
			was.Op, was.Recovery.Class, was.Result.Counts, now.Recovery.Class, now.Result.Counts)
	}
	return err
}

// recovered has a guest recover a state, and judges it.
func (w *worker) recovered(ctx context.Context, h promise.History, image *crash.Image, k int) (State, error) {
	s := State{Op: k}
	if err := w.hire(ctx); err != nil {
		return s, err
	}
	if err := w.insert(func(log *blocklog.Writer) *disk.Drive { return w.stand.Honest(image.Media, log) }); err != nil {
		return s, err
	}
	path := w.path
	defer os.Remove(path)
	var found promise.Found
	var err error
	if s.Recovery, found, err = w.recover(ctx); err != nil {
		return s, err
	}
	s.Result, err = promise.Judge(h, w.stand.Profile(), found)
	return s, err
}

// recover has the guest recover what is in the drive. A guest that fails to is replaced.
func (w *worker) recover(ctx context.Context) (verdict.Recovery, promise.Found, error) {
	limited, cancel := context.WithTimeout(ctx, w.stand.Scenario.Timeout)
	defer cancel()
	console := w.console()
	v, found, err := w.stand.Recover(limited, w.guest, console)
	if _, _, broken := w.bay.current().Cut(); broken != nil {
		return v, found, broken
	}
	if err != nil {
		if ctx.Err() != nil {
			return v, found, ctx.Err()
		}
		v, err = campaign.Explain(limited, console, w.stand.Scenario.Timeout, err)
	}
	if v.Class != verdict.Recovered {
		err = errors.Join(err, w.retire())
	}
	return v, found, err
}

// ackOf is the first position by which op k had been acknowledged: the ledger's record
// of op 0 is the first.
func ackOf(log *blocklog.Log, k int) int {
	for i, e := range log.Events {
		if e.Acked > uint64(k) {
			return i
		}
	}
	return len(log.Events)
}
