package bench

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/harness/internal/program"
	"powercut/harness/qemu"
	"powercut/images/cache"
)

// powercut is a static powercut, built once for all tests of the package.
var powercut string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &powercut)) }

// watcher is a Progress that keeps the stages, and calls each on every step.
type watcher struct {
	mu     sync.Mutex
	stages []string
	each   func()
}

func (w *watcher) Stage(text string, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stages = append(w.stages, text)
}

func (w *watcher) Set(int) {
	if w.each != nil {
		w.each()
	}
}

func needQEMU(t *testing.T) {
	t.Helper()
	if _, err := qemu.Version(t.Context(), ""); err != nil {
		t.Skipf("no virtual machine can be run here: %v", err)
	}
}

// TestQuick measures for real. The values themselves are the machine's, so that
// only their shape is checked.
func TestQuick(t *testing.T) {
	needQEMU(t)
	scratch := ownScratch(t)
	doc, err := Run(t.Context(), Options{Binary: powercut, Quick: true, Progress: &watcher{}})
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := Table(&table, doc); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	var names []string
	for _, f := range doc.Figures {
		names = append(names, f.Name)
		checkFigure(t, f)
	}
	want := []string{ForkFigure, RoundTripFigure, ShareFigure, DriveFigure, MixedFigure, SmallFigure}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("figures (-want +got):\n%s", d)
	}
	var phases []string
	for _, p := range doc.Phases {
		phases = append(phases, p.Name)
		if p.Median < 0 || math.IsNaN(p.Median) || math.IsInf(p.Median, 0) || p.Samples != 1 {
			t.Errorf("phase %s: %v ms of %d samples", p.Name, p.Median, p.Samples)
		}
	}
	if d := cmp.Diff(phaseNames(), phases); d != "" {
		t.Errorf("phases (-want +got):\n%s", d)
	}
	if doc.Held != held(doc.Figures) || !doc.Quick || doc.Machine.Release == "" || doc.Elapsed <= 0 {
		t.Errorf("document: %+v", doc)
	}
	checkNothingLeft(t)
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind in %s: %v, %v", scratch, left, err)
	}
}

// ownScratch gives this test a cache folder that has all that the user's has, but
// for the folder of work in progress, which it returns.
func ownScratch(t *testing.T) string {
	t.Helper()
	user, err := cache.Default()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, kind := range []string{"kernel", "vmlinux", "tool", "disk", "initramfs", "template"} {
		if err := os.MkdirAll(filepath.Join(user.Root, kind), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(user.Root)
	if err != nil {
		t.Fatal(err)
	}
	const scratch = "scratch"
	for _, e := range entries {
		if e.Name() == scratch {
			continue
		}
		if err := os.Symlink(filepath.Join(user.Root, e.Name()), filepath.Join(root, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(cache.Variable, root)
	return filepath.Join(root, scratch)
}

func checkFigure(t *testing.T, f Figure) {
	t.Helper()
	if f.Skipped != "" {
		if _, err := exec.LookPath("nbdkit"); f.Name != DriveFigure || err == nil {
			t.Errorf("%s was skipped: %s", f.Name, f.Skipped)
		}
		return
	}
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
	if !positive(f.Value) || !positive(f.Bound) || f.Text == "" || len(f.Parts) < 2 {
		t.Errorf("figure %+v", f)
	}
	for _, p := range f.Parts {
		if !positive(p.Value) || p.Samples < 1 {
			t.Errorf("%s: part %+v", f.Name, p)
		}
	}
}

// checkNothingLeft looks for children of this process.
func checkNothingLeft(t *testing.T) {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(threads) == 0 {
		t.Skipf("this kernel does not list children: %v", err)
	}
	for _, path := range threads {
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
			t.Errorf("processes left behind: %s", b)
		}
	}
}

// TestCancel: whatever is measured, it ends when it is told to, and leaves nothing.
func TestCancel(t *testing.T) {
	needQEMU(t)
	r := &rig{options: Options{Binary: powercut, Quick: true, Progress: &watcher{}}}
	r.effort = r.options.effort()
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.effort.phases, r.effort.boots, r.effort.forks = 2, 1, 2
	for _, c := range []struct {
		name string
		take func(context.Context) error
	}{
		{"starts", func(ctx context.Context) error { _, err := r.starts(ctx); return err }},
		{"ledger", func(ctx context.Context) error { _, err := r.ledger(ctx); return err }},
		{"drives", func(ctx context.Context) error { _, err := r.drives(ctx); return err }},
		{"memory", func(ctx context.Context) error { _, err := r.memory(ctx); return err }},
		{"phases", func(ctx context.Context) error { _, err := r.phases(ctx); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath("nbdkit"); c.name == "drives" && err != nil {
				t.Skipf("nbdkit is not installed (apt-get install nbdkit): %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.options.Progress = &watcher{each: cancel} // at the first step that is done
			r.folder = t.TempDir()
			if err := c.take(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("measuring ended with %v", err)
			}
			if left, err := os.ReadDir(r.folder); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			checkNothingLeft(t)
		})
	}
}

// TestMemory runs the child, and finds more memory where more was written.
func TestMemory(t *testing.T) {
	r := &rig{options: Options{Binary: powercut, Progress: &watcher{}}, folder: t.TempDir()}
	var last int64
	for _, writes := range []int64{1, 20_000, 100_000} {
		p, err := r.peak(t.Context(), pattern{bytes: writes * 512, lengths: []int{512}, drive: driveSize})
		if err != nil {
			t.Fatal(err)
		}
		if p.Recording <= 0 || p.Building < p.Recording || p.Building <= last {
			t.Errorf("%d writes: peaks %+v, and %d before", writes, p, last)
		}
		last = p.Building
	}
}

// TestMemoryChildFails: a child that cannot do its part is an error that says why.
func TestMemoryChildFails(t *testing.T) {
	r := &rig{options: Options{Binary: "/bin/false", Progress: &watcher{}}, folder: t.TempDir()}
	if _, err := r.peak(t.Context(), pattern{bytes: 512, lengths: []int{512}, drive: driveSize}); err == nil {
		t.Error("a child that is no powercut was measured")
	}
}
