package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"powercut/guest/ledger"
	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/machine"
	"powercut/harness/report"
	"powercut/harness/trace"
	"powercut/harness/verdict"
	"powercut/images"
	"powercut/scenarios"
)

// Past is a run that is over, as its folder tells of it.
type Past struct {
	Folder   string
	Scenario scenarios.Scenario
	Document report.Document // what was known before the first guest, and where the run is now
	Calls    []workload.Plan // of the calls that have a folder
}

// Open reads what a run folder says of the run as a whole.
func Open(folder string) (*Past, error) {
	list, err := scenarios.LoadFile(filepath.Join(folder, scenarioFile))
	if err != nil {
		return nil, fmt.Errorf("open run folder: %w", err)
	}
	p := &Past{Folder: folder, Scenario: list[0]} // a run's scenario is one: a matrix is spelled out before
	if err := readJSON(filepath.Join(folder, runFile), &p.Document); err != nil {
		return nil, fmt.Errorf("open run folder: %w", err)
	}
	if p.Document.Schema != report.Schema {
		return nil, fmt.Errorf("open run folder: %s has schema %q, this powercut reads %q", runFile, p.Document.Schema, report.Schema)
	}
	p.Document.Folder = folder // where it is now
	for _, plan := range p.Scenario.Plans(p.Document.Seed) {
		if blocklog.Exists(filepath.Join(folder, string(plan.Call), logFile)) {
			p.Calls = append(p.Calls, plan)
		}
	}
	return p, nil
}

// IsRun tells whether a folder is one of a run.
func IsRun(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, scenarioFile))
	return err == nil
}

// Base returns the path of the formatted disk that the run began with: made anew
// where the cache has it no more. It fails where that gives another disk, as it does
// with another version of mkfs, and for XFS and btrfs every time.
func (p *Past) Base(ctx context.Context) (string, error) {
	own := filepath.Join(p.Folder, BaseFile)
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	path, err := images.MakeFS(ctx, Format(p.Scenario))
	if err != nil {
		return "", err
	}
	digest, err := images.Digest(path)
	if want := p.Document.Filesystem.Digest; err == nil && want != "" && digest != want {
		err = fmt.Errorf("the formatted disk of this run is gone, and mkfs.%s makes another one now (digest %s, the run had %s)", p.Scenario.Filesystem.Type, digest, want)
	}
	return path, err
}

// PastCall is what the recording of one sync call left.
type PastCall struct {
	Plan    workload.Plan
	Folder  string
	Log     *blocklog.Log
	Damage  *blocklog.Damage // nil, or where the log ends before its time
	Records []ledger.Record
	Started uint64 // the op that had begun last at the cut
	// Cut is the position at which the power was cut. It is the end of the log where
	// the harness died before it could say so, and at a damage.
	Cut int

	past    *Past
	erred   int    // see firstError
	inPlace bool   // see verdict.History
	reason  string // of the cut; empty where the harness died before it could say
	drive   wire.FoundDrive
}

// salvageLog opens the block log of a scenario's drive as far as it is whole: see
// blocklog.Salvage.
func salvageLog(path string, d scenarios.Drive) (*blocklog.Log, *blocklog.Damage, error) {
	log, damage, err := blocklog.Salvage(path)
	if err == nil {
		log.Unit = int64(d.Sector)
	}
	return log, damage, err
}

// OpenLog opens the block log of a scenario's drive, all of which is to be there.
func OpenLog(path string, d scenarios.Drive) (*blocklog.Log, error) {
	log, damage, err := salvageLog(path, d)
	if err == nil && damage != nil {
		return nil, errors.Join(damage, log.Close())
	}
	return log, err
}

