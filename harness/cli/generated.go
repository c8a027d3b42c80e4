package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"powercut/guest/ops"
	"powercut/harness/batch"
	"powercut/harness/campaign"
	"powercut/harness/promise"
	"powercut/images/cache"
	"powercut/scenarios"
)

// generated is what came out of workloads; --json prints it.
type generated struct {
	Schema      string         `json:"schema"` // powercut-generated/1
	Scenario    string         `json:"scenario"`
	Filesystem  string         `json:"filesystem"`
	Kernel      string         `json:"kernel"`
	Seed        uint64         `json:"seed"`
	Workloads   int            `json:"workloads"` // carried out
	States      int            `json:"states"`    // judged
	Broken      int            `json:"broken"`    // workloads that went as they may not
	Unsupported map[string]int `json:"unsupported"`
	Seconds     float64        `json:"seconds"`
	Jobs        int            `json:"jobs"`
	Ended       string         `json:"ended"` // all workloads, or the budget
	Reports     []wrong        `json:"reports"`
}

// wrong is a workload that went as it may not.
type wrong struct {
	Workload int    `json:"workload"` // among all, from 1
	Ops      string `json:"ops"`
	Thread   int    `json:"thread"`
	Op       int    `json:"op"` // of the thread: the power went after it, or it failed
	What     string `json:"what"`
	// Small is the workload without the ops that it does not take; empty: not looked for.
	Small string `json:"small,omitempty"`
	// Evidence is the folder with what was recorded when it went wrong; empty: it is not
	// among the first.
	Evidence string `json:"evidence,omitempty"`
	// Alone tells that it, or Small, was carried out again by itself. Held: then it kept all. Folder
	// is that of the run; of several threads, which no scenario has, that of a recording,
	// and there is none where it kept all.
	Alone  bool   `json:"alone"`
	Held   bool   `json:"held,omitempty"`
	Folder string `json:"folder,omitempty"`

	outcome batch.Outcome
}

// repeated is of how many of the workloads that went wrong evidence is kept, and how many
// are carried out again by themselves.
const repeated = 10

// carrying is what it takes to carry workloads out.
type carrying struct {
	lab      *campaign.Lab
	stand    *campaign.Stand
	scenario scenarios.Scenario
	seed     uint64
	dir      string // for batches
}

// carryOut runs the workloads, and says what came of them.
func (c *generateCommand) carryOut(ctx context.Context, s Streams, t *talk, scenario scenarios.Scenario, workloads iter.Seq[batch.Workload]) (err error) {
	progress := t.begin(s)
	defer progress.Done()
	w := &carrying{scenario: scenario, seed: c.Seed}
	if w.lab, err = c.lab(progress); err != nil {
		return err
	}
	w.lab.ModuleFiles = c.Module
	if w.stand, err = w.lab.Stand(ctx, scenario); err != nil {
		return err
	}
	store, err := cache.Default()
	if err != nil {
		return err
	}
	dir, release, err := store.Scratch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	w.dir = dir
	g := &generated{
		Schema: "powercut-generated/1", Scenario: scenario.Name, Filesystem: string(scenario.Filesystem.Type), Kernel: w.stand.Machine.Greeting.Release,
		Seed: c.Seed, Unsupported: map[string]int{}, Jobs: c.jobs(), Ended: "all workloads", Reports: []wrong{},
	}
	progress.Stage("workloads", c.Sample+c.Random)
	if err := c.batch(ctx, w, g, t, progress, workloads); err != nil {
		return err
	}
	slices.SortFunc(g.Reports, func(a, b wrong) int { return a.Workload - b.Workload })
	progress.Stage("again, those that went wrong", min(len(g.Reports), repeated))
	for i := range g.Reports[:min(len(g.Reports), repeated)] {
		if c.Random > 0 {
			if err := w.reduce(ctx, &g.Reports[i]); err != nil {
				return err
			}
		}
		if err := w.alone(ctx, &g.Reports[i]); err != nil {
			return err
		}
		progress.Set(i + 1)
	}
	progress.Done()
	if err := c.print(s.Out, g); err != nil {
		return err
	}
	if g.Broken > 0 {
		return errNotHeld
	}
	return nil
}

// batch carries out all workloads, as far as the budget goes.
func (c *generateCommand) batch(ctx context.Context, w *carrying, g *generated, t *talk, progress *stages, workloads iter.Seq[batch.Workload]) error {
	begun := time.Now()
	limited := ctx
	if c.Budget > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, c.Budget)
		defer cancel()
	}
	var kept atomic.Int32
	evidence := func(o batch.Outcome) (string, error) {
		if kept.Add(1) > repeated {
			return "", nil
		}
		return w.lab.Folder(nameOf(w.scenario, o.Number)+"-found", w.seed, time.Now())
	}
	o := batch.Options{Jobs: g.Jobs, Folder: w.dir, Seed: c.Seed, Evidence: evidence}
	err := batch.Run(limited, w.stand, workloads, o, func(o batch.Outcome) {
		if w := g.add(o); w != nil && g.Broken <= shownAtOnce {
			t.fail(fmt.Sprintf("workload %d: %s: %s", w.Workload, w.Ops, w.What), nil)
		}
		progress.Set(g.Workloads)
	})
	g.Seconds = time.Since(begun).Seconds()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		g.Ended, err = "the budget", nil
	}
	return err
}

// tries bounds the workloads by which one is made small.
const tries = 300

