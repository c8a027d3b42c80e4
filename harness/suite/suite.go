// Package suite carries out suites: many runs, of which each leaves one line in a
// folder as it ends.
//
// The folder can be killed at and gone on with, and several of them, each with a
// share of the suite, can be joined. It holds
//
//	suite.json       the cells of the whole suite, and which share this is
//	results.jsonl    one Result a line, in the order in which they ended
//	evidence/CELL/   the run folders of a cell that did not hold
//
// What is written is there as a whole: the line of a result is appended in one write,
// and one that was cut short, which is the last and has no end, is as if it had never
// been.
package suite

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"powercut/harness/report"
	"powercut/scenarios"
)

// PlanSchema names the version of Plan.
const PlanSchema = "powercut/suite/1"

// The files of a folder.
const (
	planFile       = "suite.json"
	resultsFile    = "results.jsonl"
	evidenceFolder = "evidence"
)

// Plan is what a folder of results is of.
type Plan struct {
	Schema string      `json:"schema"` // PlanSchema
	Suite  string      `json:"suite"`  // its name
	About  string      `json:"about,omitempty"`
	Share  Share       `json:"share"`            // which cells this folder is for
	Merged int         `json:"merged,omitempty"` // of so many folders it was made; 0: it is no merged one
	Cells  []PlanEntry `json:"cells"`            // all cells of the suite, whatever the share
}

// PlanEntry is a cell of a suite.
type PlanEntry struct {
	Cell   string `json:"cell"`   // its name
	Digest string `json:"digest"` // of its scenario
}

// NewPlan is the plan of a share of a suite.
func NewPlan(s *scenarios.Suite, cells []scenarios.Cell, share Share) Plan {
	p := Plan{Schema: PlanSchema, Suite: s.Name, About: s.About, Share: share}
	for _, c := range cells {
		p.Cells = append(p.Cells, PlanEntry{c.Name(), c.Digest})
	}
	return p
}

// same says where the cells of two plans differ; empty: nowhere.
func (p Plan) same(q Plan) string {
	if p.Suite != q.Suite {
		return fmt.Sprintf("is of the suite %s, not %s", q.Suite, p.Suite)
	}
	for i := range max(len(p.Cells), len(q.Cells)) {
		if i >= len(p.Cells) || i >= len(q.Cells) {
			return fmt.Sprintf("has %d cells, not %d: it is of another version of the suite %s", len(q.Cells), len(p.Cells), p.Suite)
		}
		if a, b := p.Cells[i], q.Cells[i]; a != b {
			return fmt.Sprintf("has the cell %s of digest %s where there is %s of %s: it is of another version of the suite %s", b.Cell, b.Digest, a.Cell, a.Digest, p.Suite)
		}
	}
	return ""
}

// readPlan reads the plan of a folder. What cannot be read is a *report.ReadError;
// where there is none it wraps fs.ErrNotExist.
func readPlan(dir string) (Plan, error) {
	var p Plan
	path := filepath.Join(dir, planFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("read suite folder: %s: there is no %s: %w", dir, planFile, fs.ErrNotExist)
	}
	if err != nil {
		return p, &report.ReadError{File: path, Message: err.Error()}
	}
	return p, report.Unmarshal(path, b, 1, PlanSchema, &p)
}

// Share is a part of a suite: of Of parts number I, from 0. A suite as a whole is
// part 0 of 1.
type Share struct{ I, Of int }

// MaxShares bounds Share.Of.
const MaxShares = 10_000

// ParseShare reads "2/8".
func ParseShare(text string) (Share, error) {
	i, of, ok := strings.Cut(text, "/")
	a, err1 := strconv.Atoi(i)
	b, err2 := strconv.Atoi(of)
	if !ok || err1 != nil || err2 != nil || a < 0 || a >= b || b > MaxShares {
		return Share{}, fmt.Errorf("%q is no share; write i/n, where i counts from 0 and is less than n, such as 0/4", text)
	}
	return Share{a, b}, nil
}

// String writes a share as ParseShare reads it.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.I, s.Of) }

// MarshalText writes it into JSON.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads it.
func (s *Share) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShare(string(text))
	return err
}

// Cells returns those of a suite's cells that belong to the share, in the order of the
// suite. It depends on the names of the cells alone, which hold the seeds, and not on
// their order: they are dealt like cards in the order of their hashes, so that shares
// differ by one cell at most, and cells that take long, which are often neighbours,
// are spread.
func (s Share) Cells(all []scenarios.Cell) []scenarios.Cell {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name()
	}
	mine := s.names(names)
	return slices.DeleteFunc(slices.Clone(all), func(c scenarios.Cell) bool { return !mine[c.Name()] })
}

// names picks the share's names.
func (s Share) names(all []string) map[string]bool {
	dealt := slices.Clone(all)
	slices.SortFunc(dealt, func(a, b string) int { return cmp.Or(cmp.Compare(hash(a), hash(b)), cmp.Compare(a, b)) })
	mine := map[string]bool{}
	for i := s.I; i < len(dealt); i += s.Of {
		mine[dealt[i]] = true
	}
	return mine
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
