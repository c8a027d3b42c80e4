// Package campaign turns a scenario into a run: it records a workload until the
// power is cut, recovers what the drive held, judges what survived, and keeps all
// of it in a run folder.
//
// The stages meet only in data: record leaves a block log and a ledger, package
// crash makes a drive's content of them, recovery reads a file from it, and
// verdict and trace say what all that means.
package campaign

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/machine"
	"powercut/harness/qemu"
	"powercut/harness/report"
	"powercut/images"
	"powercut/scenarios"
)

// Progress is told what a run is doing.
type Progress interface {
	// Stage begins a stage of that many steps; 0 where the number is not known.
	Stage(text string, total int)
	// Set says how many of its steps are done.
	Set(n int)
}

// Silent is a Progress that nobody looks at.
type Silent struct{}

// Stage implements Progress.
func (Silent) Stage(string, int) {}

// Set implements Progress.
func (Silent) Set(int) {}

// Lab runs scenarios. It keeps what runs have in common. A Lab is for one
// goroutine.
type Lab struct {
	Runs   string // folder for run folders
	Binary string // this program, which is the guest's agent too
	QEMU   string // empty: from PATH
	// Kernel is an image of the user's own, in place of the scenario's kernel, and
	// Modules its modules; empty: the scenario's.
	Kernel, Modules string
	// ModuleFiles are modules of the user's own, each in place of the kernel's.
	ModuleFiles []string
	// Params are added to the guest kernel's command line.
	Params []string
	// SerialLedger sends the ledger over the control channel even where the guest
	// can share memory.
	SerialLedger bool
	// QEMULog lets QEMU log the writes too, by a driver of its own, into QEMULogFile
	// in the call's folder.
	QEMULog  bool
	Progress Progress

	machines map[string]*machine.Machine
}

// run is one run of a scenario.
type run struct {
	lab      *Lab
	scenario scenarios.Scenario
	seed     uint64
	machine  *machine.Machine
	base     string // path of the formatted disk
	digest   string // of that disk
	folder   string // absolute
}

// Run runs a scenario. An error means that the harness could not do it; what the
// run found is in the document, whatever it is.
func (l *Lab) Run(ctx context.Context, s scenarios.Scenario, seed uint64) (*report.Document, error) {
	begun := time.Now()
	r := &run{lab: l, scenario: s, seed: seed}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	doc, err := r.begin(begun)
	if err != nil {
		return nil, err
	}
	for _, plan := range s.Plans(seed) {
		c, err := r.call(ctx, plan)
		if err != nil {
			return nil, fmt.Errorf("run %s, %s: %w\n  evidence: %s", s.Name, plan.Call, err, r.folder)
		}
		c.Figure = figure(s.Figures, plan.Call, c.Latency)
		doc.Calls = append(doc.Calls, *c)
	}
	doc.Drive.Seen = seenInAll(doc.Calls)
	if doc.Expectations = notSupported(doc.Calls); doc.Expectations == nil {
		doc.Expectations = judgeExpectations(s.Expect, s.Workload.Calls, doc.Calls)
	}
	doc.Held = true
	for _, e := range doc.Expectations {
		doc.Held = doc.Held && e.Held
	}
	doc.Elapsed = time.Since(begun).Seconds()
	return doc, r.finish(doc)
}

// prepare gets kernel, disk and machine.
func (r *run) prepare(ctx context.Context) (err error) {
	r.lab.Progress.Stage("kernel "+r.kernelName(), 0)
	k, err := r.kernel(ctx)
	if err != nil {
		return err
	}
	r.lab.Progress.Stage("formatting the disk", 0)
	if r.base, err = images.MakeFS(ctx, Format(r.scenario)); err != nil {
		return err
	}
	if r.digest, err = images.Digest(r.base); err != nil {
		return err
	}
	r.machine, err = r.lab.prepared(ctx, r.spec(k))
	return err
}

