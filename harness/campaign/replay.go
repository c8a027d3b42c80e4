package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"powercut/guest/wire"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/internal/room"
	"powercut/harness/machine"
	"powercut/harness/report"
)

// debianPrefix begins the names of the kernels that Debian ships.
const debianPrefix = "debian:"

// Replay recovers crash states of a recording that is there already, each in a fresh
// guest, and judges them as a run judges its own. It is for one goroutine. Close it.
type Replay struct {
	// Document says what the recording was made on, but of the machine what it is
	// replayed on. It has no calls.
	Document report.Document

	run     *run
	past    *PastCall
	base    *os.File
	builder *crash.Builder
	folder  string // of the recoveries; removed by Close
}

// Replay makes ready for a recording. Where the Lab names no kernel it takes the very
// kernel and modules of the recording, and fails where they are not to be had.
func (l *Lab) Replay(ctx context.Context, c *PastCall, shell bool) (_ *Replay, err error) {
	p := &Replay{past: c, run: c.past.again(l)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("replay recording: %w", err)
	}
	if p.run.base, err = c.past.Base(ctx); err != nil {
		return nil, err
	}
	if p.base, err = os.Open(p.run.base); err != nil {
		return nil, fmt.Errorf("open formatted disk: %w", err)
	}
	if p.folder, err = os.MkdirTemp("", "powercut-replay-"); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	p.builder = crash.NewBuilder(p.base, c.Log)
	if err := p.run.prepareLike(ctx, c.past.Document.Machine, l.Kernel != "", shell); err != nil {
		return nil, fmt.Errorf("replay recording: %w", err)
	}
	p.Document = *p.run.document()
	p.Document.Folder = c.past.Folder
	return p, nil
}

// again is the run once more, with what the lab wants to be otherwise.
func (p *Past) again(l *Lab) *run {
	lab, was := *l, p.Document.Machine
	r := &run{lab: &lab, scenario: p.Scenario, seed: p.Document.Seed, digest: p.Document.Filesystem.Digest, folder: p.Folder}
	lab.SerialLedger = was.Ledger == report.LedgerSerial
	lab.Params = slices.Concat(was.Params, l.Params)
	switch {
	case strings.HasPrefix(l.Kernel, debianPrefix):
		r.scenario.Kernel, lab.Kernel = l.Kernel, ""
	case l.Kernel == "" && was.Kernel != r.scenario.Kernel:
		lab.Kernel, lab.Modules = was.Kernel, was.ModulesFrom
	}
	for _, m := range was.Modules {
		if m.Variant == "" && l.Kernel == "" && len(l.ModuleFiles) == 0 {
			lab.ModuleFiles = append(lab.ModuleFiles, m.Path)
		}
	}
	return r
}

// prepareLike gets kernel and machine: those of a recording, unless another kernel was
// asked for.
func (r *run) prepareLike(ctx context.Context, was report.Machine, other, shell bool) error {
	if err := room.Memory(int64(r.scenario.Guest.Memory)); err != nil {
		return err
	}
	r.lab.Progress.Stage("kernel "+r.kernelName(), 0)
	k, err := r.kernel(ctx)
	if err != nil {
		return err
	}
	if !other && was.KernelID != "" && k.ID != was.KernelID {
		return &KernelError{Want: named(was.KernelID, was.Package), Got: named(k.ID, k.Package)}
	}
	spec := r.spec(k)
	spec.Shell = shell
	if r.machine, err = r.lab.prepared(ctx, spec); err != nil {
		return err
	}
	if other || was.KernelID == "" {
		return nil
	}
	for _, m := range was.Loaded {
		name, _, _ := strings.Cut(m, "=")
		if !slices.Contains(r.machine.Loads, m) && !isVariant(was, name) {
			return &KernelError{Want: "module " + m, Got: strings.Join(r.machine.Loads, " ")}
		}
	}
	return nil
}

// isVariant tells whether a module is one of powercut's own, which is built on each
// machine, of the same source.
func isVariant(m report.Machine, name string) bool {
	return slices.ContainsFunc(m.Modules, func(m report.Module) bool { return m.Name == name && m.Variant != "" })
}

// KernelError says that the kernel of a recording, or a module of it, is not to be had.
type KernelError struct{ Want, Got string }

func (e *KernelError) Error() string {
	return fmt.Sprintf("the recording was made with %s, which is not to be had here: there is %s; give the right kernel with --kernel and --modules, or another one to see what that makes of the state", e.Want, e.Got)
}

