package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"powercut/harness/report"
	"powercut/harness/report/format"
)

type reportCommand struct {
	Runs    []string `arg:"" help:"A run folder, a folder of run folders, or a JSON report; or several of these."`
	Explain bool     `help:"Say what each column of the table means."`
	Full    int      `help:"List so many lost ops of a call one by one." default:"6" placeholder:"N"`
	Plots   string   `help:"Write the plots into this folder, as SVG files; of several runs each into a folder of its own in it." placeholder:"DIR" makes:"folder"`
	reportFlags
}

// Help says what the exit code means.
func (*reportCommand) Help() string {
	return "html of several runs is a list of them, and gives each run folder that has no report.html one. " +
		"Exits with 0 whatever the runs found, with 2 where a report cannot be read, or there is none."
}

// Run makes the reports.
func (c *reportCommand) Run(ctx context.Context, s Streams, t *talk) error {
	outputs, err := c.outputs(formats()...)
	if err != nil {
		return err
	}
	r := format.Results{}
	for _, path := range c.Runs {
		docs, err := stored(path, t)
		if err != nil {
			return err
		}
		r.Runs = append(r.Runs, docs...)
	}
	if len(r.Runs) == 0 {
		return &usageError{errors.New("there is no finished run to report of")}
	}
	r.Several = len(r.Runs) > 1
	if c.Plots != "" {
		if err := c.plots(ctx, r.Runs); err != nil || len(outputs) == 0 {
			return misused(err)
		}
	}
	if !printed(outputs) && len(outputs) == 0 {
		return c.table(s.Out, r)
	}
	return misused(writeOutputs(ctx, s.Out, outputs, func(w io.Writer, o output) error { return write(ctx, w, o, r) }))
}

// plots writes the plots of all runs.
func (c *reportCommand) plots(ctx context.Context, docs []*report.Document) error {
	for _, d := range docs {
		dir := c.Plots
		if len(docs) > 1 {
			dir = filepath.Join(dir, filepath.Base(d.Folder))
		}
		if err := writePlots(ctx, dir, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *reportCommand) table(w io.Writer, r format.Results) error {
	o := report.Options{Colour: colour(w), Explain: c.Explain, Full: c.Full}
	table := func() error { return report.Table(w, r.Runs[0], o) }
	if r.Several {
		table = func() error { return report.Runs(w, r.Runs, o) }
	}
	if err := table(); err != nil {
		return err
	}
	return writeExplored(w, r)
}
