package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/internal/whole"
	"powercut/harness/machine"
	"powercut/harness/recording"
	"powercut/harness/report"
)

// Case is a crash state of a recording, out of a run folder or a bundle. Close it.
type Case struct {
	Call  *campaign.PastCall
	State crash.State
	// Verdict is what was found of the state before; nil where nobody has looked.
	Verdict *report.Call
	Told    []string  // why it fails, in words
	From    *Manifest // of the bundle; nil out of a run folder

	recording *recording.Recording
	folder    string // where the bundle is unpacked; removed by Close
}

// Open opens a case: path is a bundle, or the folder of a run's call, or of a run with
// one call. A state that is not nil takes the place of the bundle's, or of the one that
// the run recovered itself.
func Open(path string, state *crash.State) (_ *Case, err error) {
	c := &Case{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		err = c.unpack(path)
		if err != nil {
			return nil, err
		}
	} else if err := c.openRun(path); err != nil {
		return nil, err
	}
	if state != nil && !state.Equal(c.State) {
		c.State, c.Verdict, c.Told = *state, nil, nil
	}
	if _, err := crash.NewBuilder(machine.Zeros{}, c.Call.Log).Build(c.State); err != nil {
		return nil, &StateError{err}
	}
	if c.State.Cut > c.Call.Cut {
		return nil, &StateError{fmt.Errorf("position %d is behind the cut, which is at %d", c.State.Cut, c.Call.Cut)}
	}
	return c, nil
}

// StateError says that a recording has no such crash state.
type StateError struct{ Err error }

func (e *StateError) Error() string { return e.Err.Error() }
func (e *StateError) Unwrap() error { return e.Err }

func (c *Case) openRun(path string) (err error) {
	if c.recording, err = recording.Open(path); err != nil {
		return err
	}
	if c.Call = c.recording.Call(); c.Call == nil {
		return &StateError{fmt.Errorf("%s is an imported log, which has no workload to judge", path)}
	}
	if d := c.recording.Damage; d != nil { // its end, which the run has judged, is not there
		return fmt.Errorf("open recording %s: %w", path, d)
	}
	if c.State, err = c.Call.OwnState(); err != nil {
		return err
	}
	c.Verdict, err = c.Call.OwnVerdict()
	if errors.Is(err, os.ErrNotExist) {
		err = nil // the run did not come to its end
	}
	return err
}

func (c *Case) unpack(path string) (err error) {
	if c.folder, err = os.MkdirTemp("", "powercut-bundle-"); err != nil {
		return fmt.Errorf("open bundle: %w", err)
	}
	if c.From, err = extract(path, c.folder); err != nil {
		return err
	}
	if c.recording, err = recording.Open(filepath.Join(c.folder, c.From.Call)); err != nil {
		return fmt.Errorf("open bundle %s: %w: %w", path, ErrDamaged, err)
	}
	if d := c.recording.Damage; d != nil {
		return fmt.Errorf("open bundle %s: %w: %w", path, ErrDamaged, d)
	}
	c.Call, c.State, c.Verdict, c.Told = c.recording.Call(), c.From.State, c.From.Verdict, c.From.Told
	return nil
}

// Close closes the recording and removes what was unpacked.
func (c *Case) Close() error {
	var err error
	if c.recording != nil {
		err = c.recording.Close()
	}
	if c.folder != "" {
		err = errors.Join(err, os.RemoveAll(c.folder))
	}
	return err
}

// Write makes a bundle of the case, which has a verdict; base is the path of its
// formatted disk.
func (c *Case) Write(ctx context.Context, path, base string) error {
	doc := c.Call.Past().Document
	m := Manifest{
		Scenario: doc.Scenario, Seed: doc.Seed, Call: string(c.Call.Plan.Call), State: c.State, Verdict: c.Verdict, Told: c.Told,
	}
	files := []source{{campaign.BaseFile, base}}
	for _, name := range c.Call.Files() {
		files = append(files, source{name, filepath.Join(c.Call.Past().Folder, name)})
	}
	err := whole.WriteContext(ctx, path, func(f *os.File) error { return write(f, m, files) })
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}
