package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/explore"
	"powercut/harness/machine"
	"powercut/images/cache"
	"powercut/scenarios"
)

// ExploreSchema names the version of ExploreDocument.
const ExploreSchema = "powercut/bench-explore/1"

// The names of the figures.
const (
	ChecksFigure  = "explore-checks"
	BootFigure    = "explore-against-boots"
	DecidedFigure = "explore-decided"
	GrowthFigure  = "explore-growth"
	RoomFigure    = "explore-memory"
	LargeFigure   = "explore-memory-large-file"
)

// The bounds.
const (
	minChecks   = 12  // states recovered and read back, a second
	minBoots    = 40  // times faster than a boot for each state
	minDecided  = 500 // states a second, with what equality and pruning decide
	maxGrowth   = 11  // times as long for ten times the log
	roomAlways  = 128 // MiB
	roomWritten = 1.5 // and for each byte that the guest wrote
)

// ExploreDocument is all that was measured of explorations. Its JSON is described in
// docs/bench-json.md.
type ExploreDocument struct {
	Schema  string   `json:"schema"`
	Quick   bool     `json:"quick"`
	Load    float64  `json:"load"` // average of the last minute, at the begin
	Figures []Figure `json:"figures"`
	Elapsed float64  `json:"elapsed_seconds"`
	Held    bool     `json:"held"`
}

// ExploreTable writes the document for a reader.
func ExploreTable(w io.Writer, d *ExploreDocument) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d processors, load %.1f\n\n", runtime.NumCPU(), d.Load)
	(&Document{Figures: d.Figures}).figures(&b)
	fmt.Fprintf(&b, "\n%s\n", (&Document{Quick: d.Quick, Held: d.Held, Elapsed: d.Elapsed}).conclusion())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write bench table: %w", err)
	}
	return nil
}

// RunExplore measures explorations of ext4-overwrite on a disk of 64 MiB.
func RunExplore(ctx context.Context, o Options) (doc *ExploreDocument, err error) {
	begun := time.Now()
	doc = &ExploreDocument{Schema: ExploreSchema, Quick: o.Quick, Load: loadAverage()}
	c, err := cache.Default()
	if err != nil {
		return nil, err
	}
	folder, release, err := c.Scratch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r := &rig{options: o, effort: o.effort(), folder: folder}
	if err := r.figures(ctx, doc); err != nil {
		return nil, fmt.Errorf("measure explorations: %w", err)
	}
	doc.Held, doc.Elapsed = held(doc.Figures), time.Since(begun).Seconds()
	return doc, nil
}

