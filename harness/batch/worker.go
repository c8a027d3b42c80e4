package batch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
	"powercut/guest/ops"
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
	stand    *campaign.Stand
	seed     uint64
	evidence func(Outcome) (string, error) // see Options
	folder   string                        // emptied with each fork

	base  *os.File
	bay   *bay
	log   *blocklog.Writer // of the disk in the bay; nil where it is complete
	guest *machine.Guest
	said  int64 // bytes of the console that belong to disks before
	disks int   // that were put in for recoveries; it names their logs
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
	if err := w.insert(w.passing(), func(log *blocklog.Writer) *disk.Drive { return w.stand.Honest(machine.Zeros{}, log) }); err != nil {
		return err
	}
	if w.guest, err = w.stand.Machine.Fork(ctx, w.folder, w.bay); err != nil {
		err = errors.Join(err, w.finish())
	}
	return err
}

// insert puts another disk into the guest's drive, with a log of its own.
func (w *worker) insert(path string, newDrive func(*blocklog.Writer) *disk.Drive) error {
	log, err := blocklog.Create(path, w.stand.Scenario.Filesystem.DriveSize())
	if err != nil {
		return err
	}
	w.bay.put(newDrive(log))
	err = w.finish()
	w.log = log
	return err
}

// passing is the path of a log that nobody will read.
func (w *worker) passing() string {
	w.disks++
	return filepath.Join(w.folder, fmt.Sprintf("%d.log", w.disks))
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
	plans := w.stand.Plans(out.Workload, w.seed)
	rec, err := w.record(ctx, plans, out)
	defer func() { err = errors.Join(err, rec.discard()) }()
	if err != nil {
		return err
	}
	if rec.ended {
		if err := w.judgeAll(ctx, plans, rec, out); err != nil {
			return err
		}
	}
	if w.evidence == nil || !out.Wrong() || out.Unsupported != nil {
		return nil
	}
	if out.Evidence, err = w.evidence(*out); err != nil || out.Evidence == "" {
		return err
	}
	return w.keep(rec, out)
}

// judgeAll judges the state at each ack.
func (w *worker) judgeAll(ctx context.Context, plans []ops.Plan, rec *recorded, out *Outcome) error {
	judged := -1 // the position of the last cut
	for n, r := range rec.records {
		thread, op := place(r, len(plans))
		at := publishedAt(rec.log, n)
		switch errno := unix.ErrnoName(unix.Errno(r.Errno)); {
		case op == 0:
		case r.Errno != 0 && !plans[thread-1].Ops[op-1].Allows(errno):
			out.Failed, out.Thread, out.Errno = int(op), thread, errno
		case r.Synced && at > judged: // or it is the same state, and no more was acknowledged
			judged = at
			if err := w.judge(ctx, plans, rec, at, out); err != nil || out.Unsupported != nil {
				return err
			}
		}
	}
	if out.Failed > 0 { // is it an op that kernel or file system do not know?
		return w.judge(ctx, plans, rec, len(rec.log.Events), out)
	}
	return nil
}

// place is the thread, from 1, and the op of a record of so many threads.
func place(r ledger.Record, threads int) (thread int, op uint64) {
	if threads == 1 {
		return 1, r.Op
	}
	return ops.Of(r.Op)
}

// recorded is what the guest that ran a workload left.
type recorded struct {
	ended   bool // or the guest did not come to the end
	path    string
	log     *blocklog.Log // of path
	records []ledger.Record
	console string // what the kernel said meanwhile
}

// discard removes the log.
func (r *recorded) discard() error {
	err := os.RemoveAll(r.path)
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	return err
}

// record runs plans on a fresh disk.
func (w *worker) record(ctx context.Context, plans []ops.Plan, out *Outcome) (*recorded, error) {
	rec := &recorded{path: w.folder + ".log"} // beside the folder, which goes with the guest
	memory, err := w.guest.Ledger()
	if err != nil {
		return rec, err
	}
	counts := func() (started, acked uint64) {
		acked = memory.Published() // before what has begun: see campaign's watch
		return memory.Started(), acked
	}
	drive := func(log *blocklog.Writer) *disk.Drive { return w.stand.Drive(w.base, log, plans[0].Seed, counts) }
	if err := w.insert(rec.path, drive); err != nil {
		return rec, err
	}
	console := w.console()
	limited, cancel := context.WithTimeout(ctx, w.stand.Scenario.Timeout)
	defer cancel()
	ask := w.stand.Workload(plans)
	ask.Repeated = true
	if err := w.guest.Work(limited, ask); err != nil {
		if err := w.died(ctx, limited, console, err, out); err != nil {
			return rec, err
		}
		rec.console = console.Text()
		return rec, rec.open(w)
	}
	w.bay.current().Stop("the workload has ended")
	if _, _, err := w.bay.current().Cut(); err != nil {
		return rec, err
	}
	if rec.records, err = memory.Take(); err != nil {
		return rec, err
	}
	rec.ended, rec.console, out.Trouble = true, console.Text(), console.Complaint()
	return rec, errors.Join(w.finish(), rec.open(w))
}