// named adds the package to a kernel's identity.
func named(id, pkg string) string {
	if pkg == "" {
		return "kernel " + id
	}
	return fmt.Sprintf("kernel %s (package %s)", id, pkg)
}

// Close removes what the replay has made.
func (p *Replay) Close() error {
	var err error
	if p.base != nil {
		err = p.base.Close()
	}
	if p.folder != "" {
		err = errors.Join(err, os.RemoveAll(p.folder))
	}
	return err
}

// Build returns the content of a state. It fails where the state is none of the
// recording.
func (p *Replay) Build(s crash.State) (*crash.Image, error) { return p.builder.Build(s) }

// Check lets a fresh guest recover a state, and judges what survived. An error means
// that the harness could not do it; its evidence is then kept, unless ctx is done.
func (p *Replay) Check(ctx context.Context, s crash.State) (*report.Call, error) {
	image, err := p.builder.Build(s)
	if err != nil {
		return nil, err
	}
	rec, err := p.recording(s)
	if err != nil {
		return nil, err
	}
	c, err := p.run.check(ctx, rec, image)
	if err != nil && ctx.Err() != nil {
		return nil, err // who is interrupted asks for no evidence
	}
	if err != nil {
		evidence := rec.folder
		p.folder = "" // is kept
		return nil, fmt.Errorf("replay state %s: %w\n  evidence: %s", s, err, evidence)
	}
	return c, os.RemoveAll(rec.folder)
}

// shellLimit bounds a session: a shell that somebody has forgotten ends some day.
const shellLimit = 12 * time.Hour

// Shell lets a fresh guest recover a state and somebody look around in it. The replay
// was made for a shell. What the session changes is gone after it.
func (p *Replay) Shell(ctx context.Context, s crash.State, session wire.Session, t machine.Terminal) (err error) {
	ctx, cancel := context.WithTimeout(ctx, shellLimit)
	defer cancel()
	image, err := p.builder.Build(s)
	if err != nil {
		return err
	}
	rec, err := p.recording(s)
	if err != nil {
		return err
	}
	log, err := blocklog.Create(filepath.Join(rec.folder, logFile), image.Media.Size())
	if err != nil {
		return err
	}
	defer log.Close()
	g, err := p.run.machine.Fork(ctx, rec.folder, p.run.honest(image, log))
	if err != nil {
		return err
	}
	session.Mount = p.run.recoveryMount()
	return errors.Join(g.Shell(ctx, session, t), g.Close())
}

// recording is the past one as it would be if the power had been cut at the state's
// cut, in a folder of its own.
func (p *Replay) recording(s crash.State) (*recording, error) {
	rec := &recording{
		plan: p.past.Plan, folder: filepath.Join(p.folder, string(p.past.Plan.Call)), base: p.base, log: p.past.Log,
		history: p.past.History(s.Cut), drive: p.past.drive,
	}
	rec.cut = cutPoint{Reason: p.past.reason, Position: s.Cut, Started: rec.history.Started, Records: len(rec.history.Records)}
	if s.Cut != p.past.Cut {
		rec.cut.Reason = "as asked for"
	}
	if err := os.Mkdir(rec.folder, 0o755); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	return rec, nil
}

// complete says why states of the recording cannot be judged, if that is so.
func (c *PastCall) complete() error {
	switch {
	case c.Damage != nil:
		return c.Damage
	case c.reason == "":
		return errors.New("the run did not come to its cut: it has no " + cutFile)
	}
	return nil
}

// Complete tells whether the recording can be replayed: the harness did not die before it could
// say where the cut was.
func (c *PastCall) Complete() bool { return c.complete() == nil }

func (c *PastCall) serial() bool { return c.past.Document.Machine.Ledger == report.LedgerSerial }

// OwnState is the state that the run itself recovered.
func (c *PastCall) OwnState() (crash.State, error) {
	policy, seed := c.Policy()
	return crash.Choose(c.Log, c.Cut, policy, seed)
}

// OwnVerdict is what the run found of it, if the run came to its end.
func (c *PastCall) OwnVerdict() (*report.Call, error) {
	var doc report.Document
	if err := readJSON(filepath.Join(c.past.Folder, reportFile), &doc); err != nil {
		return nil, err
	}
	for i := range doc.Calls {
		if doc.Calls[i].Call == string(c.Plan.Call) {
			return &doc.Calls[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no call %s", reportFile, c.Plan.Call)
}
