package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"powercut/guest/ops"
	"powercut/harness/batch"
	"powercut/harness/campaign"
	"powercut/harness/generate"
	"powercut/harness/model"
	"powercut/harness/promise"
	"powercut/images/cache"
	"powercut/scenarios"
)

type generateCommand struct {
	Scenario string        `arg:"" optional:"" default:"generated" help:"What the workloads are put into: a scenario of ops. Its file system, drive, guest and policy hold for all. Default: generated."`
	Length   int           `help:"All workloads of so many ops, 1 to 3, sync calls not counted." placeholder:"N" xor:"which"`
	Random   int           `help:"So many random workloads, from the seed." placeholder:"N" xor:"which"`
	Size     int           `help:"Ops of a random workload, sync calls included." default:"30" placeholder:"N"`
	Threads  int           `help:"Threads of a random workload, each with that many ops and a directory of its own." default:"1" placeholder:"N"`
	Ops      []string      `help:"Kinds of ops, with commas between: ${kinds}. Default: all." placeholder:"KIND"`
	Syncs    []string      `help:"Sync calls after an op: ${syncs}. Default: all." placeholder:"CALL"`
	Unsynced bool          `help:"Each workload a second time, without a sync of what it finds there."`
	Sample   int           `help:"Of all workloads so many, drawn by the seed." placeholder:"N"`
	Seed     uint64        `help:"What is drawn follows from it, and the bytes that ops write." default:"1" placeholder:"N"`
	Output   string        `short:"o" help:"Write each workload into this folder, as a scenario of its own." placeholder:"DIR" makes:"folder"`
	Carry    bool          `name:"run" help:"Carry them out, and judge what a cut right after each sync call leaves."`
	Budget   time.Duration `help:"With --run: for how long, at most. Default: until all are done." placeholder:"TIME"`
	Jobs     *int          `help:"With --run: guests at work at the same time. Default: one for each processor." placeholder:"N"`
	JSON     bool          `name:"json" help:"With --run: print one JSON document in place of the text."`
	Set      []string      `help:"Override a value of the scenario. May be repeated." placeholder:"a.b=value" sep:"none"`
	Kernel   string        `help:"A kernel, in place of the scenario's." placeholder:"KERNEL"`
	Modules  string        `help:"The modules of one's own kernel." placeholder:"DIR" type:"existingdir"`
	Module   []string      `help:"A kernel module of one's own, in place of the kernel's. May be repeated." placeholder:"FILE.ko" type:"existingfile" sep:"none"`
	Runs     string        `help:"Where the run folders of broken promises go." default:"runs" placeholder:"DIR" makes:"folder"`
	QEMU     string        `name:"qemu" help:"The QEMU binary." placeholder:"PATH"`
}

// Help says what is generated, and what the exit code means.
func (*generateCommand) Help() string {
	return "Without --run and --output prints the workloads, one a line. " +
		"Those of a length are sequences of ops over two directories and six files, as CrashMonkey's ACE makes them: what they need is made first and synced, " +
		"and a sync call comes after the last op, and after others fsync, sync or none. " +
		"With --run many share a guest, each with a freshly formatted disk; a state that breaks a promise is recovered again by a fresh guest, and the first ones are run again as scenarios, with a run folder. " +
		"Exits with 0 where no promise was broken, with 1 where one was."
}

// Run generates, and carries out.
func (c *generateCommand) Run(ctx context.Context, s Streams, t *talk) error {
	if err := c.check(); err != nil {
		return &usageError{err}
	}
	run := &runCommand{Scenario: c.Scenario, Set: c.Set, Kernel: c.Kernel, Modules: c.Modules, Module: c.Module}
	list, err := run.scenarios()
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0].Workload.Kind != scenarios.OpsKind {
		return &usageError{fmt.Errorf("%s is not one scenario of ops, into which workloads can be put", c.Scenario)}
	}
	workloads := c.workloads(list[0])
	switch {
	case c.Output != "":
		if err := c.write(list[0], workloads); err != nil || !c.Carry {
			return err
		}
	case !c.Carry:
		for w := range workloads {
			if _, err := fmt.Fprintln(s.Out, inWords(w)); err != nil {
				return err
			}
		}
		return nil
	}
	c.Kernel = run.Kernel // a kernel of one's own, now that others stand in the scenario
	return c.carryOut(ctx, s, t, list[0], workloads)
}