// Call opens the recording of one of the run's calls.
func (p *Past) Call(plan workload.Plan) (*PastCall, error) {
	c := &PastCall{Plan: plan, Folder: filepath.Join(p.Folder, string(plan.Call)), past: p}
	var cut cutPoint
	err := readJSON(filepath.Join(c.Folder, cutFile), &cut)
	if errors.Is(err, os.ErrNotExist) {
		cut.Position, err = -1, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	if c.Records, err = ledger.ReadFile(filepath.Join(c.Folder, ledgerFile)); err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	if c.Log, c.Damage, err = salvageLog(filepath.Join(c.Folder, logFile), p.Scenario.Drive); err != nil {
		return nil, err
	}
	c.erred, c.inPlace = firstError(c.Log.Events), inPlace(p.Scenario)
	c.Started, c.reason, c.drive = cut.Started, cut.Reason, cut.Drive
	if cut.Records > len(c.Records) {
		return nil, errors.Join(fmt.Errorf("open recording: %s has %d records, and %s says that there were %d", ledgerFile, len(c.Records), cutFile, cut.Records), c.Log.Close())
	}
	if c.Cut = cut.Position; c.Cut < 0 || c.Cut > len(c.Log.Events) {
		c.Cut = len(c.Log.Events)
	}
	if n := len(c.Log.Events); c.reason == "" && n > 0 { // the harness died before it could say
		c.Started = c.Log.Events[n-1].Started
	}
	return c, nil
}

// History is what the guest had done when the power went at a position, as the ledger
// told it to the event there, which did not happen any more; at the run's own cut, as
// it told in the end.
func (c *PastCall) History(at int) verdict.History {
	h := verdict.History{Plan: c.Plan, Records: c.Records, Started: c.Started, InPlace: c.inPlace}
	if at < c.Cut {
		e := c.Log.Events[at]
		h.Records, h.Started = c.Records[:min(e.Acked, uint64(len(c.Records)))], e.Started
	}
	noteError(&h, c.Log.Events, c.erred, at)
	if c.serial() {
		h.Started = uint64(c.Plan.Count) // see run.begun
	}
	return h
}

// Machine prepares guests like those of the run. It fails where their kernel or their
// modules would be others; of a kernel that the Lab names the release is compared.
func (l *Lab) Machine(ctx context.Context, p *Past) (*machine.Machine, error) {
	r := p.again(l)
	if err := r.prepareLike(ctx, p.Document.Machine, l.Kernel != "", false); err != nil {
		return nil, err
	}
	if was := p.Document.Machine.Release; r.machine.Greeting.Release != was {
		return nil, fmt.Errorf("prepare guest: the run's kernel was %s, and this one is %s", was, r.machine.Greeting.Release)
	}
	return r.machine, nil
}

// Mount is how the run's file system is checked and mounted after a cut.
func (p *Past) Mount() wire.Mount { return (&run{scenario: p.Scenario}).recoveryMount() }

// Past is the run.
func (c *PastCall) Past() *Past { return c.past }

// Files lists what a replay needs of the run folder, as paths below it; the formatted
// disk, BaseFile, is not among them.
func (c *PastCall) Files() []string {
	call := string(c.Plan.Call)
	log := logFile
	if _, err := os.Stat(filepath.Join(c.Folder, log)); err != nil {
		log += blocklog.Suffix
	}
	return []string{scenarioFile, runFile, filepath.Join(call, cutFile), filepath.Join(call, ledgerFile), filepath.Join(call, log)}
}

// Close closes the log.
func (c *PastCall) Close() error { return c.Log.Close() }

// Policy and seed are what the run's own cut did to the volatile writes.
func (c *PastCall) Policy() (crash.Policy, uint64) {
	return crash.Policy(c.past.Scenario.AtCut), c.Plan.Seed
}

// Trace reads the log up to the cut. base is the disk as it was formatted.
func (c *PastCall) Trace(base io.ReaderAt) (*trace.Trace, error) {
	return c.traceOf(c.Cut, c.Records, base)
}

// traceTo reads the log up to a position, with the ops that were over by then.
func (c *PastCall) traceTo(at int, base io.ReaderAt) (*trace.Trace, error) {
	return c.traceOf(at, c.History(at).Records, base)
}

func (c *PastCall) traceOf(at int, records []ledger.Record, base io.ReaderAt) (*trace.Trace, error) {
	lag := 0
	if c.serial() {
		lag = 1
	}
	return readTrace(c.past.Scenario, trace.Input{
		Events: c.Log.Events[:at], Payload: c.Log, Plan: c.Plan, Records: records, Base: base, Lag: lag,
	})
}

// readJSON reads a file of a run folder.
func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// CallNames lists the calls of the run, for a message.
func (p *Past) CallNames() string {
	var names []string
	for _, plan := range p.Calls {
		names = append(names, string(plan.Call))
	}
	return strings.Join(names, ", ")
}
