package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"powercut/guest/ops"
	"powercut/harness/batch"
	"powercut/harness/generate"
	"powercut/harness/model"
	"powercut/scenarios"
)

type generateCommand struct {
	Scenario string        `arg:"" optional:"" default:"generated" help:"What the workloads are put into: a scenario of ops. Its file system, drive, guest and policy hold for all. Default: generated."`
	Length   int           `help:"All workloads of so many ops, 1 to 3, sync calls not counted." placeholder:"N" xor:"which"`
	Random   int           `help:"So many random workloads, from the seed." positive:"" placeholder:"N" xor:"which"`
	Size     int           `help:"Ops of a random workload, sync calls included." default:"30" needs:"random" placeholder:"N"`
	Threads  int           `help:"Threads of a random workload, each with that many ops and a directory of its own." default:"1" needs:"random" placeholder:"N"`
	Ops      []string      `help:"Kinds of ops, with commas between: ${kinds}. Default: all." needs:"length" placeholder:"KIND"`
	Syncs    []string      `help:"Sync calls after an op: ${syncs}. Default: all." needs:"length" placeholder:"CALL"`
	Unsynced bool          `help:"Each workload a second time, without a sync of what it finds there." needs:"length"`
	Sample   int           `help:"Of all workloads so many, drawn by the seed." needs:"length" positive:"" placeholder:"N"`
	Seed     uint64        `help:"What is drawn follows from it, and the bytes that ops write." default:"1" placeholder:"N"`
	Output   string        `short:"o" help:"Write each workload into this folder, as a scenario of its own." placeholder:"DIR" makes:"folder"`
	Carry    bool          `name:"run" help:"Carry them out, and judge what a cut right after each sync call leaves."`
	Budget   time.Duration `help:"For how long to carry them out, at most. Default: until all are done." needs:"run" positive:"" placeholder:"TIME"`
	Module   []string      `help:"A kernel module of one's own, in place of the kernel's. May be repeated." needs:"run" placeholder:"FILE.ko" type:"existingfile" sep:"none"`
	workFlags
}

// Help says what is generated, and what the exit code means.
func (*generateCommand) Help() string {
	return "Without --run and --output prints the workloads, one a line. " +
		"Those of a length are sequences of ops over two directories and six files, as CrashMonkey's ACE makes them: what they need is made first and synced, " +
		"and a sync call comes after the last op, and after others fsync, sync or none. " +
		"With --run many share a guest, each with a freshly formatted disk; a state that breaks a promise is recovered again by a fresh guest, and the first ones are run again as scenarios, with a run folder; random ones are made small before. " +
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
	if c.Kernel = run.Kernel; c.Kernel != "" && !c.Carry { // one's own, now that others stand in the scenario
		return &usageError{errors.New("--kernel with an image of one's own goes with --run")}
	}
	if c.Carry && list[0].Drive.DropsFUA() {
		return &usageError{fuaDropped(list[0])}
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
	return c.carryOut(ctx, s, t, list[0], workloads)
}

func (c *generateCommand) check() error {
	switch {
	case c.Length == 0 && c.Random == 0:
		return errors.New("--length or --random says which workloads are wanted")
	case c.Length < 0 || c.Length > generate.MaxLength:
		return fmt.Errorf("--length %d: allowed are 1 to %d; for longer ones there is --random", c.Length, generate.MaxLength)
	case c.Size < 1 || c.Size > ops.MaxOps:
		return fmt.Errorf("--size %d: allowed are 1 to %d", c.Size, ops.MaxOps)
	case c.Threads < 1 || c.Threads > maxThreads:
		return fmt.Errorf("--threads %d: allowed are 1 to %d", c.Threads, maxThreads)
	case c.Threads > 1 && c.Output != "":
		return errors.New("--threads does not go with --output: a scenario's ops have one thread")
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

// nameOf is the name of workload n as a scenario.
func nameOf(s scenarios.Scenario, n int) string { return fmt.Sprintf("%s-%06d", s.Name, n) }

// alone is the scenario of one workload, with the power cut at the ack of op k.
func alone(s scenarios.Scenario, n int, list []ops.Op, k int) scenarios.Scenario {
	s.Name, s.About = nameOf(s, n), "generated"
	s.Workload.Ops, s.Workload.Count = list, len(list)
	s.Cut = scenarios.Cut{Ack: k}
	return s
}