func (c *generateCommand) check() error {
	switch {
	case c.Length == 0 && c.Random == 0:
		return errors.New("--length or --random says which workloads are wanted")
	case c.Length < 0 || c.Length > generate.MaxLength:
		return fmt.Errorf("--length %d: allowed are 1 to %d; for longer ones there is --random", c.Length, generate.MaxLength)
	case c.Random < 0 || c.Sample < 0 || below(c.Jobs, 1) || c.Budget < 0:
		return errors.New("--random, --sample, --jobs and --budget are numbers above 0")
	case c.Size < 1 || c.Size > ops.MaxOps:
		return fmt.Errorf("--size %d: allowed are 1 to %d", c.Size, ops.MaxOps)
	case c.Threads < 1 || c.Threads > maxThreads:
		return fmt.Errorf("--threads %d: allowed are 1 to %d", c.Threads, maxThreads)
	case c.Threads > 1 && (c.Random == 0 || c.Output != ""):
		return errors.New("--threads goes with --random, and not with --output: a scenario's ops have one thread")
	case c.Random > 0 && (len(c.Ops) > 0 || len(c.Syncs) > 0 || c.Unsynced):
		return errors.New("--ops, --syncs and --unsynced go with --length")
	}
	return errors.Join(known("--ops", c.Ops, generate.Kinds()), known("--syncs", c.Syncs, generate.Syncs))
}

// maxThreads bounds the threads of a workload.
const maxThreads = 16