// reduce makes a workload that broke a promise small.
func (c *carrying) reduce(ctx context.Context, w *wrong) error {
	before := len(slices.Concat(w.outcome.Workload...))
	small, err := batch.Reduce(ctx, c.stand, w.outcome, batch.Options{Folder: c.dir, Seed: c.seed}, tries)
	if err == nil && len(slices.Concat(small.Workload...)) < before {
		w.outcome, w.Small = small, inWords(small.Workload)
		w.Thread, w.Op = small.Broken().Thread, small.Broken().Op
	}
	return err
}

// alone carries a workload that went wrong out again, by itself: as a scenario or, of
// several threads, as the one workload of a batch.
func (c *carrying) alone(ctx context.Context, w *wrong) error {
	w.Alone = true
	if len(w.outcome.Workload) == 1 {
		doc, err := c.lab.Run(ctx, alone(c.scenario, w.Workload, w.outcome.Workload[0], w.Op), c.seed)
		if err == nil {
			w.Folder, w.Held = doc.Folder, doc.Held
		}
		return err
	}
	evidence := func(batch.Outcome) (string, error) {
		return c.lab.Folder(nameOf(c.scenario, w.Workload), c.seed, time.Now())
	}
	return batch.Run(ctx, c.stand, slices.Values([]batch.Workload{w.outcome.Workload}), batch.Options{Jobs: 1, Folder: c.dir, Seed: c.seed, Evidence: evidence}, func(o batch.Outcome) {
		w.Folder, w.Held = o.Evidence, !o.Wrong()
	})
}

// add counts what became of a workload, and returns what was wrong with it; nil: nothing.
func (g *generated) add(o batch.Outcome) *wrong {
	g.Workloads++
	g.States += len(o.States)
	if u := o.Unsupported; u != nil {
		verb, _, _ := strings.Cut(u.Text, " ")
		g.Unsupported[verb+": "+u.Errno]++
		return nil
	}
	if !o.Wrong() {
		return nil
	}
	g.Broken++
	w := wrong{Workload: o.Number, Ops: inWords(o.Workload), Thread: 1, Evidence: o.Evidence, outcome: o}
	switch state := o.Broken(); {
	case o.Trouble != "":
		w.Op, w.What = len(o.Workload[0]), "while the ops ran the kernel said: "+o.Trouble
	case state == nil:
		w.Thread, w.Op, w.What = o.Thread, o.Failed, "failed with "+o.Errno
	case len(state.Result.Findings) == 0:
		w.Thread, w.Op, w.What = state.Thread, state.Op, fmt.Sprintf("%s: %s", state.Recovery.Class, state.Recovery.Detail)
	default:
		w.Thread, w.Op, w.What = state.Thread, state.Op, gravest(state.Result.Findings)
	}
	w.What = fmt.Sprintf("op %d: %s", w.Op, w.What)
	if len(o.Workload) > 1 {
		w.What = ops.ThreadDir(w.Thread) + ", " + w.What
	}
	g.Reports = append(g.Reports, w)
	return &w
}

// where tells where its recordings are, and whether it went wrong again by itself.
func (w *wrong) where(b *strings.Builder) {
	if w.Small != "" {
		fmt.Fprintf(b, "  made small: %s\n", w.Small)
	}
	if w.Evidence != "" {
		fmt.Fprintf(b, "  recorded: %s\n", w.Evidence)
	}
	switch {
	case !w.Alone:
	case w.Held && w.Folder == "":
		fmt.Fprintf(b, "  not repeated alone: by itself it kept all\n")
	case w.Held:
		fmt.Fprintf(b, "  not repeated alone: by itself it kept all: %s\n", w.Folder)
	default:
		fmt.Fprintf(b, "  repeated alone: %s\n", w.Folder)
	}
}

// gravest tells the gravest finding, and how many more there are.
func gravest(list []promise.Finding) string {
	f := list[0]
	text := fmt.Sprintf("%s: %s of %s: %s", f.Class, f.Aspect, f.Path, f.Found)
	if f.Want != "" {
		text += ", want " + f.Want
	}
	if n := len(list); n > 1 {
		text += fmt.Sprintf(" (and %d more)", n-1)
	}
	return text
}

// shownWrong bounds the workloads that the text names.
const shownWrong = 50

func (c *generateCommand) print(w io.Writer, g *generated) error {
	if c.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(g)
	}
	var b strings.Builder
	for _, r := range g.Reports[:min(len(g.Reports), shownWrong)] {
		fmt.Fprintf(&b, "workload %d: %s\n  %s\n", r.Workload, r.Ops, r.What)
		r.where(&b)
	}
	if n := len(g.Reports) - shownWrong; n > 0 {
		fmt.Fprintf(&b, "and %d more\n", n)
	}
	for _, what := range slices.Sorted(maps.Keys(g.Unsupported)) {
		fmt.Fprintf(&b, "not supported: %s (%d workloads)\n", what, g.Unsupported[what])
	}
	fmt.Fprintf(&b, "%s on %s, kernel %s, seed %d: %d workloads, %d states, %d broken; ended by %s\n",
		g.Scenario, g.Filesystem, g.Kernel, g.Seed, g.Workloads, g.States, g.Broken, g.Ended)
	fmt.Fprintf(&b, "  in %.1f s: %.1f workloads a second with %d guests\n", g.Seconds, float64(g.Workloads)/max(g.Seconds, 1e-9), g.Jobs)
	_, err := io.WriteString(w, b.String())
	return err
}
