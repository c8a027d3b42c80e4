package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// recording is what a workload and its cut left.
type recording struct {
	plan    workload.Plan
	folder  string // of the call, absolute
	base    *os.File
	log     *blocklog.Log // nil where the drive is an image file
	history verdict.History
	cut     cutPoint
	drive   wire.FoundDrive // as the guest took it when the workload began
}

func (r *recording) close() {
	if r.log != nil {
		r.log.Close()
	}
	r.base.Close()
}

// cutPoint says where the power went; it is kept in the call's folder.
type cutPoint struct {
	Reason   string `json:"reason"`
	Position int    `json:"position"`
	Started  uint64 `json:"started"` // the op that had begun last
	Records  int    `json:"records"` // in the ledger
	// Drive is the drive as the guest took it when the workload began.
	Drive wire.FoundDrive `json:"drive"`
	// HostWait is of the time from the workload's beginning to the cut the part in which
	// QEMU waited for a processor of this machine; nil where that is not known.
	HostWait *float64 `json:"host_wait,omitempty"`
}

// pollEvery is how often the ledger is looked at while the drive is at rest.
const pollEvery = time.Millisecond

// channelDeadline bounds the reading of what a dead guest has sent.
const channelDeadline = 30 * time.Second

// record runs the workload of p in a fork until the power is cut.
func (r *run) record(ctx context.Context, p workload.Plan) (_ *recording, err error) {
	rec := &recording{plan: p, folder: filepath.Join(r.folder, string(p.Call))}
	if err := os.Mkdir(rec.folder, 0o755); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if rec.base, err = os.Open(r.base); err != nil {
		return nil, fmt.Errorf("open formatted disk: %w", err)
	}
	if r.onFile() {
		err = r.recordOnFile(ctx, rec)
	} else if err = r.recordInto(ctx, rec); err == nil {
		rec.log, err = OpenLog(filepath.Join(rec.folder, logFile), r.scenario.Drive)
	}
	if err != nil {
		rec.base.Close()
		return nil, err
	}
	if rec.log != nil {
		noteError(&rec.history, rec.log.Events, firstError(rec.log.Events), rec.cut.Position)
	}
	return rec, nil
}

func (r *run) recordInto(ctx context.Context, rec *recording) error {
	ctx, cancel := context.WithTimeout(ctx, r.scenario.Timeout)
	defer cancel()
	log, err := blocklog.Create(filepath.Join(rec.folder, logFile), r.scenario.Filesystem.DriveSize())
	if err != nil {
		return err
	}
	defer log.Close()
	out, err := os.Create(filepath.Join(rec.folder, ledgerFile))
	if err != nil {
		return fmt.Errorf("create ledger: %w", err)
	}
	defer out.Close()
	w := &watch{trigger: newTrigger(r.scenario.Cut, rec.plan.Seed), out: out, now: log.Now, progress: r.lab.Progress}
	cfg := r.driveConfig(rec.base, log, rec.plan.Seed)
	cfg.Counts, cfg.Cut = w.counts, w.event
	d := disk.New(cfg)
	g, err := r.machine.ForkLogged(ctx, rec.folder, d, r.qemuLog())
	if err != nil {
		return err
	}
	defer g.Close()
	w.world = d
	if err := w.run(ctx, r, g, rec.plan); err != nil {
		return err
	}
	reason, position, err := d.Cut()
	if err != nil {
		return err
	}
	return rec.keep(r, w, reason, position)
}

// driveConfig is the scenario's drive, over that content.
func (r *run) driveConfig(base io.ReaderAt, log *blocklog.Writer, seed uint64) disk.Config {
	d := r.scenario.Drive
	return disk.Config{
		Base: base, Size: r.scenario.Filesystem.DriveSize(), Log: log,
		WriteCache: d.Volatile(), Unsafe: d.Cache.NoFlush(), Timing: Timing(d.Timing), Faults: faults(d.Faults), Seed: seed,
	}
}

// keep takes what the watch has seen until the cut.
func (rec *recording) keep(r *run, w *watch, reason string, position int) error {
	rec.drive = w.found()
	rec.history = verdict.History{Plan: rec.plan, Records: w.records, Started: r.begun(w), InPlace: inPlace(r.scenario)}
	started, _ := w.counts()
	rec.cut = cutPoint{
		Reason: reason, Position: position, Started: started, Records: len(w.records), Drive: rec.drive, HostWait: w.wait.share(),
	}
	return writeJSON(filepath.Join(rec.folder, cutFile), rec.cut)
}

// qemuLog is the file of QEMU's own log, or empty.
func (r *run) qemuLog() string {
	if r.lab.QEMULog {
		return QEMULogFile
	}
	return ""
}

// world is what stops at the cut.
type world interface {
	Stop(reason string)
	Stopped() <-chan struct{} // closed when it has stopped
}

