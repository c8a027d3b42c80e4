// Package recording opens block logs that are there already, those of runs and
// those that were imported, and makes of them what a reader wants: lines, crash
// images, logs for other tools, a comparison with what another tool has logged.
package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/internal/whole"
	"powercut/harness/logwrites"
	"powercut/harness/trace"
)

// Recording is a block log with what is known beside it. Close it.
type Recording struct {
	Folder string
	Log    *blocklog.Log
	// Damage says where the log ends before its time. Log holds the events before it.
	Damage *blocklog.Damage // nil: nowhere
	// Cut is the position at which the power was cut: the end of an imported log, and
	// of a damaged one.
	Cut     int
	Marks   []logwrites.Position // begins and ends of ops; in an import, its own marks
	Records []ledger.Record      // none in an import

	call *campaign.PastCall // nil in an import
	past *campaign.Past     // nil in an import
	base string             // path, or empty: a drive of zeros
}

// NotFoundError says that a path names no recording, or more than one.
type NotFoundError struct{ text string }

func (e *NotFoundError) Error() string { return e.text }

func notFound(format string, args ...any) error {
	return &NotFoundError{fmt.Sprintf("open recording: "+format, args...)}
}

// Open opens what path names: the folder of a run's call, that of a run with one
// call, or that of an import. A path that names nothing of the kind is a
// *NotFoundError; a damaged log is none.
func Open(path string) (*Recording, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	switch {
	case isImport(path):
		return openImport(path)
	case campaign.IsRun(path):
		return openRun(path, "")
	case campaign.IsRun(filepath.Dir(path)):
		return openRun(filepath.Dir(path), filepath.Base(path))
	}
	return nil, notFound("%s is neither the folder of a run, nor that of one of its calls, nor an import", path)
}

// openRun opens one call of a run; without a name, its only one.
func openRun(folder, name string) (*Recording, error) {
	past, err := campaign.Open(folder)
	if err != nil {
		return nil, err
	}
	if name == "" && len(past.Calls) != 1 {
		return nil, notFound("%s has %d recordings; add one: %s", folder, len(past.Calls), past.CallNames())
	}
	for _, plan := range past.Calls {
		if name != "" && string(plan.Call) != name {
			continue
		}
		c, err := past.Call(plan)
		if err != nil {
			return nil, err
		}
		if c.Damage != nil { // the ledger knows of acks at places that are not there
			c.Records = c.Records[:min(acked(c.Log.Events), uint64(len(c.Records)))]
		}
		return &Recording{
			Folder: c.Folder, Log: c.Log, Damage: c.Damage, Cut: c.Cut, Records: c.Records,
			Marks: logwrites.Marks(c.Log.Events[:c.Cut], c.Records), call: c, past: past,
		}, nil
	}
	return nil, notFound("%s has no recording %s; it has: %s", folder, name, past.CallNames())
}

// acked is the number of records that the last event counts.
func acked(events []blocklog.Event) uint64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Acked
}

// cutMark is the mark that stands at the cut in an export.
func (r *Recording) cutMark() string {
	switch {
	case r.Damage != nil:
		return logwrites.DamageMark
	case r.call == nil:
		return ""
	}
	return logwrites.CutMark
}

// Call is the recording of a run's sync call; nil for an import.
func (r *Recording) Call() *campaign.PastCall { return r.call }

// Close closes the log.
func (r *Recording) Close() error { return r.Log.Close() }

// Base is the drive's content at first. Close it.
type Base interface {
	io.ReaderAt
	io.Closer
}

