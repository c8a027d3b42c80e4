package suite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"powercut/harness/report"
)

// ResultSchema names the version of Result.
const ResultSchema = "powercut/result/1"

// Outcome is what became of a cell.
type Outcome string

// The outcomes.
const (
	Held   Outcome = "held"    // every expectation was met
	NotMet Outcome = "not met" // at least one was not
	Broken Outcome = "broken"  // the harness could not do it, which says nothing about the file system
)

// Result is what became of one cell: a line of results.jsonl.
type Result struct {
	Schema   string           `json:"schema"` // ResultSchema
	Cell     string           `json:"cell"`
	Digest   string           `json:"digest"`             // of the scenario
	Outcome  Outcome          `json:"outcome"`            // of the first run
	Again    Outcome          `json:"again,omitempty"`    // of a second run with the same seed, which follows one that did not hold
	Error    string           `json:"error,omitempty"`    // why it is broken
	Program  string           `json:"program"`            // names the bytes of the powercut that ran it
	Ended    time.Time        `json:"ended"`              //
	Seconds  float64          `json:"seconds"`            // that it took, of the host
	Evidence string           `json:"evidence,omitempty"` // the run folder, absolute or from the folder of results; it may have made room for newer ones
	Run      *report.Document `json:"run,omitempty"`      // absent of a broken one; findings are left out of one that held

	file string
	line int
}

// done tells whether the cell need not be run again.
func (r *Result) done() bool { return r != nil && r.Outcome != Broken }

// place says where the result was read.
func (r *Result) place() string { return fmt.Sprintf("%s:%d", r.file, r.line) }

// Flaky tells whether two runs with the same seed had different outcomes.
func (r *Result) Flaky() bool { return r.Again != "" && r.Again != Broken && r.Again != r.Outcome }

// Folder is a folder of results as it was read.
type Folder struct {
	Path    string
	Plan    Plan
	Results map[string]*Result // by cell; of several the last one that is not broken
	torn    int64              // where the last line begins if it was cut short, else -1
}

// Read reads a folder of results. What cannot be read, or is of another version, is a
// *report.ReadError, or wraps fs.ErrNotExist where it is no such folder.
func Read(dir string) (*Folder, error) {
	p, err := readPlan(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: dir, Plan: p, Results: map[string]*Result{}, torn: -1}
	return f, f.read()
}

func (f *Folder) read() error {
	path := filepath.Join(f.Path, resultsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &report.ReadError{File: path, Message: err.Error()}
	}
	known := map[string]string{}
	for _, e := range f.Plan.Cells {
		known[e.Cell] = e.Digest
	}
	at := int64(0)
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if !ended {
			f.torn = at
			return nil
		}
		r := &Result{file: path, line: number}
		if err := report.Unmarshal(path, line, number, ResultSchema, r); err != nil {
			return err
		}
		if err := f.take(r, known); err != nil {
			return err
		}
		text, at = rest, at+int64(len(line))+1
	}
	return nil
}

// take takes a result in.
func (f *Folder) take(r *Result, known map[string]string) error {
	wrong := func(format string, a ...any) error {
		return &report.ReadError{File: r.file, Line: r.line, Message: fmt.Sprintf(format, a...)}
	}
	digest, is := known[r.Cell]
	switch {
	case !is:
		return wrong("there is no cell %s in the suite %s", r.Cell, f.Plan.Suite)
	case digest != r.Digest:
		return wrong("is of another version of the cell %s: its digest is %s, not %s", r.Cell, r.Digest, digest)
	case r.Outcome != Held && r.Outcome != NotMet && r.Outcome != Broken:
		return wrong("the outcome of %s is %q, which is none of %s, %s and %s", r.Cell, r.Outcome, Held, NotMet, Broken)
	case r.done() && (r.Run == nil || r.Run.Schema != report.Schema):
		return wrong("the run of %s has another schema than %q", r.Cell, report.Schema)
	}
	if r.Evidence != "" && !filepath.IsAbs(r.Evidence) {
		r.Evidence = filepath.Join(f.Path, r.Evidence)
	}
	if r.Run != nil {
		r.Run.Folder = r.evidence()
	}
	old := f.Results[r.Cell]
	if old.done() && r.done() && old.Outcome != r.Outcome {
		return wrong("says %s %s, and %s says %s", r.Cell, r.Outcome, old.place(), old.Outcome)
	}
	if !old.done() {
		f.Results[r.Cell] = r
	}
	return nil
}

// evidence is where the run folder is; empty where there is none, or none any more.
func (r *Result) evidence() string {
	if r.Evidence == "" {
		return ""
	}
	if _, err := os.Stat(r.Evidence); err != nil {
		return ""
	}
	return r.Evidence
}

// Ordered lists the results in the order of the suite.
func (f *Folder) Ordered() []*Result {
	var list []*Result
	for _, e := range f.Plan.Cells {
		if r := f.Results[e.Cell]; r != nil {
			list = append(list, r)
		}
	}
	return list
}