// figures takes all of them.
func (r *rig) figures(ctx context.Context, doc *ExploreDocument) (err error) {
	s, err := r.recording(ctx, map[string]string{
		"filesystem.size": "64MiB", "workload.count": fmt.Sprint(r.ops()), "cut": fmt.Sprintf("{op: %d}", r.ops()),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r.machine = s.Machine
	takes := []func(context.Context, *explore.Subject) ([]Figure, error){r.checks, r.decided, r.growth}
	if !r.options.Quick {
		takes = append(takes, r.large)
	}
	for _, take := range takes {
		figures, err := take(ctx, s)
		if err != nil {
			return err
		}
		doc.Figures = append(doc.Figures, figures...)
	}
	return nil
}

// ops makes a log of some 2,000 requests.
func (r *rig) ops() int {
	if r.options.Quick {
		return 150
	}
	return 600
}

// recording runs the scenario with one call and some values changed, and opens it.
func (r *rig) recording(ctx context.Context, values map[string]string) (*explore.Subject, error) {
	lab := &campaign.Lab{Runs: filepath.Join(r.folder, "runs"), Binary: r.options.Binary, QEMU: r.options.QEMU, Progress: r.options.Progress}
	changes := []scenarios.Override{{Path: "workload.calls", Value: "[fsync]"}}
	for path, value := range values {
		changes = append(changes, scenarios.Override{Path: path, Value: value})
	}
	s, err := scenarios.Load("ext4-overwrite", changes...)
	if err != nil {
		return nil, err
	}
	doc, err := lab.Run(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	past, err := campaign.Open(doc.Folder)
	if err != nil {
		return nil, err
	}
	r.scenario = past.Scenario
	if r.base, err = past.Base(ctx); err != nil {
		return nil, err
	}
	return explore.Open(ctx, lab, past, doc.Calls[0].Call, r.folder)
}

// checks measures states that are really recovered and read back, and boots.
func (r *rig) checks(ctx context.Context, s *explore.Subject) ([]Figure, error) {
	states, boots := 400, 3
	if r.options.Quick {
		states, boots = 80, 1
	}
	r.options.Progress.Stage("checks", states)
	got, err := explore.Explore(ctx, s, explore.Options{
		Seed: 1, States: states, Jobs: runtime.NumCPU(), Every: true, Decided: r.options.Progress.Set,
	})
	if err != nil {
		return nil, err
	}
	if got.Broken > 0 {
		return nil, fmt.Errorf("a state breaks a promise: %v", got.Violations[0])
	}
	var cold []int64
	for range boots {
		ns, err := r.start(ctx, "boot", func(ctx context.Context, b *bay) (*machine.Guest, error) {
			g, _, err := r.machine.Boot(ctx, b.dir, b.drive)
			return g, err
		})
		if err != nil {
			return nil, err
		}
		cold = append(cold, ns)
	}
	each := got.Seconds / float64(got.States.Checked)
	ms := func(name string, value float64) Part {
		return Part{Name: name, Value: value * 1e6, Unit: Nanoseconds, Samples: got.States.Checked}
	}
	c := got.Checks
	return []Figure{
		Figure{
			Name: ChecksFigure, Text: "states recovered and read back, a second", Unit: PerSecond, Value: 1 / each,
			Parts: []Part{ms("a check in one guest", c.Total), ms("mount", c.Guest.Mount), ms("read", c.Guest.Read)},
		}.atLeast(minChecks),
		Figure{
			Name: BootFigure, Text: "a state against a cold boot for it", Unit: Times, Value: median(cold) / (each * 1e9),
			Parts: []Part{timed("cold boot", cold), ms("state", each*1e3)},
		}.atLeast(minBoots),
	}, nil
}

// maxDeciding bounds the time for all states of a log.
const maxDeciding = 5 * time.Minute

// decided measures how fast all states of the log are decided, in whichever way, and the
// memory of that.
func (r *rig) decided(ctx context.Context, s *explore.Subject) ([]Figure, error) {
	r.options.Progress.Stage("deciding states", 0)
	got, err := explore.Explore(ctx, s, explore.Options{Seed: 1, Budget: maxDeciding, Jobs: runtime.NumCPU()})
	if err != nil {
		return nil, err
	}
	count := func(name string, n int) Part {
		return Part{Name: name, Value: float64(n), Unit: Count, Samples: 1}
	}
	n := got.States
	return []Figure{
		Figure{
			Name: DecidedFigure, Text: "states decided, a second", Unit: PerSecond, Value: float64(n.Checked+n.Equal+n.Pruned) / got.Seconds,
			Parts: []Part{count("checked", n.Checked), count("equal", n.Equal), count("pruned", n.Pruned), count("positions", got.Positions)},
		}.atLeast(minDecided),
		room(RoomFigure, "memory that the harness got from the system", s),
	}, nil
}

// room holds the memory that this process has taken so far against what the guest of a
// recording wrote.
func room(name, text string, s *explore.Subject) Figure {
	const mib = 1 << 20
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	written := 0.0
	for _, e := range s.Call.Log.Events {
		if e.DataAt != 0 {
			written += float64(e.Length) / mib
		}
	}
	bound, taken := roomAlways+roomWritten*written, float64(memory.Sys)/mib
	return Figure{Name: name, Text: text, Unit: MiB, Value: taken, Parts: []Part{
		{Name: "written by the guest", Value: written, Unit: MiB, Samples: 1},
		{Name: "of the bound", Value: taken / bound, Unit: Times, Samples: 1},
	}}.atMost(bound)
}

// The exploration of a large file.
const (
	largeFile   = 256 << 20 // bytes
	largeOps    = 20
	largeStates = 6
)

// large measures the memory of exploring a file of which each state takes a pass.
func (r *rig) large(ctx context.Context, _ *explore.Subject) (_ []Figure, err error) {
	r.options.Progress.Stage("a large file", 0)
	s, err := r.recording(ctx, map[string]string{
		"filesystem.size": fmt.Sprint(2 * largeFile), "workload.size": fmt.Sprint(largeFile),
		"workload.count": fmt.Sprint(largeOps), "cut": fmt.Sprintf("{op: %d}", largeOps),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r.options.Progress.Stage("states of a large file", largeStates)
	got, err := explore.Explore(ctx, s, explore.Options{
		Seed: 1, States: largeStates, Jobs: runtime.NumCPU(), Every: true, Decided: r.options.Progress.Set,
	})
	if err != nil {
		return nil, err
	}
	f := room(LargeFigure, fmt.Sprintf("the same, of a file of %d MiB", largeFile>>20), s)
	ms := func(name string, value float64) Part {
		return Part{Name: name, Value: value * 1e6, Unit: Nanoseconds, Samples: got.States.Checked}
	}
	f.Parts = append(f.Parts, ms("a check", got.Checks.Total), ms("read", got.Checks.Guest.Read))
	return []Figure{f}, nil
}

// growth compares going through the states of a log with those of its first tenth, so
// many for each position: what the harness does for a state must not grow with the log.
func (r *rig) growth(_ context.Context, s *explore.Subject) ([]Figure, error) {
	const perPosition, rounds = 4, 5
	log := s.Call.Log
	through := func(cut int) (ns int64, err error) {
		begun := time.Now()
		h, err := crash.NewHasher(s.Base, log, cut)
		if err != nil {
			return 0, err
		}
		n := 0
		for state := range crash.States(log, cut, 1) {
			if _, err := h.Hash(state); err != nil {
				return 0, err
			}
			if n++; n == perPosition*cut {
				break
			}
		}
		return since(begun), nil
	}
	var short, long []int64
	for range rounds {
		for _, part := range []struct {
			cut  int
			into *[]int64
		}{{s.Call.Cut / 10, &short}, {s.Call.Cut, &long}} {
			ns, err := through(part.cut)
			if err != nil {
				return nil, err
			}
			*part.into = append(*part.into, ns)
		}
	}
	return []Figure{Figure{
		Name: GrowthFigure, Text: "ten times the log", Unit: Times, Value: median(long) / median(short),
		Parts: []Part{timed("a tenth of the log", short), timed("the log", long)},
	}.atMost(maxGrowth)}, nil
}