// OpenBase opens the drive's content at first: the image of that path, or where it
// is empty the run's formatted disk, or what the import was given.
func (r *Recording) OpenBase(ctx context.Context, path string) (Base, error) {
	var err error
	switch {
	case path != "":
	case r.past != nil:
		path, err = r.past.Base(ctx)
	case r.base != "":
		path = r.base
	default:
		return zeros{}, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open base image: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size != r.Log.Size {
		err = fmt.Errorf("it has %d bytes, the drive of this log %d", size, r.Log.Size)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open base image %s: %w", path, err)
	}
	return f, nil
}

// zeros is a drive that was never written.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
func (zeros) Close() error { return nil }

// Fate is the policy and seed by which the run's own cut built its crash state; for
// an import, lose.
func (r *Recording) Fate() (crash.Policy, uint64) {
	if r.call == nil {
		return crash.Lose, 1
	}
	return r.call.Policy()
}

// End is where At finds the cut, or the end of an import.
const End = "end"

// At resolves a place in the log: a position, End, or the text of a mark, such as
// "ack op 17". Where the log is damaged, only what lies before the damage is a
// place in it.
func (r *Recording) At(place string) (int, error) {
	if place == End {
		if r.Damage != nil {
			return 0, fmt.Errorf("find the end: %w", r.Damage)
		}
		return r.Cut, nil
	}
	if n, err := strconv.Atoi(place); err == nil {
		switch {
		case n > len(r.Log.Events) && r.Damage != nil:
			return 0, fmt.Errorf("find position %d: %w", n, r.Damage)
		case n < 0 || n > len(r.Log.Events):
			return 0, notFound("position %d is not in the log; it has 0 to %d", n, len(r.Log.Events))
		}
		return n, nil
	}
	for _, m := range r.Marks {
		if m.Text == place {
			return m.Position, nil
		}
	}
	if r.Damage != nil {
		return 0, fmt.Errorf("find mark %q: it is not before the damage: %w", place, r.Damage)
	}
	return 0, notFound("%q is neither a position, nor %q, nor a mark of this log, such as %q", place, End, r.exampleMark())
}

func (r *Recording) exampleMark() string {
	if len(r.Marks) == 0 {
		return "ack op 1"
	}
	return r.Marks[len(r.Marks)-1].Text
}

// Trace reads the log up to the cut. Without a plan, as in an import, no write is
// told to be data.
func (r *Recording) Trace(base io.ReaderAt) (*trace.Trace, error) {
	if r.call != nil {
		return r.call.Trace(base)
	}
	t, err := trace.Read(trace.Input{Events: r.Log.Events, Payload: r.Log, Base: base, CacheAdvertised: true})
	if err != nil {
		return nil, fmt.Errorf("read the block log: %w", err)
	}
	return t, nil
}

// ErrTwoDisks says that a log cannot be had in the format of dm-log-writes, in which a flush
// is for all that was written.
var ErrTwoDisks = errors.New("the drive was two disks, of which each was flushed by itself, and the format of dm-log-writes knows one")

// oneDisk fails with ErrTwoDisks where the log is that of two.
func (r *Recording) oneDisk() error {
	two := r.past != nil && r.past.Scenario.Filesystem.ExternalJournal > 0
	if two || slices.ContainsFunc(r.Log.Events, func(e blocklog.Event) bool { return e.Op == blocklog.Flush && e.Length > 0 }) {
		return ErrTwoDisks
	}
	return nil
}

// Export writes the log up to the cut into a new file, in the format of
// dm-log-writes, and returns the number of its entries. Where the log is damaged the
// file holds what comes before, and the error is a *blocklog.Damage.
func (r *Recording) Export(ctx context.Context, path string) (entries uint64, err error) {
	if err := r.oneDisk(); err != nil {
		return 0, fmt.Errorf("export block log: %w", err)
	}
	err = whole.WriteContext(ctx, path, func(f *os.File) error {
		w, err := logwrites.NewWriter(f, logwrites.SectorSize)
		if err != nil {
			return err
		}
		if err := logwrites.Export(w, r.Log, r.Cut, r.Marks, r.cutMark()); err != nil {
			return err
		}
		entries = w.Entries()
		return w.Close()
	})
	if err != nil {
		return 0, fmt.Errorf("export block log: %w", err)
	}
	if r.Damage != nil {
		return entries, r.Damage
	}
	return entries, nil
}
