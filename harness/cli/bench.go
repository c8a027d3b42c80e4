package cli

import (
	"context"
	"fmt"
	"os"

	"powercut/harness/bench"
	"powercut/harness/report"
)

type benchCommand struct {
	Quick bool   `help:"Take fewer rounds: less sure, and much sooner done."`
	JSON  bool   `name:"json" help:"Print one JSON document in place of the table."`
	QEMU  string `name:"qemu" help:"The QEMU binary." placeholder:"PATH"`

	// The part of the child whose memory is measured.
	Serve     string `hidden:""`
	ServeSize int64  `hidden:""`
}

// Run measures powercut.
func (c *benchCommand) Run(ctx context.Context, s Streams) error {
	if c.Serve != "" {
		return bench.Serve(ctx, c.Serve, c.ServeSize, s.Out)
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find powercut itself: %w", err)
	}
	doc, err := c.measure(ctx, s, binary)
	if err != nil {
		return err
	}
	if c.JSON {
		err = bench.JSON(s.Out, doc)
	} else {
		err = bench.Table(s.Out, doc)
	}
	if err == nil && !doc.Held {
		return errNotHeld
	}
	return err
}

func (c *benchCommand) measure(ctx context.Context, s Streams, binary string) (*bench.Document, error) {
	progress := report.NewProgress(s.Err, isTerminal(s.Err))
	defer progress.Done()
	return bench.Run(ctx, bench.Options{Binary: binary, QEMU: c.QEMU, Quick: c.Quick, Progress: progress})
}
