package campaign

import (
	"context"
	"errors"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/internal/program"
	"powercut/harness/qemu"
	"powercut/harness/report"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// binary is a static powercut, built once for all tests of the package.
var binary string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &binary)) }

// newLab is where a test runs scenarios, side by side with other tests that have one: a
// virtual machine often waits for its drive.
func newLab(t *testing.T) *Lab {
	t.Helper()
	t.Parallel()
	if _, err := qemu.Version(t.Context(), ""); err != nil {
		t.Skipf("no virtual machine can be run here: %v", err)
	}
	return &Lab{Runs: t.TempDir(), Binary: binary, Progress: Silent{}}
}

// load returns an embedded scenario with some values changed, given as path=value.
func load(t *testing.T, name string, set ...string) scenarios.Scenario {
	t.Helper()
	var overrides []scenarios.Override
	for _, text := range set {
		o, err := scenarios.ParseOverride(text)
		if err != nil {
			t.Fatal(err)
		}
		overrides = append(overrides, o)
	}
	s, err := scenarios.Load(name, overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runScenario(t *testing.T, l *Lab, s scenarios.Scenario, seed uint64) *report.Document {
	t.Helper()
	doc, err := l.Run(t.Context(), s, seed)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func table(t *testing.T, doc *report.Document) string {
	t.Helper()
	var b strings.Builder
	if err := report.Table(&b, doc, report.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLibrary runs every scenario of the library and holds it to its word, of a large
// matrix a part.
func TestLibrary(t *testing.T) {
	for _, i := range scenarios.List() {
		all, err := scenarios.Find(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		for n, s := range all {
			if len(all) > wholeMatrix && n%stride != 0 && s.Workload.Kind != scenarios.OpsKind {
				continue
			}
			if i.Family == "seeds" && i.Name != "ext3-overwrite" {
				if s.Name != all[0].Name {
					continue
				}
				s = scaledDown(s)
			}
			if s.Workload.Kind == scenarios.OpsKind && !inSample(s.Name) {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				l := newLab(t)
				doc := runScenario(t, l, s, 1)
				for tries := 1; tries < 4 && !doc.Held && onlyTimes(doc); tries++ {
					t.Logf("run again, for the host may have been busy:\n%s", table(t, doc))
					doc = runScenario(t, l, s, 1)
				}
				if !doc.Held {
					t.Errorf("expectations were not met:\n%s", table(t, doc))
				}
			})
		}
	}
}

// Of a matrix of more than wholeMatrix cells one in stride is run. No axis has so many
// values, or a multiple, so that each value is in one of them.
const (
	wholeMatrix = 10
	stride      = 3
)

// inSample picks one in sixteen of the many cases of ops, by name; all of them are a
// command's work: powercut run log, powercut run posix, powercut run options.
func inSample(name string) bool {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()%16 == 3
}

// scaledDown is a scenario of the family that measures: a few ops on a drive without
// mechanics, held to what it loses, and of a matrix the first cell. In full it is a
// command's work: powercut run seeds.
func scaledDown(s scenarios.Scenario) scenarios.Scenario {
	s.Workload.Count = min(s.Workload.Count, 12)
	s.Cut = scenarios.Cut{Op: s.Workload.Count}
	s.Drive.Timing = scenarios.NoTiming.Timing()
	if s.Workload.Load.Size > 0 {
		s.Workload.Load.Size = 1 << 20
	}
	e := &s.Expect
	e.Figures, e.JournalWrites, e.Mean, e.P50, e.P99, e.Max, e.Ratios = nil, nil, nil, nil, nil, nil, nil
	return s
}

// onlyTimes tells whether all that was not met is about times: the drive is paced
// by the clock, and on a host that is busy with other things a guest misses its
// revolutions.
func onlyTimes(doc *report.Document) bool {
	return !slices.ContainsFunc(doc.Expectations, func(e report.Expectation) bool {
		return !e.Held && !strings.Contains(e.Text, "p50") && !strings.Contains(e.Text, " / ")
	})
}

// TestBarriers: with barriers off every seed loses acknowledged writes, and each
// is named; with barriers on, or without a write cache, none does. One call
// commits the journal, the other does not.
func TestBarriers(t *testing.T) {
	for _, c := range []struct {
		scenario string
		seeds    uint64
		loses    bool
	}{{"barrier-off", 6, true}, {"barrier-on", 6, false}, {"barrier-off-write-through", 2, false}} {
		t.Run(c.scenario, func(t *testing.T) {
			l, s := newLab(t), load(t, c.scenario, "workload.calls=[fsync, O_DSYNC]")
			for seed := range c.seeds {
				doc := runScenario(t, l, s, seed)
				for _, call := range doc.Calls {
					lost := call.Counts.Lost
					if (lost > 0) != c.loses || len(call.Findings) != lost || call.Counts.Kept+lost != call.Counts.Acked {
						t.Errorf("seed %d, %s: %d of %d acknowledged ops lost, %d named:\n%s",
							seed, call.Call, lost, call.Counts.Acked, len(call.Findings), table(t, doc))
					}
				}
				if err := os.RemoveAll(doc.Folder); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestReasons: a report says why ops were lost.
func TestReasons(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct{ scenario, why string }{
		{"barrier-off", "no flush reached the drive"},
		{"flush-ignored", "ignored"},
		{"cache-unadvertised", "never advertised"},
	} {
		doc := runScenario(t, l, load(t, c.scenario, "workload.calls=[fsync]"), 1)
		if len(doc.Calls[0].Findings) == 0 {
			t.Errorf("%s lost nothing", c.scenario)
		}
		for _, f := range doc.Calls[0].Findings {
			if !strings.Contains(f.Why, c.why) {
				t.Errorf("%s, op %d: reason is %q, want one with %q", c.scenario, f.Op, f.Why, c.why)
			}
		}
	}
}

// TestCuts: each kind of cut falls where it says.
func TestCuts(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		cut   string
		holds func(report.Cut) bool
	}{
		{"{op: 20}", func(c report.Cut) bool { return c.Op >= 20 && c.Acked >= 19 && c.Acked <= 21 }},
		{"{ack: 20}", func(c report.Cut) bool { return c.Acked >= 20 && c.Acked <= 22 }},
		{"{position: 90}", func(c report.Cut) bool { return c.Position == 90 }},
		{"{position: 5}", func(c report.Cut) bool { return c.Position == 5 && c.Acked == 0 }},
		{"{after: 40ms}", func(c report.Cut) bool { return strings.Contains(c.Reason, "40ms") }},
		{"{position: 100000}", func(c report.Cut) bool { return c.Acked == 64 && strings.Contains(c.Reason, "ended") }},
	} {
		doc := runScenario(t, l, load(t, "barrier-on", "workload.calls=[fdatasync]", "cut="+c.cut), 3)
		if cut := doc.Calls[0].Cut; !c.holds(cut) || !doc.Held {
			t.Errorf("cut %s fell at %+v:\n%s", c.cut, cut, table(t, doc))
		}
	}
}

// TestFates: what the cut does to the cache decides what is lost.
func TestFates(t *testing.T) {
	l := newLab(t)
	lost := map[string]int{}
	for _, fate := range []string{"lose", "random", "keep"} {
		for seed := range uint64(3) {
			doc := runScenario(t, l, load(t, "barrier-off", "workload.calls=[fdatasync]", "cut={ack: 40}", "at-cut="+fate), seed)
			c := doc.Calls[0]
			if c.Recovery.Class == verdict.Recovered {
				lost[fate] += c.Counts.Lost
			}
		}
	}
	if lost["keep"] != 0 || lost["random"] <= 0 || lost["lose"] <= lost["random"] {
		t.Errorf("lost acknowledged ops: %v", lost)
	}
}

// TestSerialLedger: without a ledger in memory losses are found, and none where
// there is none.
func TestSerialLedger(t *testing.T) {
	l := newLab(t)
	l.SerialLedger = true
	for _, name := range []string{"barrier-off", "barrier-on"} {
		doc := runScenario(t, l, load(t, name, "workload.calls=[fsync, fdatasync]"), 5)
		if !doc.Held || doc.Machine.Ledger != report.LedgerSerial {
			t.Errorf("%s, ledger %s:\n%s", name, doc.Machine.Ledger, table(t, doc))
		}
	}
}

// TestNoDevMem: a guest kernel that denies /dev/mem, as one in lockdown does
// (kernel_lockdown(7)), falls back to the control channel by itself.
func TestNoDevMem(t *testing.T) {
	l := newLab(t)
	l.Params = []string{"lockdown=integrity"}
	doc := runScenario(t, l, load(t, "barrier-off", "workload.calls=[fsync]"), 5)
	if !doc.Held || doc.Machine.Ledger != report.LedgerSerial {
		t.Errorf("ledger %s:\n%s", doc.Machine.Ledger, table(t, doc))
	}
}

// TestNone: without a sync call nothing is acknowledged, and nothing lost.
func TestNone(t *testing.T) {
	doc := runScenario(t, newLab(t), load(t, "barrier-off", "workload.calls=[none]", "expect={lost: 0}", "cut={op: 60}"), 1)
	if c := doc.Calls[0].Counts; !doc.Held || c.Acked != 0 || c.Lost != 0 || c.Ops < 60 {
		t.Errorf("counts %+v:\n%s", c, table(t, doc))
	}
}

// TestSeedRepeats: a seed fixes where a random cut lies.
func TestSeedRepeats(t *testing.T) {
	l := newLab(t)
	s := load(t, "barrier-on", "workload.calls=[fdatasync]")
	a, b := runScenario(t, l, s, 9), runScenario(t, l, s, 9)
	if a.Calls[0].Cut.Reason != b.Calls[0].Cut.Reason || a.Folder == b.Folder {
		t.Errorf("two runs of a seed: %q in %s, %q in %s", a.Calls[0].Cut.Reason, a.Folder, b.Calls[0].Cut.Reason, b.Folder)
	}
}

// recorded runs a workload to its cut, ready to be recovered.
func recorded(t *testing.T, s scenarios.Scenario) (*run, *recording) {
	t.Helper()
	r := &run{lab: newLab(t), scenario: s, seed: 1}
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.begin(time.Now()); err != nil {
		t.Fatal(err)
	}
	rec, err := r.record(t.Context(), s.Plans(1)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rec.close)
	return r, rec
}

// zeroed is a drive's content with a range of zeros in it.
type zeroed struct {
	*os.File
	from, to int64
}

func (z zeroed) ReadAt(p []byte, off int64) (int, error) {
	n, err := z.File.ReadAt(p, off)
	for i := range p[:n] {
		if at := off + int64(i); at >= z.from && at < z.to {
			p[i] = 0
		}
	}
	return n, err
}

// slow is a drive's content that comes late.
type slow struct{ *os.File }

func (s slow) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(3 * time.Second)
	return s.File.ReadAt(p, off)
}

// TestRecoveryVerdicts: a recovery that fails in the guest is a verdict, with the
// console, and never an error of the harness.
func TestRecoveryVerdicts(t *testing.T) {
	s := load(t, "barrier-on", "workload.calls=[fdatasync]", "filesystem.mount=errors=panic", "timeout=15s")
	r, rec := recorded(t, s)
	state := func(base interface {
		ReadAt([]byte, int64) (int, error)
	},
	) *crash.Image {
		return &crash.Image{Media: disk.NewMedia(int64(s.Filesystem.Size), base, rec.log)}
	}
	for _, c := range []struct {
		name  string
		state *crash.Image
		want  verdict.RecoveryClass
	}{
		{"no superblock", state(zeroed{rec.base, 0, 4096}), verdict.MountFailed},
		// Everything after superblock and group descriptors is gone, the root
		// inode too: the kernel finds that, and panics, as it was told to.
		{"no inodes", state(zeroed{rec.base, 64 << 10, 64 << 20}), verdict.Oops},
		{"a drive too slow to wait for", state(slow{rec.base}), verdict.Hang},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(rec.folder, recoveryFolder)); err != nil {
				t.Fatal(err)
			}
			back, err := r.recover(t.Context(), rec, c.state)
			if err != nil {
				t.Fatal(err)
			}
			v := back.verdict
			if v.Class != c.want || v.Detail == "" {
				t.Errorf("verdict %q (%s), want %q; console:\n%s", v.Class, v.Detail, c.want, strings.Join(v.Console, "\n"))
			}
			call, err := r.judge(rec, c.state, back)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range judgeExpectations(s.Expect, s.Workload.Calls, []report.Call{*call}) {
				if e.Held && (strings.Contains(e.Text, "lost") || strings.Contains(e.Text, "recovery")) {
					t.Errorf("nothing was read back, yet %q held: %s", e.Text, e.Found)
				}
			}
		})
	}
}

// TestHarnessFailures: what goes wrong outside of recovery is an error that says
// what, and where the evidence is; never a verdict.
func TestHarnessFailures(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	s := load(t, "barrier-on", "workload.calls=[fsync]")
	for _, c := range []struct {
		name string
		run  func() error
		want string
	}{
		{"a mount option that the kernel refuses", func() error {
			_, err := l.Run(ctx, load(t, "barrier-on", "filesystem.mount=no-such-option"), 1)
			return err
		}, "no-such-option"},
		{"no QEMU", func() error {
			broken := *l
			broken.QEMU = "/nonexistent/qemu"
			_, err := broken.Run(ctx, s, 1)
			return err
		}, "qemu"},
		{"a workload that does not end in time", func() error {
			_, err := l.Run(ctx, load(t, "ext3-overwrite", "workload.calls=[fsync]", "timeout=2s"), 1)
			return err
		}, "deadline"},
		{"ops that do not end in time", func() error {
			_, err := l.Run(ctx, load(t, "generated", "workload.ops=[create a, wait 60s, fsync a]", "timeout=20s"), 1)
			return err
		}, "timeout: 20s is over; the last op to begin was op 2, wait 1m0s"},
		{"a kernel that is none", func() error {
			broken := *l
			broken.Kernel = os.Args[0]
			_, err := broken.Run(ctx, s, 1)
			return err
		}, "kernel"},
		{"a program that is no guest", func() error {
			broken := *l
			broken.machines = nil
			broken.Binary = buildProgram(t, "package main\nfunc main() { println(\"not an agent\") }\n")
			_, err := broken.Run(ctx, s, 1)
			return err
		}, "init"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.run()
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// buildProgram builds a static program.
func buildProgram(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", out, file)
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return out
}

// TestInterrupt: a run that is cancelled ends soon, with the reason.
func TestInterrupt(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	l.Progress = onStage{"fsync: running", func() { cancel(errors.New("enough")) }}
	_, err := l.Run(ctx, load(t, "ext3-overwrite", "workload.calls=[fsync]"), 1)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// onStage calls f when a stage begins.
type onStage struct {
	text string
	f    func()
}

func (o onStage) Stage(text string, _ int) {
	if text == o.text {
		o.f()
	}
}
func (onStage) Set(int) {}