// watch follows a workload by its ledger.
type watch struct {
	trigger  *trigger             // under the drive's lock, and mu
	out      *os.File             // the ledger file
	now      func() time.Duration // since the drive's log, or the watch, was begun
	world    world
	progress Progress

	mu      sync.Mutex // guards trigger
	memory  atomic.Pointer[ledger.Region]
	serial  serialCounts
	drive   atomic.Pointer[wire.FoundDrive] // as the guest took it when the workload began
	wait    hostWait
	records []ledger.Record // taken so far; for the goroutine of run
}

// serialCounts stand in for the ledger's counts where acks come over the control
// channel.
type serialCounts struct {
	started, acked atomic.Uint64
}

// counts are the ledger's, as of now.
func (w *watch) counts() (started, acked uint64) {
	if m := w.memory.Load(); m != nil {
		// The records are counted first: one published in between is then of an op
		// that is counted as begun.
		acked = m.Published()
		return m.Started(), acked
	}
	acked = w.serial.acked.Load()
	return w.serial.started.Load(), acked
}

// found is the drive as the guest took it; zero where the power went before it
// could tell.
func (w *watch) found() wire.FoundDrive {
	if d := w.drive.Load(); d != nil {
		return *d
	}
	return wire.FoundDrive{}
}

func (w *watch) event(position int, e *blocklog.Event) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trigger.event(position, e)
}

// run starts the workload and returns once the power is cut and the ledger is
// complete.
func (w *watch) run(ctx context.Context, r *run, g *machine.Guest, p workload.Plan) error {
	w.progress.Stage(fmt.Sprintf("%s: running", p.Call), p.Count)
	if !r.serial() {
		region, err := g.Ledger()
		if err != nil {
			return err
		}
		w.memory.Store(&region)
	}
	talk := make(chan error, 1) // closed after its one value, or none
	acks := make(chan ledger.Record, 1024)
	talking, hangUp := context.WithCancel(ctx)
	defer hangUp()
	go func() { defer close(talk); talk <- w.converse(talking, r, g, p, acks) }()
	err := w.follow(ctx, r, g, talk, acks)
	w.wait.end(g)
	if err := errors.Join(err, g.Kill()); err != nil {
		return err
	}
	return w.drain(talk, acks)
}

// drain takes what a dead guest has left behind: in memory, and on the way
// through the control channel, which ends once it is read to its end.
func (w *watch) drain(talk <-chan error, acks <-chan ledger.Record) error {
	late := time.After(channelDeadline)
	for {
		if err := w.take(acks); err != nil {
			return err
		}
		select {
		case <-talk:
			return w.take(acks)
		case r := <-acks:
			if err := w.add(r); err != nil {
				return err
			}
		case <-late:
			return fmt.Errorf("read the rest of the control channel: not done within %v", channelDeadline)
		}
	}
}

// workload is what the guest is asked to do.
func (r *run) workload(p workload.Plan) wire.Workload {
	s := r.scenario
	ask := wire.Workload{Mount: r.mount(), Plan: p, Serial: r.serial(), Cache: cacheSwitches(s.Guest), Queue: queueSwitches(s.Guest), Load: s.Workload.Load.Plan()}
	if r.isOps() {
		ask.Ops = []ops.Plan{s.OpsPlan(r.seed)}
	}
	return ask
}

// converse asks for the workload and listens until it ends.
func (w *watch) converse(ctx context.Context, r *run, g *machine.Guest, p workload.Plan, acks chan<- ledger.Record) error {
	return g.Ask(ctx, wire.Record, r.workload(p), func(f wire.Frame) (bool, error) {
		switch f.Type {
		case wire.RecordDone:
			return true, nil
		case wire.Mounted:
			var d wire.FoundDrive
			if err := f.Decode(&d); err != nil {
				return false, err
			}
			w.drive.Store(&d)
			w.wait.begin(g)
			return false, nil
		case wire.Begun:
			var s wire.Start
			if err := f.Decode(&s); err != nil {
				return false, err
			}
			w.serial.started.Store(s.Op)
			return false, nil
		case wire.Ack:
			var a wire.Acked
			if err := f.Decode(&a); err != nil {
				return false, err
			}
			select {
			case acks <- a.Record:
			case <-ctx.Done():
			}
			w.serial.acked.Add(1)
			return false, nil
		}
		return false, fmt.Errorf("record workload: unexpected message of type %d", f.Type)
	})
}

