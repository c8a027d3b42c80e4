package campaign

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
	"powercut/guest/workload"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/latency"
	"powercut/harness/report"
	"powercut/harness/trace"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// judge holds what survived against what was promised, and adds what the log says
// of cost and cause.
func (r *run) judge(rec *recording, state *crash.Image, back *recovery) (*report.Call, error) {
	c, tr, err := r.unjudged(rec, state, back)
	if err != nil {
		return nil, err
	}
	result, err := judgeSurvivors(c, rec, back, tr)
	if err != nil {
		return nil, err
	}
	if err := r.checkBlame(c, tr); err != nil {
		return nil, err
	}
	return c, writeJSON(filepath.Join(rec.folder, verdictFile), result)
}

// unjudged says what the log and the ledger say of a call, whatever survived, and
// returns the trace of the log.
func (r *run) unjudged(rec *recording, state *crash.Image, back *recovery) (*report.Call, *trace.Trace, error) {
	tr, err := readTrace(r.scenario, rec.input(r.lag()))
	if err != nil {
		return nil, nil, err
	}
	seen := seenIn(rec)
	if err := r.checkFUA(rec, seen); err != nil {
		return nil, nil, err
	}
	return &report.Call{
		Call: string(rec.plan.Call), Folder: filepath.Base(rec.folder), HostWait: rec.cut.HostWait, Seen: seen, Cut: cutOf(rec, state),
		Latency: summarise(rec.history.Records, ledger.Record.Latency), Sync: summarise(rec.history.Records, ledger.Record.SyncLatency),
		Bill: tr.Bill, Recovery: back.verdict, Findings: []report.Finding{}, Errors: failures(rec.history.Records),
	}, tr, nil
}

// judgeSurvivors puts the verdicts on all ops into c. The trace is nil where there
// is no log.
func judgeSurvivors(c *report.Call, rec *recording, back *recovery, tr *trace.Trace) (result verdict.Result, err error) {
	survivors := back.survivors
	recovered := back.verdict.Class == verdict.Recovered
	switch {
	case !recovered:
		survivors = verdict.Survivors{}
	case survivors.Exists:
		content, failed := openSurvivors(filepath.Join(rec.folder, survivorsFile))
		if failed != nil {
			return result, failed
		}
		defer func() { err = errors.Join(err, content.Close()) }()
		survivors.Data = content
	}
	result = verdict.Judge(rec.history, survivors)
	c.Counts = result.Counts
	if !recovered { // nothing was read back: nothing is known of any op
		c.Counts = verdict.Counts{Ops: result.Counts.Ops, Acked: result.Counts.Acked, Failed: result.Counts.Failed}
	} else {
		addFindings(c, result, tr)
	}
	c.Cut.Acked = uint64(c.Counts.Acked)
	return result, nil
}

// input is what a trace of the recording is read from.
func (rec *recording) input(lag int) trace.Input {
	return trace.Input{
		Events: rec.log.Events[:rec.cut.Position], Payload: rec.log, Plan: rec.plan, Records: rec.history.Records,
		Base: rec.base, Lag: lag,
	}
}

// readTrace reads a block log with what the scenario says of its drive.
func readTrace(s scenarios.Scenario, in trace.Input) (*trace.Trace, error) {
	in.CacheAdvertised = !hasFault(s.Drive, disk.CacheUnadvertised)
	in.Readers = s.Workload.Load.Readers > 0
	in.Unsafe = s.Drive.Cache.NoFlush()
	if s.Filesystem.ExternalJournal > 0 {
		in.JournalAt = int64(s.Filesystem.Size)
	}
	if s.Workload.Kind == scenarios.OpsKind {
		in.Plan = workload.Plan{} // which bytes are data is not known
	}
	tr, err := trace.Read(in)
	if err != nil {
		return nil, fmt.Errorf("read the block log: %w", err)
	}
	return tr, nil
}