// spec is the machine for the scenario's guests.
func (r *run) spec(k images.Kernel) machine.Spec {
	fs := r.scenario.Filesystem
	return machine.Spec{
		Kernel: k, Binary: r.lab.Binary, QEMU: r.lab.QEMU,
		Memory: int64(r.scenario.Guest.Memory), DriveSize: int64(fs.Size), Second: int64(fs.ExternalJournal),
		Bus: qemu.Bus(r.scenario.Drive.Bus), WriteCache: r.scenario.Drive.WriteCache,
		Direct: r.scenario.Drive.Cache.Direct(), NoFlush: r.scenario.Drive.Cache.NoFlush(),
		Modules: guestModules(r.scenario), Fsck: checker(fs), Params: r.lab.Params,
	}
}

// guestModules are the kernel modules that the scenario's guest needs.
func guestModules(s scenarios.Scenario) []string {
	list := []string{images.Module(string(s.Filesystem.Type))}
	if m := s.Guest.Scheduler.Module(); m != "" {
		list = append(list, m)
	}
	return list
}

// Format is how the scenario's disk is formatted.
func Format(s scenarios.Scenario) images.Format {
	fs := s.Filesystem
	return images.Format{Type: string(fs.Type), Size: int64(fs.Size), Options: fs.Mkfs, Journal: int64(fs.ExternalJournal)}
}

func (r *run) kernelName() string {
	if r.lab.Kernel != "" {
		return r.lab.Kernel
	}
	return r.scenario.Kernel
}

// kernel gets the kernel, with the modules that are to be in place of its own.
func (r *run) kernel(ctx context.Context) (images.Kernel, error) {
	k, err := r.stockKernel(ctx)
	if err != nil {
		return k, err
	}
	if name := string(r.scenario.Guest.Module); name != "" {
		k, err = k.WithVariant(ctx, name, func(text string) { r.lab.Progress.Stage(text, 0) })
	}
	for _, file := range r.lab.ModuleFiles {
		if err == nil {
			k, err = k.WithModule(file)
		}
	}
	return k, err
}

func (r *run) stockKernel(ctx context.Context) (images.Kernel, error) {
	if r.lab.Kernel != "" || strings.Contains(r.scenario.Kernel, "/") {
		return images.Local(ctx, r.kernelName(), r.lab.Modules)
	}
	return images.Fetch(ctx, r.scenario.Kernel)
}

// prepared returns the machine of that spec, made once.
func (l *Lab) prepared(ctx context.Context, s machine.Spec) (*machine.Machine, error) {
	key := fmt.Sprintf("%+v", s)
	if m := l.machines[key]; m != nil {
		return m, nil
	}
	l.Progress.Stage("guest", 0)
	m, err := machine.Prepare(ctx, s, func(text string) { l.Progress.Stage(text, 0) })
	if err != nil {
		return nil, err
	}
	if l.machines == nil {
		l.machines = map[string]*machine.Machine{}
	}
	l.machines[key] = m
	return m, nil
}

// call records, recovers and judges one sync call.
func (r *run) call(ctx context.Context, p workload.Plan) (*report.Call, error) {
	rec, err := r.record(ctx, p)
	if err != nil {
		return nil, err
	}
	defer rec.close()
	if r.onFile() {
		return r.judgeFile(ctx, rec)
	}
	state, err := r.crashState(rec)
	if err != nil {
		return nil, err
	}
	c, err := r.check(ctx, rec, state)
	if err != nil {
		return nil, err
	}
	return c, compress(rec, c)
}

// check recovers a crash state and judges it.
func (r *run) check(ctx context.Context, rec *recording, state *crash.Image) (*report.Call, error) {
	if r.isOps() {
		return r.judgeOps(ctx, rec, state)
	}
	back, err := r.recover(ctx, rec, state)
	if err != nil {
		return nil, err
	}
	return r.judge(rec, state, back)
}

// compress replaces the logs of a call that is done with by compressed ones.
func compress(rec *recording, c *report.Call) error {
	for _, e := range rec.log.Events {
		if e.DataAt != 0 {
			c.Log.Payload += e.Length
		}
	}
	sizes, err := blocklog.Compress(filepath.Join(rec.folder, logFile))
	if err != nil {
		return err
	}
	c.Log.Plain, c.Log.Compressed = sizes.Plain, sizes.Compressed
	_, err = blocklog.Compress(filepath.Join(rec.folder, recoveryFolder, logFile))
	return err
}
