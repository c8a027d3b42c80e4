package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"powercut/guest/inspect"
	"powercut/guest/ops"
	"powercut/guest/wire"
	"powercut/harness/crash"
	"powercut/harness/machine"
	"powercut/harness/promise"
	"powercut/harness/report"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// The files that keep the recovered tree: what Tree is as JSON, and its Data.
const (
	treeFile = "tree.json"
	dataFile = "tree.data"
)

// isOps tells whether the workload is one of ops.
func (r *run) isOps() bool { return r.scenario.Workload.Kind == scenarios.OpsKind }

// judgeOps lets a fresh guest recover what the cut left, and holds the tree that it
// finds against what the ops promised.
func (r *run) judgeOps(ctx context.Context, rec *recording, state *crash.Image) (*report.Call, error) {
	back, err := r.recoverWith(ctx, rec, state, r.readTree)
	if err != nil {
		return nil, err
	}
	c, _, err := r.unjudged(rec, state, back)
	if err != nil {
		return nil, err
	}
	result, err := promise.Judge(r.opsHistory(rec), r.profile(), back.found)
	if err != nil {
		return nil, err
	}
	if back.verdict.Class != verdict.Recovered { // nothing is known of anything but what was done
		result = promise.Result{Findings: []promise.Finding{}, Counts: promise.Counts{Ops: result.Counts.Ops, Syncs: result.Counts.Syncs, Failed: result.Counts.Failed}, Unsupported: result.Unsupported}
	}
	if r.dropsFUA(c.Seen) && (result.Broken() || back.verdict.Class != verdict.Recovered) {
		return nil, r.fuaDropped()
	}
	c.Tree = &result
	c.Counts = OpsCounts(result)
	c.Cut.Acked = uint64(c.Counts.Acked)
	return c, errors.Join(writeJSON(filepath.Join(rec.folder, verdictFile), result), keepTree(rec, back))
}

// OpsCounts is what a verdict on a tree comes to, as that on a file is counted.
func OpsCounts(r promise.Result) verdict.Counts {
	return verdict.Counts{Ops: r.Counts.Ops, Acked: r.Counts.Syncs, Lost: r.Counts.Lost, Unpromised: r.Counts.Undone, Failed: r.Counts.Failed, Foreign: foreignFiles(r)}
}

// opsHistory is what the guest did.
func (r *run) opsHistory(rec *recording) promise.History {
	return opsHistory(r.scenario.OpsPlan(r.seed), rec.history)
}

func opsHistory(p ops.Plan, was verdict.History) promise.History {
	return promise.History{Plan: p, Records: was.Records, Started: was.Started, Doubtful: was.Doubtful, Erred: was.Erred}
}

// profile is what the scenario's file system is known to do.
func (r *run) profile() promise.Profile { return profileOf(r.scenario) }

func profileOf(s scenarios.Scenario) promise.Profile {
	return promise.ProfileOf(string(s.Filesystem.Type), s.Filesystem.Mkfs, s.Filesystem.Mount)
}

// Ops are those of a workload of ops; of another there are none.
func (c *PastCall) Ops() []ops.Op { return c.past.Scenario.Workload.Ops }

// OpsHistory is what History says, of a workload of ops.
func (c *PastCall) OpsHistory(h verdict.History) promise.History {
	return opsHistory(c.past.Scenario.OpsPlan(c.past.Document.Seed), h)
}

// IsOps tells whether the workload is one of ops, which is judged by the whole tree.
func (c *PastCall) IsOps() bool { return c.past.Scenario.Workload.Kind == scenarios.OpsKind }

// Profile is what the run's file system is known to do.
func (c *PastCall) Profile() promise.Profile { return profileOf(c.past.Scenario) }

// cutOf says where the power went.
func cutOf(rec *recording, state *crash.Image) report.Cut {
	return report.Cut{
		Reason: rec.cut.Reason, Position: rec.cut.Position, Op: rec.cut.Started,
		Volatile: state.Volatile, Dropped: state.Dropped, Torn: state.Torn,
	}
}

// foreignFiles counts the files with bytes that nobody wrote.
func foreignFiles(r promise.Result) (n int) {
	for _, f := range r.Findings {
		if f.Class == promise.Forbidden && f.Aspect == "content" {
			n++
		}
	}
	return n
}

// readTree asks for the recovery and the whole tree.
func (r *run) readTree(ctx context.Context, g *machine.Guest, _ *recording) (*recovery, error) {
	back := &recovery{}
	var err error
	back.verdict, back.found, _, err = InspectTree(ctx, g, r.recoveryMount(), Console{Path: g.ConsolePath()})
	return back, err
}

// InspectTree has a guest recover its drive, and read the whole tree. The survivor tells
// how long that took.
func InspectTree(ctx context.Context, g *machine.Guest, m wire.Mount, console Console) (verdict.Recovery, promise.Found, wire.Survivor, error) {
	told, err := g.Inspect(ctx, m)
	found := promise.Found{Tree: &told.Tree, Work: told.Work}
	if len(told.Tree.Objects) == 0 {
		found.Tree = &inspect.Tree{Objects: []inspect.Object{{Path: "."}}}
	}
	if err != nil {
		return verdict.Recovery{}, found, told.Survivor, err
	}
	for _, f := range console.trouble() {
		if complains(f) {
			found.Kernel = append(found.Kernel, f.Text)
		}
	}
	return JudgeRecovery(told.Survivor, console), found, told.Survivor, nil
}

// keepTree keeps the recovered tree in the run folder.
func keepTree(rec *recording, back *recovery) error {
	if back.verdict.Class != verdict.Recovered {
		return nil
	}
	if err := writeJSON(filepath.Join(rec.folder, treeFile), back.found.Tree); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(rec.folder, dataFile), back.found.Tree.Data, 0o644); err != nil {
		return fmt.Errorf("keep tree: %w", err)
	}
	return nil
}

// notSupported is the one expectation of a run with an op that the kernel or the file
// system does not know: nothing else can be said of it. It is nil for any other run.
func notSupported(calls []report.Call) []report.Expectation {
	for _, c := range calls {
		if c.Tree != nil && c.Tree.Unsupported != nil {
			u := c.Tree.Unsupported
			return []report.Expectation{{
				Text: "every op is supported, or nothing is judged", Held: true,
				Found: "not judged: " + u.String(),
			}}
		}
	}
	return nil
}
