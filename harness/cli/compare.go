package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"powercut/harness/compare"
	"powercut/harness/report"
	"powercut/harness/report/format"
)

type compareCommand struct {
	Old       string `arg:"" help:"A run folder, a folder of run folders, or a JSON report."`
	New       string `arg:"" help:"The same, of the runs that are held against them."`
	Threshold string `help:"What a latency or bill may rise by, such as 10% or 0.1. Default: 10%; for latencies of drives without a timing model 100%, of which the drive must account for half." placeholder:"SHARE"`
	Explain   bool   `help:"Say what each column means."`
	Quiet     bool   `short:"q" help:"Print the last line alone."`
	reportFlags
}

// Help says what counts, and what the exit code means.
func (*compareCommand) Help() string {
	return "Verdicts are compared first, then latencies, then bills. A latency is a regression where its median rose by more than " +
		"the threshold and a Mann-Whitney U-test finds the difference significant (p < 0.05); a bill where an op pays at least half a request more, and more than the threshold. " +
		"Exits with 0 where there is no regression, with 1 where there is one, with 2 where something cannot be read or the two have no scenario in common."
}

// Run compares.
func (c *compareCommand) Run(ctx context.Context, s Streams, t *talk) error {
	outputs, err := c.outputs(format.Text, format.JSON, format.Markdown)
	if err != nil {
		return err
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	var sides [2][]*report.Document
	for i, path := range []string{c.Old, c.New} {
		if sides[i], err = stored(path, t); err != nil {
			return err
		}
	}
	got, err := compare.Runs(sides[0], sides[1], o)
	if errors.Is(err, compare.ErrNothing) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	if err := c.print(ctx, s.Out, outputs, got); err != nil {
		return err
	}
	if got.Regressions > 0 {
		return errNotHeld
	}
	return nil
}

func (c *compareCommand) print(ctx context.Context, w io.Writer, outputs []output, got *compare.Comparison) error {
	err := writeOutputs(ctx, w, outputs, func(w io.Writer, o output) error {
		switch o.format {
		case format.JSON:
			return got.JSON(w)
		case format.Markdown:
			return got.Markdown(w)
		}
		return got.Text(w, compare.View{Explain: c.Explain})
	})
	if err != nil || printed(outputs) {
		return err
	}
	return got.Text(w, compare.View{Colour: colour(w), Explain: c.Explain, Quiet: c.Quiet})
}

func (c *compareCommand) options() (compare.Options, error) {
	if c.Threshold == "" {
		return compare.Options{}, nil
	}
	number, percent := strings.CutSuffix(c.Threshold, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1000) {
		return compare.Options{}, &usageError{fmt.Errorf("--threshold: %q is no share from 0%% to 100000%%, such as 10%% or 0.1", c.Threshold)}
	}
	return compare.Options{Threshold: &share}, nil
}

// stored reads runs that are over, and tells of those that never were.
func stored(path string, t *talk) ([]*report.Document, error) {
	s, err := report.Read(path)
	if err != nil {
		return nil, &usageError{err}
	}
	for _, folder := range s.Unfinished {
		t.Warn("left out: a run folder without a report", "folder", folder)
	}
	return s.Runs, nil
}
