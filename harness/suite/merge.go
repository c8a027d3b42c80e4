package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"powercut/harness/internal/whole"
	"powercut/harness/report"
)

// Merge joins folders of results of one suite into another folder, which holds no
// results yet or is one that was merged. Evidence stays where it is. Two results that
// claim the same cell with different outcomes are a *report.ReadError, and so is a
// folder of another suite.
func Merge(dirs []string, out string) (*Folder, error) {
	var all []*Folder
	for _, dir := range dirs {
		f, err := Read(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if err := free(out, dirs); err != nil {
		return nil, err
	}
	joined, err := join(all)
	if err != nil {
		return nil, err
	}
	joined.Path = out
	return joined, joined.write()
}

// free tells whether results may be merged into a folder.
func free(out string, dirs []string) error {
	info, err := os.Stat(out)
	for _, dir := range dirs {
		if in, inErr := os.Stat(dir); err == nil && inErr == nil && os.SameFile(info, in) {
			return &UsageError{out, "it is among those that are merged; give another one"}
		}
	}
	p, err := readPlan(out)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && p.Merged > 0:
		return nil
	case err != nil:
		return err
	}
	return &UsageError{out, "it holds results of its own; merge into another one"}
}

// join joins folders.
func join(all []*Folder) (*Folder, error) {
	first := all[0]
	j := &Folder{Plan: first.Plan, Results: map[string]*Result{}, torn: -1}
	j.Plan.Share, j.Plan.Merged = Share{0, 1}, len(all)
	for _, f := range all {
		if differs := first.Plan.same(f.Plan); differs != "" {
			return nil, &report.ReadError{File: filepath.Join(f.Path, planFile), Message: fmt.Sprintf("%s (as %s)", differs, filepath.Join(first.Path, planFile))}
		}
		for _, r := range f.Ordered() {
			old := j.Results[r.Cell]
			if old.done() && r.done() && old.Outcome != r.Outcome {
				return nil, &report.ReadError{File: r.file, Line: r.line, Message: fmt.Sprintf("says %s %s, and %s says %s", r.Cell, r.Outcome, old.place(), old.Outcome)}
			}
			if !old.done() {
				j.Results[r.Cell] = r
			}
		}
	}
	return j, nil
}

// write writes the folder. The plan is there once the results are.
func (f *Folder) write() error {
	var lines bytes.Buffer
	for _, r := range f.Ordered() {
		moved := *r
		if r.Evidence != "" {
			absolute, err := filepath.Abs(r.Evidence)
			if err != nil {
				return fmt.Errorf("merge results: %w", err)
			}
			moved.Evidence = absolute
		}
		line, err := json.Marshal(moved)
		if err != nil {
			return fmt.Errorf("merge results: %w", err)
		}
		lines.Write(append(line, '\n'))
	}
	if err := os.MkdirAll(f.Path, 0o755); err != nil {
		return fmt.Errorf("merge results: %w", err)
	}
	if err := whole.Write(filepath.Join(f.Path, resultsFile), func(file *os.File) error { _, err := lines.WriteTo(file); return err }); err != nil {
		return err
	}
	return whole.WriteJSON(filepath.Join(f.Path, planFile), f.Plan)
}