// open opens the log, which is complete.
func (r *recorded) open(w *worker) (err error) {
	r.log, err = campaign.OpenLog(r.path, w.stand.Scenario.Drive)
	return err
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

// judge has the state recovered that a cut at a position left, and judges each thread's
// tree.
func (w *worker) judge(ctx context.Context, plans []ops.Plan, rec *recorded, at int, out *Outcome) error {
	records := rec.records
	if at < len(rec.log.Events) {
		records = records[:min(rec.log.Events[at].Acked, uint64(len(records)))]
	}
	image, err := crash.Build(w.base, rec.log, at, crash.Policy(w.stand.Scenario.AtCut), plans[0].Seed)
	if err != nil {
		return err
	}
	histories := historiesOf(plans, records, campaign.RecordsUntilError(rec.log.Events[:at]))
	states, err := w.recovered(ctx, histories, image)
	if err == nil && slices.ContainsFunc(states, State.Broken) {
		err = w.again(ctx, histories, image, states)
	}
	if err != nil {
		return err
	}
	for _, s := range states {
		if out.Unsupported == nil {
			out.Unsupported = s.Result.Unsupported
		}
	}
	out.States = append(out.States, states...)
	return nil
}

// historiesOf are those of the threads, by the records that were there at a cut. The
// op after a thread's last record may have begun. From the record doubtful on the drive
// had an error in store.
func historiesOf(plans []ops.Plan, records []ledger.Record, doubtful uint64) []promise.History {
	out := make([]promise.History, len(plans))
	for i, p := range plans {
		out[i] = promise.History{Plan: p, Started: min(1, uint64(len(p.Ops))), Erred: doubtful < math.MaxUint64}
	}
	for i, r := range records {
		thread, op := place(r, len(plans))
		h := &out[thread-1]
		if uint64(i) >= doubtful {
			h.Doubtful++
		}
		r.Op = op
		h.Records = append(h.Records, r)
		h.Started = min(op+1, uint64(len(h.Plan.Ops)))
	}
	return out
}

// again has a fresh guest recover a state that breaks a promise.
func (w *worker) again(ctx context.Context, histories []promise.History, image *crash.Image, before []State) error {
	if err := errors.Join(w.retire(), w.hire(ctx)); err != nil {
		return err
	}
	states, err := w.recovered(ctx, histories, image)
	for i := range states {
		was, now := before[i], states[i]
		if err == nil && (now.Recovery.Class != was.Recovery.Class || now.Result.Counts != was.Result.Counts) {
			err = fmt.Errorf("judge the state after op %d: a guest that had recovered others found %s, %+v, and a fresh one %s, %+v; neither is to be believed",
				was.Op, was.Recovery.Class, was.Result.Counts, now.Recovery.Class, now.Result.Counts)
		}
	}
	return err
}

// recovered has a guest recover a state, and judges it for each thread.
func (w *worker) recovered(ctx context.Context, histories []promise.History, image *crash.Image) ([]State, error) {
	if err := w.hire(ctx); err != nil {
		return nil, err
	}
	path := w.passing()
	defer os.Remove(path)
	if err := w.insert(path, func(log *blocklog.Writer) *disk.Drive { return w.stand.Honest(image.Media, log) }); err != nil {
		return nil, err
	}
	recovery, found, err := w.recover(ctx)
	if err != nil {
		return nil, err
	}
	var out []State
	for i, h := range histories {
		s := State{Thread: i + 1, Recovery: recovery, tree: found.Tree}
		if n := len(h.Records); n > 0 {
			s.Op = int(h.Records[n-1].Op)
		}
		part := found
		if len(histories) > 1 {
			part.Tree = found.Tree.Below(ops.ThreadDir(i + 1))
		}
		if recovery.Class == verdict.Recovered {
			s.Result, err = promise.Judge(h, w.stand.Profile(), part)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
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
	if v.Class != verdict.Recovered || found.Warned() {
		err = errors.Join(err, w.retire())
	}
	return v, found, err
}

// publishedAt is the first position by which the ledger's record n, counted from 0, was
// there.
func publishedAt(log *blocklog.Log, n int) int {
	for i, e := range log.Events {
		if e.Acked > uint64(n) {
			return i
		}
	}
	return len(log.Events)
}
