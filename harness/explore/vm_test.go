package explore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/internal/program"
	"powercut/harness/qemu"
	"powercut/harness/report"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// agent is a static powercut, built once for all tests of the package.
var agent string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &agent)) }

// states is how many states a test takes: few, or as many as POWERCUT_STATES says.
func states(t *testing.T, few int) int {
	n, err := strconv.Atoi(os.Getenv("POWERCUT_STATES"))
	if err != nil {
		return few
	}
	t.Logf("%d states", n)
	return n
}

// recorded runs a few ops of a scenario with some values changed, and opens its one call.
func recorded(t *testing.T, name string, set ...string) (*Subject, *report.Document) {
	t.Helper()
	return recordedAs(t, name, append([]string{"workload.count=40", "cut={random: 30-40}", "workload.calls=[fsync]"}, set...)...)
}

// operations are what a workload of kind ops does here: names, links and bytes change, and
// some are synced.
const operations = "workload.ops=[mkdir d, write d/a 16KiB, fsync d/a, rename d/a d/b, write d/a 4KiB, fsync d/a, link d/b c, setxattr c user.x 1, fsync .]"

// recordedAs runs a scenario with some values changed, and opens its one call.
func recordedAs(t *testing.T, name string, set ...string) (*Subject, *report.Document) {
	t.Helper()
	if _, err := qemu.Version(t.Context(), ""); err != nil {
		t.Skipf("no virtual machine can be run here: %v", err)
	}
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
	lab := &campaign.Lab{Runs: t.TempDir(), Binary: agent, Progress: campaign.Silent{}}
	doc, err := lab.Run(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	past, err := campaign.Open(doc.Folder)
	if err != nil {
		t.Fatal(err)
	}
	subject, err := Open(t.Context(), lab, past, doc.Calls[0].Call, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { subject.Close() })
	return subject, doc
}

func explored(t *testing.T, s *Subject, o Options) *Report {
	t.Helper()
	o.Seed, o.Jobs = 1, 2
	r, err := Explore(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tornSuperblock tells whether a state does not mount because of the one thing that stock ext4
// does not survive: its superblock is two sectors with one checksum, written in place.
func tornSuperblock(v Verdict) bool {
	return v.Recovery.Class == verdict.MountFailed && strings.Contains(strings.Join(v.Recovery.Console, "\n"), "invalid superblock checksum")
}

// TestPruningChangesNoVerdict: with and without pruning each state gets the same
// verdict; with promise-keeping drives none is broken, and without barriers the same are.
func TestPruningChangesNoVerdict(t *testing.T) {
	ops := 4 // few, so that a few hundred states are of all kinds
	if os.Getenv("POWERCUT_STATES") != "" {
		ops = 40
	}
	for name, test := range map[string]struct {
		scenario string
		set      []string
		broken   bool // beside torn superblocks
	}{
		"ext4":             {"barrier-on", nil, false},
		"ext3":             {"barrier-on", []string{"filesystem.type=ext3", "filesystem.mount=data=journal"}, false},
		"external journal": {"barrier-on", []string{"filesystem.external-journal=8MiB", "filesystem.mount=dioread_lock", "workload.kind=append", "workload.bytes=5000", "workload.stride=5000"}, false},
		"external journal, whose disk lies": {"barrier-on", []string{
			"filesystem.external-journal=8MiB", "filesystem.mount=dioread_lock", "workload.kind=append", "workload.bytes=5000", "workload.stride=5000", "drive.faults=[flush-ignored range=64MiB+8MiB]",
		}, true},
		// Of a file of so many blocks each op changes some, and not all that lie side by side.
		"without barriers":            {"barrier-off", []string{"workload.size=2MiB", "workload.bytes=20000", "workload.stride=65536"}, true},
		"operations":                  {"generated", []string{operations}, false},
		"operations without barriers": {"generated", []string{operations, "filesystem.mount=barrier=0", "expect.lost=some"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := append(test.set, "filesystem.size=64MiB", "drive.sector=512")
			if test.scenario != "generated" {
				set = append(set, "workload.calls=[fsync]", fmt.Sprint("workload.count=", ops), fmt.Sprintf("cut={op: %d}", ops))
			}
			s, _ := recordedAs(t, test.scenario, set...)
			verdicts := func(every bool) (map[string]Verdict, *Report) {
				out := map[string]Verdict{}
				r := explored(t, s, Options{States: states(t, 250), Every: every, Each: func(s crash.State, _ How, v Verdict) { out[s.String()] = v }})
				return out, r
			}
			pruned, r := verdicts(false)
			every, all := verdicts(true)
			console := cmpopts.IgnoreFields(verdict.Recovery{}, "Console") // it has times
			if d := cmp.Diff(every, pruned, console); d != "" {
				t.Errorf("verdicts (-without pruning +with):\n%s", d)
			}
			broken := 0
			for _, v := range pruned {
				if v.Broken() && !tornSuperblock(v) {
					broken++
				}
			}
			if r.Broken != all.Broken || (broken > 0) != test.broken {
				t.Errorf("%d states are broken, without pruning %d, %d by another thing than a torn superblock", r.Broken, all.Broken, broken)
			}
			if len(pruned) != r.States.Cut || r.States.Checked+r.States.Equal+r.States.Pruned != r.States.Cut || all.States.Pruned > 0 {
				t.Errorf("%d verdicts of %+v; without pruning %+v", len(pruned), r.States, all.States)
			}
			if r.Blind != "" || r.States.Pruned == 0 {
				t.Errorf("%+v, blind: %s", r.States, r.Blind)
			}
			t.Logf("%+v, %d audited; without pruning %+v", r.States, r.Audited, all.States)
		})
	}
}

// TestPlanted: each planted bug is found within the first 50 states, and a fresh guest
// says the same. Where it is data that was volatile the log alone tells it as well.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []string
		data bool
	}{
		{"barrier-off", nil, true},
		{"flush-ignored", nil, true},
		{"cache-unadvertised", nil, true},
		{"ext4-overwrite", []string{"drive.bus=scsi-hd", "drive.write-cache=off", "drive.faults=[fua-ignored]"}, true},
		{"generated", []string{operations, "filesystem.mount=barrier=0"}, false},
		{"generated", []string{operations, "filesystem.type=xfs", "filesystem.size=320MiB", "drive.faults=[flush-ignored]"}, false},
		{"ext3-append", []string{
			"drive.write-cache=on", "drive.timing=none", "expect={}", "workload.calls=[fdatasync]", "guest.module=ext4-fdatasync-skips-all",
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			record := recorded
			if c.name == "generated" {
				record = recordedAs
			}
			s, _ := record(t, c.name, append([]string{"filesystem.size=64MiB"}, c.set...)...)
			r := explored(t, s, Options{States: 20})
			if r.Broken == 0 || r.Confirmed == 0 || (len(r.Uncovered) > 0) != c.data {
				t.Errorf("%d of %d states are broken, %d outcomes confirmed, %d ops uncovered", r.Broken, r.States.Cut, r.Confirmed, len(r.Uncovered))
			}
		})
	}
}

// TestLikeAKill: at the run's own cut, with what the run's own policy left, a checker
// that has recovered other states comes to the verdict that the run's fresh guest did.
func TestLikeAKill(t *testing.T) {
	for _, name := range []string{"barrier-on", "barrier-off"} {
		s, doc := recorded(t, name, "filesystem.size=64MiB", "at-cut=random")
		policy, seed := s.Call.Policy()
		own, err := crash.Choose(s.Call.Log, s.Call.Cut, policy, seed)
		if err != nil {
			t.Fatal(err)
		}
		c := newChecker(s)
		defer c.close()
		for _, state := range []crash.State{{Cut: s.Call.Cut / 2}, {Cut: s.Call.Cut}, own} {
			o, err := c.check(t.Context(), state)
			if err != nil {
				t.Fatal(err)
			}
			if !state.Equal(own) {
				continue
			}
			got := verdict.Judge(s.Call.History(s.Call.Cut), o.survivors(c.contents))
			if d := cmp.Diff(doc.Calls[0].Counts, got.Counts); d != "" {
				t.Errorf("%s, state %q: counts (-run +checker):\n%s", name, own, d)
			}
		}
		if c.forks != 1 {
			t.Errorf("%s: %d guests, want one", name, c.forks)
		}
	}
}

// TestOperations: no state of file systems that keep their promises breaks one, whatever a
// workload of ops does to names and links, and an exploration that goes on checks nothing twice.
func TestOperations(t *testing.T) {
	for _, fs := range []string{"ext3", "xfs", "btrfs", "f2fs"} {
		t.Run(fs, func(t *testing.T) {
			s, _ := recordedAs(t, "generated", operations, "filesystem.type="+fs)
			path := filepath.Join(t.TempDir(), "outcomes")
			store, err := OpenStore(path, s.Identity(), false, false)
			if err != nil {
				t.Fatal(err)
			}
			r := explored(t, s, Options{States: states(t, 300), Store: store})
			if r.Broken > 0 || r.States.Cut < 200 || r.States.Checked < 3 {
				t.Errorf("%d broken, %+v: %+v", r.Broken, r.States, r.Violations)
			}
			store.Close()
			if store, err = OpenStore(path, s.Identity(), false, true); err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if again := explored(t, s, Options{States: r.States.Cut, Store: store}); again.States.Checked > again.States.Resumed+2 || again.Broken > 0 {
				t.Errorf("resumed: %+v after %+v", again.States, r.States)
			}
		})
	}
}

// TestUnsupported: nothing is said of the states of a run with an op that is not supported.
func TestUnsupported(t *testing.T) {
	s, _ := recordedAs(t, "generated", "workload.ops=[write a 4KiB, fsync a, clone a b, fsync b]", "filesystem.size=64MiB")
	r, err := Explore(t.Context(), s, Options{States: 5, Jobs: 1})
	if err == nil || !strings.Contains(err.Error(), "op 3, clone a b, failed with") || r.States.Cut > 0 {
		t.Errorf("%v, %+v", err, r.States)
	}
}

// newChecker returns a checker of its own, which notes nothing of what is read.
func newChecker(s *Subject) *checker {
	return &checker{
		subject: s, folder: filepath.Join(s.Folder, "one"), builder: crash.NewBuilder(s.Base, s.Call.Log),
		changed: func(int64, int64) []crash.Row { return nil }, contents: newContents(s.Call.Plan, s.Call.Plan.Count), trees: newTrees(nil),
	}
}

// TestTrouble: a drive without a file system is a verdict, and the guest is replaced; an
// exploration that is interrupted says so, and goes on.
func TestTrouble(t *testing.T) {
	s, _ := recorded(t, "barrier-on", "filesystem.size=64MiB")
	c := newChecker(s)
	defer c.close()
	sound := c.builder
	for _, want := range []verdict.RecoveryClass{verdict.Recovered, verdict.MountFailed, verdict.Recovered} {
		c.builder = sound
		if want == verdict.MountFailed {
			c.builder = crash.NewBuilder(zeros{}, s.Call.Log)
		}
		o, err := c.check(t.Context(), crash.State{})
		if err != nil || o.recovery.Class != want {
			t.Fatalf("recovery %+v, %v; want %s", o, err, want)
		}
	}
	if c.forks != 2 {
		t.Errorf("%d guests, want one and another after the one that could not mount", c.forks)
	}
	path := filepath.Join(t.TempDir(), "kept")
	store, err := OpenStore(path, "this", false, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Explore(ctx, s, Options{Seed: 1, Jobs: 1, Store: store, Decided: func(n int) {
		if n == 10 {
			cancel()
		}
	}})
	if n := r.States; !errors.Is(err, context.Canceled) || r.Ended != EndInterrupted || n.Checked < 5 || n.Cut != n.Decided() || n.Distinct != n.Checked+n.Pruned {
		t.Errorf("interrupted: %v, %+v", err, r)
	}
	store.Close()
	if store, err = OpenStore(path, "this", false, true); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if again := explored(t, s, Options{States: r.States.Decided(), Store: store}); again.States.Checked-again.States.Resumed > 2 || again.Broken > 0 || again.States.Checked < r.States.Checked {
		t.Errorf("resumed: %+v after %+v", again.States, r.States)
	}
}

// TestSecondOpinion: the file system's own checker finds what recovery has left damaged
// where barriers are missing, though the guest did not notice, and nothing where they are not.
// About one state in thirty of those without barriers is such a one, so it looks until it has one.
func TestSecondOpinion(t *testing.T) {
	opinion, err := newFsck("ext3")
	if err != nil {
		t.Skip(err)
	}
	for barrier, states := range map[string]uint64{"barrier=1": 24, "barrier=0": 400} {
		s, _ := recorded(t, "ext3-append", "drive.write-cache=on", "drive.timing=none", "filesystem.mount="+barrier)
		c := newChecker(s)
		c.fsck = opinion
		examined, damaged := 0, 0
		for seed := uint64(0); seed < states && damaged == 0; seed++ {
			state, err := crash.Choose(s.Call.Log, 16+2*int(seed)%(s.Call.Cut-16), crash.Random, seed)
			if err != nil {
				t.Fatal(err)
			}
			o, err := c.check(t.Context(), state)
			if err != nil {
				t.Fatal(err)
			}
			if o.recovery.Class == verdict.Recovered {
				examined++
			}
			if o.second != "" {
				damaged++
				t.Logf("%s, %s: %s", barrier, state, o.second)
			}
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
		if (damaged > 0) != (barrier == "barrier=0") || examined < 5 {
			t.Errorf("%s: %d of %d recovered states are damaged", barrier, damaged, examined)
		}
	}
}
