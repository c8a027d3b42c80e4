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
	s, err := r.recording(ctx)
	if err != nil {
		return nil, fmt.Errorf("measure explorations: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r.machine = s.Machine
	for _, take := range []func(context.Context, *explore.Subject) ([]Figure, error){r.checks, r.decided, r.growth} {
		figures, err := take(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("measure explorations: %w", err)
		}
		doc.Figures = append(doc.Figures, figures...)
	}
	doc.Held, doc.Elapsed = held(doc.Figures), time.Since(begun).Seconds()
	return doc, nil
}

// ops makes a log of some 2,000 requests.
func (r *rig) ops() int {
	if r.options.Quick {
		return 150
	}
	return 600
}

// recording runs the scenario, and opens it.
func (r *rig) recording(ctx context.Context) (*explore.Subject, error) {
	lab := &campaign.Lab{Runs: filepath.Join(r.folder, "runs"), Binary: r.options.Binary, QEMU: r.options.QEMU, Progress: r.options.Progress}
	var changes []scenarios.Override
	for path, value := range map[string]string{
		"filesystem.size": "64MiB", "workload.count": fmt.Sprint(r.ops()), "cut": fmt.Sprintf("{op: %d}", r.ops()), "workload.calls": "[fsync]",
	} {
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
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	written := int64(0)
	for _, e := range s.Call.Log.Events {
		if e.DataAt != 0 {
			written += e.Length
		}
	}
	count := func(name string, n int) Part {
		return Part{Name: name, Value: float64(n), Unit: Count, Samples: 1}
	}
	n := got.States
	room := Figure{
		Name: RoomFigure, Text: "memory that the harness got from the system", Unit: MiB, Value: float64(memory.Sys) / (1 << 20),
		Parts: []Part{{Name: "written by the guest", Value: float64(written) / (1 << 20), Unit: MiB, Samples: 1}},
	}
	return []Figure{
		Figure{
			Name: DecidedFigure, Text: "states decided, a second", Unit: PerSecond, Value: float64(n.Checked+n.Equal+n.Pruned) / got.Seconds,
			Parts: []Part{count("checked", n.Checked), count("equal", n.Equal), count("pruned", n.Pruned), count("positions", got.Positions)},
		}.atLeast(minDecided),
		room.atMost(roomAlways + roomWritten*float64(written)/(1<<20)),
	}, nil
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