// writesThrough tells whether the drive holds nothing back.
func writesThrough(d scenarios.Drive) bool {
	return !d.Volatile() && !hasFault(d, disk.CacheUnadvertised)
}

func hasFault(d scenarios.Drive, kind disk.FaultKind) bool {
	return slices.ContainsFunc(d.Faults, func(f scenarios.Fault) bool { return f.Kind == kind })
}

// failures says what became of ops that failed, and who was told; nil where none
// did.
func failures(records []ledger.Record) *report.Errors {
	var out *report.Errors
	for _, r := range records {
		switch {
		case r.Errno == 0:
			continue
		case out == nil:
			out = &report.Errors{
				First: r.Op, Errno: errnoName(r.Errno), Asked: int(r.Asked), Told: int(r.Told), Again: "not asked",
			}
			if r.Asked > 0 {
				out.Again = errnoName(r.Again)
			}
		}
		out.Count++
		out.Last = errnoName(r.Errno)
	}
	return out
}

// errnoName is the name of an error number, such as EIO; success is 0.
func errnoName(n int32) string {
	if n == 0 {
		return "success"
	}
	if name := unix.ErrnoName(unix.Errno(n)); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", n)
}

// lag is the number of ops that the log may be behind the guest.
func (r *run) lag() int {
	if r.serial() {
		return max(1, r.scenario.Workload.Threads)
	}
	return 0
}

// addFindings tells of all that broke a promise.
func addFindings(c *report.Call, result verdict.Result, tr *trace.Trace) {
	c.Size = result.Size
	if result.Stray != nil {
		c.Stray = fmt.Sprintf("%s at bytes %d+%d", result.Stray.Found, result.Stray.Extent.Offset, result.Stray.Extent.Length)
	}
	if result.Setup.Class == verdict.Lost || result.Setup.Class == verdict.Foreign {
		c.Setup = fmt.Sprintf("%s: %s", result.Setup.Class, result.Setup.Found)
	}
	for _, v := range result.Ops {
		if v.Class != verdict.Lost && v.Class != verdict.Foreign {
			continue
		}
		f := report.Finding{OpVerdict: v}
		if tr == nil {
			f.Reason, f.Why = trace.Unknown, "an image file keeps no record of what reached it, and when"
		} else if cover, ok := tr.Cover(v.Op); ok {
			f.AckedAt, f.AckedTime = cover.AckAt, float64(cover.AckTime)/float64(time.Millisecond)
			f.CarriedBy, f.Reason, f.Why = cover.Writes, cover.LostReason(), cover.Lost()
		}
		c.Findings = append(c.Findings, f)
	}
}

// summarise sums up a time of the ops that were acknowledged, the file's creation
// left out.
func summarise(records []ledger.Record, of func(ledger.Record) int64) latency.Summary {
	var ns []int64
	for _, r := range records {
		if r.Op > 0 && r.Synced {
			ns = append(ns, of(r))
		}
	}
	return latency.Summarise(ns)
}

// judgeExpectations holds the calls against what the scenario expects.
func judgeExpectations(e scenarios.Expect, calls []workload.Call, found []report.Call) []report.Expectation {
	by := map[workload.Call]*report.Call{}
	for i := range found {
		by[calls[i]] = &found[i]
	}
	var out []report.Expectation
	for _, c := range calls {
		got := by[c].Recovery.Class
		out = append(out, report.Expectation{
			Text: fmt.Sprintf("%s: recovery %s", c, e.Recovery), Found: string(got), Held: got == e.Recovery,
		})
	}
	for _, c := range e.Conditions(calls) {
		if e.Recovery != verdict.Recovered && isSurvival(c.Measure) {
			continue // nothing is to be read back
		}
		out = append(out, judgeCondition(c, by[c.Call]))
	}
	for _, r := range e.Ratios {
		over, under := float64(by[r.Over].Latency.P50), float64(by[r.Under].Latency.P50)
		found := "no latency to divide by"
		if under > 0 {
			found = fmt.Sprintf("%.2f", over/under)
		}
		held := r.Holds(over, under)
		busy := !held && (by[r.Over].TooBusy() || by[r.Under].TooBusy())
		out = append(out, report.Expectation{Text: r.String(), Found: found, Held: held, Busy: busy})
	}
	return slices.Concat(out, intact(e, calls, by))
}

