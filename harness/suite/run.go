package suite

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"powercut/harness/report"
	"powercut/scenarios"
)

// Runner carries a cell out and leaves its run folder in a folder that it makes. An
// error means that the harness could not do it. A Runner is for one goroutine.
type Runner func(ctx context.Context, c scenarios.Cell, folder string) (*report.Document, error)

// Options say how a suite is run.
type Options struct {
	Program string // names the bytes of the powercut that runs
	Confirm bool   // run a cell that did not hold a second time, with the same seed
	// Ended is told of each result, by one goroutine at a time, with the number of
	// those that there are.
	Ended func(r *Result, done int)
}

// Run runs the cells of the store's share that have no result yet, as many at once as
// there are runners. A cell that the harness could not do has a result that says so,
// and the others go on. An error means that the work was interrupted, or results
// cannot be kept; what has ended is kept.
func (s *Store) Run(ctx context.Context, all []scenarios.Cell, runners []Runner, o Options) error {
	cells := slices.DeleteFunc(s.Plan.Share.Cells(all), func(c scenarios.Cell) bool { return s.Results[c.Name()].done() })
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan scenarios.Cell)
	go func() {
		defer close(next)
		for _, c := range cells {
			select {
			case next <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	var working sync.WaitGroup
	var telling sync.Mutex
	done := len(s.Plan.Share.Cells(all)) - len(cells)
	for _, run := range runners {
		working.Go(func() {
			for c := range next {
				r, err := s.cell(ctx, c, run, o)
				if err == nil {
					err = s.add(r)
				}
				if err != nil {
					stop(err)
					return
				}
				telling.Lock()
				done++
				o.Ended(r, done)
				telling.Unlock()
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}

// cell runs a cell. It fails where the work is interrupted, or evidence cannot be
// dropped.
func (s *Store) cell(ctx context.Context, c scenarios.Cell, run Runner, o Options) (*Result, error) {
	begun := time.Now()
	dir := s.evidenceOf(c.Name())
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("drop evidence: %w", err)
	}
	r := &Result{Schema: ResultSchema, Cell: c.Name(), Digest: c.Digest, Program: o.Program}
	doc, err := run(ctx, c, dir)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil && doc.Unjudged() {
		err = report.ErrBusy
	}
	r.Outcome = outcomeOf(doc, err)
	if r.Outcome == NotMet && o.Confirm {
		second, err := run(ctx, c, dir)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Again = outcomeOf(second, err)
	}
	r.Ended, r.Seconds = time.Now().UTC().Truncate(time.Millisecond), time.Since(begun).Seconds()
	switch r.Outcome {
	case Broken:
		r.Error = err.Error()
		r.Evidence = filepath.Join(evidenceFolder, c.Name())
		return r, nil
	case NotMet:
		r.Run = doc
		r.Evidence = filepath.Join(evidenceFolder, c.Name(), filepath.Base(doc.Folder))
		return r, nil
	}
	r.Run = withoutFindings(doc)
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("drop evidence: %w", err)
	}
	return r, nil
}

func outcomeOf(doc *report.Document, err error) Outcome {
	switch {
	case err != nil:
		return Broken
	case doc.Held:
		return Held
	}
	return NotMet
}

// withoutFindings copies a run that held without the ops that its scenario expects to
// be lost, of which there can be thousands.
func withoutFindings(doc *report.Document) *report.Document {
	d := *doc
	d.Calls = slices.Clone(doc.Calls)
	for i := range d.Calls {
		d.Calls[i].Findings = []report.Finding{}
	}
	return &d
}

// byEnd lists results in the order in which they ended.
func byEnd(results map[string]*Result) []*Result {
	var list []*Result
	for _, r := range results {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Result) int { return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.Cell, b.Cell)) })
	return list
}
