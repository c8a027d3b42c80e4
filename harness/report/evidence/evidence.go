// Package evidence gathers what a run folder holds of a run: the report, and of each
// sync call the ops with their verdicts, times and requests. It repeats the reading
// of the block log, and needs no guest.
package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"powercut/guest/ledger"
	"powercut/guest/workload"
	"powercut/harness/campaign"
	"powercut/harness/explore"
	"powercut/harness/report"
	"powercut/harness/trace"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// Run is what a folder tells of a run.
type Run struct {
	Document *report.Document
	Scenario scenarios.Scenario
	Text     string // the scenario as resolved, in YAML
	Calls    []*Call
}

// Call is what it tells of one sync call.
type Call struct {
	*report.Call
	Ops      []Op            // those that had begun, from op 1 on
	Objects  []Object        // of a workload of ops: all that was found, and that is missing; nil where nothing was read back
	Requests []trace.Request // Requests[i] has the number i+1; nil where the drive was an image file, which keeps no log
	CutTime  time.Duration   // since the log was begun: the time of its last event
	Console  []string        // of the guest that was cut, the last lines
	Fresh    []string        // of the guest that recovered, the last lines
	Explored *explore.Report // what powercut explore has found; nil: it was not asked
	Damage   string          // where the log ends before its time; empty: nowhere
}

// Name names the sync call.
func (c *Call) Name() string { return c.Call.Call }

// Op is one op of a workload.
type Op struct {
	Number  int
	Text    string // of a workload of ops: the op as the scenario has it
	Extent  workload.Extent
	Acked   bool
	Failed  bool          // its write or sync call returned an error
	Class   verdict.Class // empty where nothing was read back
	Latency time.Duration // on the guest's clock, write and sync call; 0 where it never ended
	Sync    time.Duration // the sync call alone
	// Begin and End are on the clock of the log. The order of an op and the requests is
	// exact; where between two events it began and ended is estimated from the guest's
	// clock. End is the cut where the op never ended. Both are 0 without a log.
	Begin, End time.Duration
	Over       bool  // it ended before the cut
	Requests   []int // indices of the requests that arrived while it ran
	Bill       Bill
}

// Bill is what one op cost, in requests that arrived while it ran.
type Bill struct{ Data, Journal, Other, Flush int }

// Latencies are those of the acknowledged ops, in nanoseconds and in their order.
func (c *Call) Latencies() []int64 {
	var ns []int64
	for _, o := range c.Ops {
		if o.Acked {
			ns = append(ns, int64(o.Latency))
		}
	}
	return ns
}

// Latencies reads those of the acknowledged ops of one call from its ledger.
func Latencies(d *report.Document, c report.Call) ([]int64, error) {
	records, err := ledger.ReadFile(filepath.Join(d.Folder, c.Folder, "ledger"))
	if err != nil {
		return nil, err
	}
	var ns []int64
	for _, r := range records {
		if r.Op > 0 && r.Synced && r.Errno == 0 {
			ns = append(ns, r.Latency())
		}
	}
	return ns, nil
}

// Open gathers what the folder of a finished run holds.
func Open(ctx context.Context, folder string) (*Run, error) {
	stored, err := report.Read(folder)
	if err != nil {
		return nil, err
	}
	past, err := campaign.Open(folder)
	if err != nil {
		return nil, err
	}
	if len(stored.Runs) != 1 {
		return nil, fmt.Errorf("open run folder: %s holds %d reports", folder, len(stored.Runs))
	}
	text, err := os.ReadFile(filepath.Join(folder, "scenario.yaml"))
	if err != nil {
		return nil, fmt.Errorf("open run folder: %w", err)
	}
	r := &Run{Document: stored.Runs[0], Scenario: past.Scenario, Text: string(text)}
	for i := range r.Document.Calls {
		c := &r.Document.Calls[i]
		got, err := open(ctx, past, c)
		if err != nil {
			return nil, fmt.Errorf("open evidence of %s: %w", c.Call, err)
		}
		r.Calls = append(r.Calls, got)
	}
	return r, nil
}

func open(ctx context.Context, past *campaign.Past, c *report.Call) (*Call, error) {
	out := &Call{Call: c}
	dir := filepath.Join(past.Folder, c.Folder)
	var err error
	if out.Console, err = tail(filepath.Join(dir, "console.txt")); err != nil {
		return nil, err
	}
	if out.Fresh, err = tail(filepath.Join(dir, "recovery", "console.txt")); err != nil {
		return nil, err
	}
	if out.Explored, err = readExplored(dir); err != nil {
		return nil, err
	}
	records, err := ledger.ReadFile(filepath.Join(dir, "ledger"))
	if err != nil {
		return nil, err
	}
	if c.Tree != nil {
		err = out.tree(dir, past.Scenario.OpsPlan(past.Document.Seed), records)
	} else {
		err = out.file(dir, records)
	}
	if err != nil {
		return nil, err
	}
	for _, plan := range past.Calls {
		if string(plan.Call) == c.Folder {
			return out, out.log(ctx, past, plan)
		}
	}
	return out, nil
}

// readJSON reads a file of the run folder.
func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// file makes the ops on one file, of verdicts and records.
func (c *Call) file(dir string, records []ledger.Record) error {
	var result verdict.Result
	if err := readJSON(filepath.Join(dir, "verdict.json"), &result); err != nil {
		return err
	}
	for _, v := range result.Ops {
		o := Op{Number: v.Op, Extent: v.Extent, Acked: v.Acked}
		if c.Recovery.Class == verdict.Recovered {
			o.Class = v.Class
		}
		c.Ops = append(c.Ops, o)
	}
	c.timed(records)
	return nil
}

// timed adds what the ledger says of the ops.
func (c *Call) timed(records []ledger.Record) {
	for _, r := range records {
		if r.Op == 0 || r.Op > uint64(len(c.Ops)) {
			continue
		}
		o := &c.Ops[r.Op-1]
		o.Over, o.Failed = true, r.Errno != 0
		o.Latency, o.Sync = time.Duration(r.Latency()), time.Duration(r.SyncLatency())
	}
}

// log adds what the block log says.
func (c *Call) log(ctx context.Context, past *campaign.Past, plan workload.Plan) error {
	rec, err := past.Call(plan)
	if err != nil {
		return err
	}
	defer rec.Close()
	if rec.Damage != nil {
		c.Damage = rec.Damage.Error()
	}
	path, err := past.Base(ctx)
	if err != nil {
		return err
	}
	base, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open base image: %w", err)
	}
	defer base.Close()
	t, err := rec.Trace(base)
	if err != nil {
		return err
	}
	c.Requests = t.Requests
	for i, r := range c.Requests {
		if r.During > 0 && r.During <= len(c.Ops) {
			c.Ops[r.During-1].add(i, r)
		}
	}
	events := rec.Log.Events[:rec.Cut]
	if len(events) > 0 {
		c.CutTime = events[len(events)-1].Time
	}
	place(c.Ops, events, rec.Records)
	return nil
}

// add notes a request that arrived while the op ran.
func (o *Op) add(i int, r trace.Request) {
	o.Requests = append(o.Requests, i)
	switch r.Class {
	case trace.Data:
		o.Bill.Data++
	case trace.Journal:
		o.Bill.Journal++
	case trace.Metadata:
		o.Bill.Other++
	case trace.Flush:
		o.Bill.Flush++
	}
}

// tailLines is how much of a console is shown.
const tailLines = 80

// tail reads the last lines of a file; one that is not there has none.
func tail(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read console: %w", err)
	}
	return lastLines(string(b), tailLines), nil
}