// known says which of the words are not among the allowed ones.
func known(flag string, words, allowed []string) error {
	for _, w := range words {
		if !slices.Contains(allowed, w) {
			return fmt.Errorf("%s: there is no %q; allowed: %s", flag, w, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// workloads are those that were asked for, in the same order each time.
func (c *generateCommand) workloads(s scenarios.Scenario) iter.Seq[batch.Workload] {
	if c.Random > 0 {
		return c.random(model.FeaturesOf(string(s.Filesystem.Type)))
	}
	all := generate.Enumerate(generate.Bounds{Length: c.Length, Kinds: c.Ops, Syncs: c.Syncs, Unsynced: c.Unsynced})
	if c.Sample > 0 {
		all = generate.Sample(all, c.Sample, rand.New(rand.NewPCG(c.Seed, 0)))
	}
	return func(yield func(batch.Workload) bool) {
		for list := range all {
			if !yield(batch.Workload{list}) {
				return
			}
		}
	}
}

func (c *generateCommand) random(f model.Features) iter.Seq[batch.Workload] {
	return func(yield func(batch.Workload) bool) {
		for n := range uint64(c.Random) {
			r := rand.New(rand.NewPCG(c.Seed, n))
			var w batch.Workload
			for range c.Threads {
				w = append(w, generate.Random(r, c.Size, f))
			}
			if !yield(w) {
				return
			}
		}
	}
}

// inWords is a workload in one line.
func inWords(w batch.Workload) string {
	threads := make([]string, len(w))
	for i, list := range w {
		words := make([]string, len(list))
		for i, o := range list {
			words[i] = o.String()
		}
		threads[i] = strings.Join(words, "; ")
		if len(w) > 1 {
			threads[i] = ops.ThreadDir(i+1) + ": " + threads[i]
		}
	}
	return strings.Join(threads, " | ")
}

// write writes each workload as a scenario.
func (c *generateCommand) write(s scenarios.Scenario, workloads iter.Seq[batch.Workload]) error {
	if err := os.MkdirAll(c.Output, 0o755); err != nil {
		return fmt.Errorf("write workloads: %w", err)
	}
	n := 0
	for w := range workloads {
		n++
		one := alone(s, n, w[0], len(w[0]))
		text, err := one.Marshal()
		if err == nil {
			path := filepath.Join(c.Output, one.Name+".yaml")
			if err = os.WriteFile(path, text, 0o644); err != nil {
				err = errors.Join(err, os.RemoveAll(path)) // half of one is none
			}
		}
		if err != nil {
			return fmt.Errorf("write workload %d: %w", n, err)
		}
	}
	return nil
}

// alone is the scenario of one workload, with the power cut at the ack of op k.
func alone(s scenarios.Scenario, n int, list []ops.Op, k int) scenarios.Scenario {
	s.Name, s.About = fmt.Sprintf("%s-%06d", s.Name, n), "generated"
	s.Workload.Ops, s.Workload.Count = list, len(list)
	s.Cut = scenarios.Cut{Ack: k}
	return s
}

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
	// Folder is that of a run of the workload alone, which may have come to something
	// else: Held. There is none of several threads.
	Folder string `json:"folder,omitempty"`
	Held   bool   `json:"held,omitempty"`

	workload batch.Workload
}

// repeated is how many of the workloads that went wrong are run again as scenarios.
const repeated = 10

// carryOut runs the workloads, and says what came of them.
func (c *generateCommand) carryOut(ctx context.Context, s Streams, t *talk, scenario scenarios.Scenario, workloads iter.Seq[batch.Workload]) (err error) {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find powercut itself: %w", err)
	}
	progress := t.begin(s)
	defer progress.Done()
	lab := &campaign.Lab{Runs: c.Runs, Binary: binary, QEMU: c.QEMU, Kernel: c.Kernel, Modules: c.Modules, ModuleFiles: c.Module, Progress: progress}
	stand, err := lab.Stand(ctx, scenario)
	if err != nil {
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
	g := &generated{
		Schema: "powercut-generated/1", Scenario: scenario.Name, Filesystem: string(scenario.Filesystem.Type), Kernel: stand.Machine.Greeting.Release,
		Seed: c.Seed, Unsupported: map[string]int{}, Jobs: given(c.Jobs, runtime.NumCPU()), Ended: "all workloads", Reports: []wrong{},
	}
	progress.Stage("workloads", c.Sample+c.Random)
	begun := time.Now()
	limited := ctx
	if c.Budget > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, c.Budget)
		defer cancel()
	}
	err = batch.Run(limited, stand, workloads, batch.Options{Jobs: g.Jobs, Folder: dir, Seed: c.Seed}, func(o batch.Outcome) {
		if w := g.add(o); w != nil && g.Broken <= shownAtOnce {
			t.fail(fmt.Sprintf("workload %d: %s: %s", w.Workload, w.Ops, w.What), nil)
		}
		progress.Set(g.Workloads)
	})
	g.Seconds = time.Since(begun).Seconds()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		g.Ended, err = "the budget", nil
	}
	if err != nil {
		return err
	}
	slices.SortFunc(g.Reports, func(a, b wrong) int { return a.Workload - b.Workload })
	for i := range g.Reports[:min(len(g.Reports), repeated)] {
		w := &g.Reports[i]
		if len(w.workload) > 1 {
			continue
		}
		doc, err := lab.Run(ctx, alone(scenario, w.Workload, w.workload[0], w.Op), c.Seed)
		if err != nil {
			return err
		}
		w.Folder, w.Held = doc.Folder, doc.Held
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
	w := wrong{Workload: o.Number, Ops: inWords(o.Workload), Thread: 1, workload: o.Workload}
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
		switch {
		case r.Folder != "" && r.Held:
			fmt.Fprintf(&b, "  a run of it alone kept all: %s\n", r.Folder)
		case r.Folder != "":
			fmt.Fprintf(&b, "  so does a run of it alone: %s\n", r.Folder)
		}
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
