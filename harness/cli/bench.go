package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"powercut/harness/bench"
	"powercut/scenarios"
)

// benchCommand measures powercut itself. Its own flags are those of every part.
type benchCommand struct {
	All     benchAll     `cmd:"" default:"withargs" help:"Measure what a run pays: forks, the ledger, the drive, memory."`
	Drive   benchDrive   `cmd:"" help:"Measure the drive: each timing profile against its model, its speed against other drives, the size of logs, and memory over a long run."`
	Explore benchExplore `cmd:"" help:"Measure explorations: states recovered, states decided, growth with the log, memory."`
}

type benchExplore struct{ benchFlags }

// Run measures explorations.
func (c *benchExplore) Run(ctx context.Context, s Streams, t *talk) error {
	doc, err := measured(c.benchFlags, s, t, func(o bench.Options) (*bench.ExploreDocument, error) { return bench.RunExplore(ctx, o) })
	if err != nil {
		return err
	}
	return c.print(s, doc, doc.Held, func(w io.Writer) error { return bench.ExploreTable(w, doc) })
}

// benchFlags are common to the measurements.
type benchFlags struct {
	Quick bool   `help:"Take fewer rounds: less sure, and much sooner done."`
	JSON  bool   `name:"json" help:"Print one JSON document in place of the table."`
	QEMU  string `name:"qemu" help:"The QEMU binary." placeholder:"PATH"`
}

type benchAll struct {
	benchFlags

	// The part of the child whose memory is measured.
	Serve      string `hidden:""`
	ServeSize  int64  `hidden:""`
	ServeJudge bool   `hidden:""`
}

// Run measures powercut.
func (c *benchAll) Run(ctx context.Context, s Streams, t *talk) error {
	if c.Serve != "" {
		return bench.Serve(ctx, c.Serve, c.ServeSize, c.ServeJudge, s.Out)
	}
	doc, err := measured(c.benchFlags, s, t, func(o bench.Options) (*bench.Document, error) { return bench.Run(ctx, o) })
	if err != nil {
		return err
	}
	return c.print(s, doc, doc.Held, func(w io.Writer) error { return bench.Table(w, doc) })
}

// measured measures, and tells of its progress.
func measured[T any](c benchFlags, s Streams, t *talk, measure func(bench.Options) (*T, error)) (*T, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find powercut itself: %w", err)
	}
	progress := t.begin(s)
	defer progress.Done()
	return measure(bench.Options{Binary: binary, QEMU: c.QEMU, Quick: c.Quick, Progress: progress})
}

func (c benchFlags) print(s Streams, doc any, held bool, table func(io.Writer) error) error {
	err := error(nil)
	if c.JSON {
		err = bench.JSON(s.Out, doc)
	} else {
		err = table(s.Out)
	}
	if err == nil && !held {
		return errNotHeld
	}
	return err
}

type benchDrive struct {
	benchFlags
	Part    []string `help:"Only this part: timing, speed, log or memory. May be repeated." enum:"timing,speed,log,memory" placeholder:"PART"`
	Profile string   `help:"The timing profile to test, or all." default:"all" placeholder:"PROFILE"`
	Written string   `help:"What is written while memory is measured." default:"4GiB" placeholder:"SIZE"`
}

// Run measures the drive.
func (c *benchDrive) Run(ctx context.Context, s Streams, t *talk) error {
	o := bench.DriveOptions{Parts: c.Part}
	for _, p := range scenarios.Profiles() {
		if c.Profile == string(p) || c.Profile == "all" && p != scenarios.NoTiming {
			o.Profiles = append(o.Profiles, p)
		}
	}
	if len(o.Profiles) == 0 {
		return &usageError{fmt.Errorf("--profile: there is no timing profile %q; there are all, %v", c.Profile, scenarios.Profiles())}
	}
	written, err := scenarios.ParseSize(c.Written)
	if err != nil || written < 1<<20 {
		return &usageError{fmt.Errorf("--written: %q is no size of 1MiB or more, such as 4GiB", c.Written)}
	}
	o.Written = int64(written)
	doc, err := measured(c.benchFlags, s, t, func(options bench.Options) (*bench.DriveDocument, error) {
		o.Options = options
		return bench.RunDrive(ctx, o)
	})
	if err != nil {
		return err
	}
	return c.print(s, doc, doc.Held, func(w io.Writer) error { return bench.DriveTable(w, doc) })
}
