package batch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"powercut/guest/ledger"
	"powercut/harness/internal/sparse"
	"powercut/harness/internal/whole"
	"powercut/harness/logwrites"
	"powercut/harness/recording"
)

// The files of a workload that went wrong, beside those of package recording, in the
// folder that Options.Evidence names.
const (
	baseFile    = "base.img"    // the disk as it was formatted
	ledgerFile  = "ledger"      // the records of the ops, which of several threads tell of both: ops.Of
	consoleFile = "console.txt" // what the kernel said that ran the ops
	outcomeFile = "outcome.json"
	treeFile    = "tree.json" // of the first state that breaks a promise
	dataFile    = "tree.data" // and the bytes of its files
)

// keep puts a workload's recording into a folder.
func (w *worker) keep(rec *recorded, out *Outcome) error {
	put := func(name string, write func(*os.File) error) error {
		return whole.Write(filepath.Join(out.Evidence, name), write)
	}
	size := w.stand.Scenario.Filesystem.DriveSize()
	err := errors.Join(
		put(baseFile, func(f *os.File) error { return sparse.Copy(f, io.NewSectionReader(w.base, 0, size), size) }),
		put(ledgerFile, func(f *os.File) error { return ledger.Append(f, rec.records) }),
		put(consoleFile, func(f *os.File) error { _, err := f.WriteString(rec.console); return err }),
		whole.WriteJSON(filepath.Join(out.Evidence, outcomeFile), out),
	)
	if s := out.Broken(); s != nil && s.tree != nil {
		err = errors.Join(
			err,
			whole.WriteJSON(filepath.Join(out.Evidence, treeFile), s.tree),
			put(dataFile, func(f *os.File) error { _, err := f.Write(s.tree.Data); return err }),
		)
	}
	if err == nil {
		err = recording.Keep(out.Evidence, rec.path, recording.Origin{
			File: fmt.Sprintf("workload %d", out.Number), Base: filepath.Join(out.Evidence, baseFile), Size: size,
			Imported: logwrites.Imported{Marks: rec.marks(len(out.Workload))},
		})
	}
	if err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	return nil
}

// marks are where ops ended: of several threads with the thread's number.
func (r *recorded) marks(threads int) (out []logwrites.Position) {
	for n, record := range r.records {
		thread, op := place(record, threads)
		record.Op = op
		m := logwrites.Position{Text: logwrites.Ended(record), Position: publishedAt(r.log, n)}
		if threads > 1 {
			m.Text = fmt.Sprintf("thread %d: %s", thread, m.Text)
		}
		out = append(out, m)
	}
	return out
}
