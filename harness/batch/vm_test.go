package batch

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"powercut/guest/ops"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/generate"
	"powercut/harness/internal/program"
	"powercut/harness/qemu"
	"powercut/harness/recording"
	"powercut/scenarios"
)

// agent is a static powercut, built once for all tests of the package.
var agent string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &agent)) }

// standOf prepares the scenario generated with some values changed.
func standOf(t *testing.T, set ...string) *campaign.Stand {
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
	s, err := scenarios.Load("generated", overrides...)
	if err != nil {
		t.Fatal(err)
	}
	stand, err := (&campaign.Lab{Runs: t.TempDir(), Binary: agent, Progress: campaign.Silent{}}).Stand(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return stand
}

// outcomes carries out workloads.
func outcomes(t *testing.T, stand *campaign.Stand, list [][]ops.Op) (out []Outcome) {
	t.Helper()
	workloads := func(yield func(Workload) bool) {
		for _, w := range list {
			if !yield(Workload{w}) {
				return
			}
		}
	}
	err := Run(t.Context(), stand, workloads, Options{Jobs: 2, Folder: t.TempDir(), Seed: 1}, func(o Outcome) { out = append(out, o) })
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(list) {
		t.Fatalf("%d of %d workloads came back", len(out), len(list))
	}
	return out
}

// some draws workloads: a few, or as many as POWERCUT_WORKLOADS says.
func some(t *testing.T, length, few int) [][]ops.Op {
	if n, err := strconv.Atoi(os.Getenv("POWERCUT_WORKLOADS")); err == nil {
		t.Logf("%d workloads", n)
		few = n
	}
	return slices.Collect(generate.Sample(generate.Enumerate(generate.Bounds{Length: length}), few, rand.New(rand.NewPCG(7, 7))))
}

// list reads workloads, ops with semicolons between.
func list(t *testing.T, lines ...string) (out [][]ops.Op) {
	t.Helper()
	for _, line := range lines {
		var w []ops.Op
		for text := range strings.SplitSeq(line, "; ") {
			o, err := ops.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			w = append(w, o)
		}
		out = append(out, w)
	}
	return out
}

// TestKept: nothing is wrong with file systems over drives that keep their promise.
func TestKept(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fs, func(t *testing.T) {
			for _, o := range outcomes(t, standOf(t, "filesystem.type="+fs), some(t, 1, 16)) {
				if o.Wrong() || o.Unsupported == nil && len(o.States) == 0 {
					t.Errorf("%v: %+v", o.Workload, o)
				}
			}
		})
	}
}

// TestEvidence: of a workload of one thread, and of two, that goes wrong there is a
// recording, in which a cut at the ack leaves what was judged.
func TestEvidence(t *testing.T) {
	stand := standOf(t, "drive.faults=[flush-ignored]")
	made := list(t, "write a 16KiB; fsync a", "write b 16KiB; sync")
	workloads := []Workload{{made[0]}, {made[0], made[1]}}
	var mu sync.Mutex
	kept := 0
	evidence := func(Outcome) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		kept++
		return t.TempDir(), nil
	}
	o := Options{Jobs: 2, Folder: t.TempDir(), Seed: 1, Evidence: evidence}
	err := Run(t.Context(), stand, slices.Values(workloads), o, func(o Outcome) {
		r, err := recording.Open(o.Evidence)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		mark := "ack op 2"
		if len(o.Workload) > 1 {
			mark = "thread 2: ack op 2"
		}
		at, err := r.At(mark)
		if err != nil {
			t.Fatal(err)
		}
		base, err := r.OpenBase(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		image, err := crash.Build(base, r.Log, at, crash.Lose, 1)
		if err != nil || image.Dropped == 0 {
			t.Errorf("at %q, position %d, nothing is dropped, %v", mark, at, err)
		}
		for _, name := range []string{consoleFile, ledgerFile, outcomeFile, treeFile, dataFile} {
			if _, err := os.Stat(filepath.Join(o.Evidence, name)); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || kept != len(workloads) {
		t.Errorf("evidence of %d workloads, want %d; %v", kept, len(workloads), err)
	}
}

// TestPlanted: without barriers, or over a drive that ignores flushes, every workload
// loses what it synced; with barriers the same ones do not.
func TestPlanted(t *testing.T) {
	made := list(
		t,
		"create a; fsync a",
		"mkdir d; fsync .",
		"write a 16KiB; sync; append a 4KiB; fdatasync a",
		"write a 16KiB; sync; rename a b; sync",
		"write a 16KiB; sync; setxattr a user.x 1; fsync a",
		"mkdir d; write d/a 16KiB; sync; link d/a a; fsync d/a",
	)
	for _, c := range []struct {
		name   string
		set    string
		broken int
	}{
		{"honest", "drive.faults=[]", 0},
		{"barrier=0", "filesystem.mount=barrier=0", len(made)},
		{"flush-ignored", "drive.faults=[flush-ignored]", len(made)},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := 0
			for _, o := range outcomes(t, standOf(t, c.set), made) {
				if o.Broken() != nil {
					broken++
				}
			}
			if broken != c.broken {
				t.Errorf("%d workloads are broken, want %d", broken, c.broken)
			}
		})
	}
}

// TestReduce: of a workload that breaks a promise what is left is the op and its sync
// call, and a workload that breaks none stays as it is.
func TestReduce(t *testing.T) {
	made := list(t, "mkdir d; write d/b 8KiB; write a 16KiB; chmod a 600; rename d/b c; fsync a; link a e; sync")
	for set, want := range map[string]int{"drive.faults=[flush-ignored]": 2, "drive.faults=[]": len(made[0])} {
		stand := standOf(t, set)
		found := outcomes(t, stand, made)[0]
		small, err := Reduce(t.Context(), stand, found, Options{Folder: t.TempDir(), Seed: 1}, 100)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(small.Workload[0]); n != want || (small.Broken() == nil) != (found.Broken() == nil) {
			t.Errorf("%s: left are the %d ops %v, want %d", set, n, small.Workload, want)
		}
	}
}