// judgeCondition holds one call against one bound.
func judgeCondition(c scenarios.Condition, call *report.Call) report.Expectation {
	x, found := measure(c.Measure, call)
	out := report.Expectation{Text: c.String(), Found: found, Held: c.Bound.Holds(x)}
	out.Busy = !out.Held && isTime(c.Measure) && call.TooBusy()
	if isSurvival(c.Measure) && call.Recovery.Class != verdict.Recovered {
		out.Found, out.Held = "unknown: nothing was read back", false
	}
	return out
}

func isTime(measure string) bool {
	return slices.Contains([]string{"mean", "p50", "p99", "max", "figures"}, measure)
}

func isSurvival(measure string) bool {
	return slices.Contains([]string{"lost", "unpromised", "foreign", "customary", "forbidden"}, measure)
}

// measure returns a figure of a call by its name in the scenario format, and as a
// report shows it.
func measure(name string, c *report.Call) (float64, string) {
	count := func(n int) (float64, string) { return float64(n), fmt.Sprint(n) }
	number := func(x float64) (float64, string) { return x, fmt.Sprintf("%.2f", x) }
	duration := func(ns float64) (float64, string) { return ns, latency.Format(ns) }
	switch name {
	case "lost":
		return count(c.Counts.Lost)
	case "unpromised":
		return count(c.Counts.Unpromised)
	case "foreign":
		return count(c.Counts.Foreign)
	case "customary", "forbidden":
		if c.Tree == nil {
			return math.NaN(), "unknown"
		}
		return count(map[string]int{"customary": c.Tree.Counts.Customary, "forbidden": c.Tree.Counts.Forbidden}[name])
	case "failed":
		return count(c.Counts.Failed)
	case "untold":
		if c.Errors == nil || c.Errors.Asked == 0 {
			return math.NaN(), "nobody was asked"
		}
		return count(c.Errors.Asked - c.Errors.Told)
	case "journal-writes":
		return number(c.Bill.JournalWrites)
	case "flushes":
		return number(c.Bill.Flushes)
	case "image-errors":
		if c.Image == nil || c.Image.Failed != "" {
			return math.NaN(), "unknown: the image could not be checked"
		}
		return count(c.Image.Errors)
	case "mean":
		return duration(c.Latency.Mean)
	case "p50":
		return duration(float64(c.Latency.P50))
	case "p99":
		return duration(float64(c.Latency.P99))
	case "figures":
		if c.Figure == nil {
			return math.NaN(), "unknown: no latency was measured"
		}
		return number(c.Figure.Ratio)
	case "max":
		return duration(float64(c.Latency.Max))
	}
	panic("campaign: the scenario format has a measure that is unknown here: " + name)
}

// intact demands of each call that is to lose nothing that the file's first
// content and its size are right as well.
func intact(e scenarios.Expect, calls []workload.Call, by map[workload.Call]*report.Call) []report.Expectation {
	var out []report.Expectation
	for _, call := range calls {
		b, ok := e.Lost.For(call)
		c := by[call]
		if !ok || !b.Holds(0) || b.Holds(1) || c.Recovery.Class != verdict.Recovered {
			continue
		}
		for _, part := range [][2]string{{"size of the file", c.Size}, {"first content of the file", c.Setup}, {"holes of the file", c.Stray}} {
			if part[1] != "" {
				out = append(out, report.Expectation{Text: fmt.Sprintf("%s: the %s as it should be", call, part[0]), Found: part[1]})
			}
		}
	}
	return out
}