// follow takes records until the world has stopped, and fails where anything but
// the cut or the end of the workload ended it.
func (w *watch) follow(ctx context.Context, r *run, g *machine.Guest, talk <-chan error, acks <-chan ledger.Record) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.world.Stopped():
			return nil
		case err := <-talk:
			select {
			case <-w.world.Stopped():
				return nil // the guest's channel ended because the power was cut
			default:
			}
			if err != nil {
				return g.Failure("run the workload", r.late(w, err))
			}
			w.world.Stop("the workload had ended before the cut")
			return nil
		case <-ctx.Done():
			return g.Failure("run the workload", r.late(w, ctx.Err()))
		case <-tick.C:
			if err := w.poll(acks); err != nil {
				return err
			}
		}
	}
}

// late adds to an error for lack of time where the workload was.
func (r *run) late(w *watch, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	reached := "no op had begun"
	if started, _ := w.counts(); started > 0 {
		reached = fmt.Sprintf("the last op to begin was op %d", started)
		if list := r.scenario.Workload.Ops; started <= uint64(len(list)) {
			reached += ", " + list[started-1].String()
		}
	}
	return fmt.Errorf("timeout: %s is over; %s: %w", r.scenario.Timeout, reached, err)
}

// poll takes new records and asks the trigger.
func (w *watch) poll(acks <-chan ledger.Record) error {
	if err := w.take(acks); err != nil {
		return err
	}
	started, acked := w.counts()
	w.progress.Set(int(started))
	w.mu.Lock()
	reason, cut := w.trigger.poll(started, acked, w.now())
	w.mu.Unlock()
	if cut {
		w.world.Stop(reason)
	}
	return nil
}

// take moves new records from the ledger, or the control channel, to the file.
func (w *watch) take(acks <-chan ledger.Record) error {
	var fresh []ledger.Record
	if m := w.memory.Load(); m != nil {
		var err error
		if fresh, err = m.Take(); err != nil {
			return err
		}
	}
	for more := true; more; {
		select {
		case r := <-acks:
			fresh = append(fresh, r)
		default:
			more = false
		}
	}
	return w.add(fresh...)
}

// add keeps records, in memory and in the ledger file.
func (w *watch) add(fresh ...ledger.Record) error {
	w.records = append(w.records, fresh...)
	return ledger.Append(w.out, fresh)
}

// serial tells whether acks come over the control channel.
func (r *run) serial() bool {
	return r.lab.SerialLedger || r.machine.Greeting.Ledger != "memory"
}

// begun is the op that may have begun last. Where the guest tells it over the
// control channel its last word may have been lost, so any op may have begun.
func (r *run) begun(w *watch) uint64 {
	if r.serial() {
		return uint64(r.scenario.Workload.Count)
	}
	started, _ := w.counts()
	return started
}

// inPlace tells whether what the drive has answered stays, and data is overwritten
// where it lies.
func inPlace(s scenarios.Scenario) bool {
	return writesThrough(s.Drive) && overwritesInPlace(s.Filesystem, s.Workload.Size)
}

// overwritesInPlace tells whether a file system overwrites data of a file of that many bytes
// where it lies: not where it journals data, keeps that of small files with the metadata,
// copies on write (btrfs) or writes a log (f2fs, nilfs2).
func overwritesInPlace(fs scenarios.Filesystem, size scenarios.Size) bool {
	options := fs.Mount + " " + strings.Join(fs.Mkfs, " ")
	has := func(option string) bool { return strings.Contains(options, option) }
	switch fs.Type {
	case scenarios.Ext2, scenarios.Ext3, scenarios.Ext4:
		return !has("data=journal") && !has("journal_data") && !has("inline_data")
	case scenarios.Btrfs:
		const sector = 4096 // a smaller file may be in the tree
		return has("nodatacow") && size > sector
	case scenarios.XFS, scenarios.JFS:
		return true
	}
	return false
}

// mount is how the scenario's file system is checked and mounted.
func (r *run) mount() wire.Mount {
	fs := r.scenario.Filesystem
	return wire.Mount{Type: string(fs.Type), Options: fs.Mount, Check: needsCheck(fs)}
}

// recoveryMount is how that is done after the cut.
func (r *run) recoveryMount() wire.Mount {
	m := r.mount()
	if options := r.scenario.Filesystem.Recovery; options != "" {
		m.Options = options
	}
	return m
}

// cacheSwitches are what the guest does to the drive's cache, from the scenario's.
func cacheSwitches(g scenarios.Guest) wire.CacheSwitches {
	return wire.CacheSwitches{HdparmW: string(g.HdparmW), Kernel: string(g.WriteCache)}
}

// queueSwitches are what the guest does to the drive's queue, from the scenario's.
func queueSwitches(g scenarios.Guest) wire.QueueSwitches {
	return wire.QueueSwitches{NoMerges: g.NoMerges == scenarios.On, Scheduler: string(g.Scheduler)}
}

// faults are the drive's, from the scenario's.
func faults(list []scenarios.Fault) (out []disk.Fault) {
	for _, f := range list {
		out = append(out, disk.Fault(f))
	}
	return out
}
