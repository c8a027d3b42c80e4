package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"powercut/harness/explore"
	"powercut/harness/report"
)

// Explored sums up the explorations of a run's calls.
type Explored struct {
	Calls   int // that were explored
	Decided int // states
	Broken  int // of these: they break a promise, or do not recover
}

// ReadExplored sums up what the explorations of a run left in its folder. A run without a
// folder was not explored.
func ReadExplored(d *report.Document) (e Explored, err error) {
	if d.Folder == "" {
		return e, nil
	}
	for _, c := range d.Calls {
		r, err := readExplored(filepath.Join(d.Folder, c.Folder))
		if err != nil {
			return e, err
		}
		e.add(r)
	}
	return e, nil
}

// Explored sums up the explorations of the run.
func (r *Run) Explored() (e Explored) {
	for _, c := range r.Calls {
		e.add(c.Explored)
	}
	return e
}

func (e *Explored) add(r *explore.Report) {
	if r == nil {
		return
	}
	e.Calls++
	e.Decided += r.States.Checked + r.States.Equal + r.States.Pruned
	e.Broken += r.Broken
}

// String says it in one sentence; it is empty where nothing was explored.
func (e Explored) String() string {
	switch {
	case e.Calls == 0:
		return ""
	case e.Broken == 1:
		return fmt.Sprintf("Of %d states of its explorations 1 breaks a promise.", e.Decided)
	case e.Broken > 0:
		return fmt.Sprintf("Of %d states of its explorations %d break a promise.", e.Decided, e.Broken)
	case e.Decided == 0:
		return "Its explorations decided no state."
	}
	return fmt.Sprintf("Of %d states of its explorations none breaks a promise.", e.Decided)
}

// readExplored reads what an exploration left in a call's folder; nil: there was none.
func readExplored(dir string) (*explore.Report, error) {
	var r explore.Report
	err := readJSON(filepath.Join(dir, explore.ReportFile), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &r, err
}
