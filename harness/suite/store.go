package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"powercut/harness/internal/whole"
	"powercut/images/cache"
)

// Store is a folder of results that is being written. Its methods may be called by
// several goroutines.
type Store struct {
	*Folder

	mu   sync.Mutex // guards what follows, and Results
	file *os.File   // results.jsonl, locked
	size int64      // of the file
	keep int64      // bytes of evidence that are kept
	kept []evidence // the oldest first
}

// evidence is a cell's folder, and what it takes on the disk.
type evidence struct {
	dir   string
	bytes int64
}

// UsageError says that a folder is not what it was taken for.
type UsageError struct{ Dir, Message string }

func (e *UsageError) Error() string { return fmt.Sprintf("use folder %s: %s", e.Dir, e.Message) }

// Open makes a folder of results or, where resume is set, goes on with one, of the
// same plan. Evidence is kept up to keep bytes. A folder that is not what it should be
// is a *UsageError or a *report.ReadError.
func Open(dir string, p Plan, resume bool, keep int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of results: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, resultsFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	s := &Store{file: file, keep: keep}
	if err := s.begin(dir, p, resume); err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) begin(dir string, p Plan, resume bool) error {
	if err := unix.Flock(int(s.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &UsageError{dir, "another powercut is at work in it"}
	}
	old, err := Read(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := whole.WriteJSON(filepath.Join(dir, planFile), p); err != nil {
			return err
		}
		if old, err = Read(dir); err != nil {
			return err
		}
	case err != nil:
		return err
	case !resume:
		return &UsageError{dir, "it holds results already; --resume goes on with them"}
	case old.Plan.Merged > 0:
		return &UsageError{dir, "it was merged from other folders; go on with those"}
	}
	if differs := p.same(old.Plan); differs != "" {
		return &UsageError{dir, "it " + differs}
	}
	if old.Plan.Share != p.Share {
		return &UsageError{dir, fmt.Sprintf("it is for share %s, not %s", old.Plan.Share, p.Share)}
	}
	s.Folder = old
	return s.tidy()
}

// tidy drops what a killed run has left: a line that was cut short, and the evidence
// of cells that have no result.
func (s *Store) tidy() error {
	if s.torn >= 0 {
		if err := s.file.Truncate(s.torn); err != nil {
			return fmt.Errorf("drop unfinished result: %w", err)
		}
	}
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("measure results: %w", err)
	}
	s.size = info.Size()
	needed := map[string]bool{}
	for _, r := range s.Results {
		needed[r.Cell] = r.done() && r.Outcome != Held
	}
	dirs, err := os.ReadDir(filepath.Join(s.Path, evidenceFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list evidence: %w", err)
	}
	for _, d := range dirs {
		if needed[d.Name()] {
			continue
		}
		if err := os.RemoveAll(s.evidenceOf(d.Name())); err != nil {
			return fmt.Errorf("drop evidence: %w", err)
		}
	}
	return s.weigh()
}

// weigh measures the evidence that is there already, in the order of the results.
func (s *Store) weigh() error {
	for _, r := range byEnd(s.Results) {
		dir := s.evidenceOf(r.Cell)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		n, err := cache.DiskUsage(dir)
		if err != nil {
			return err
		}
		s.kept = append(s.kept, evidence{dir, n})
	}
	return nil
}

// evidenceOf is the folder for a cell's run folders.
func (s *Store) evidenceOf(cell string) string {
	return filepath.Join(s.Path, evidenceFolder, cell)
}

// add appends a result, and drops evidence that has no room.
func (s *Store) add(r *Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("keep result of %s: %w", r.Cell, err)
	}
	line = append(line, '\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.append(line); err != nil {
		return fmt.Errorf("keep result of %s: %w", r.Cell, err)
	}
	var back Result // as it will be read again
	if err := json.Unmarshal(line, &back); err != nil {
		return fmt.Errorf("keep result of %s: %w", r.Cell, err)
	}
	if back.Evidence != "" {
		back.Evidence = filepath.Join(s.Path, back.Evidence)
	}
	if back.Run != nil {
		back.Run.Folder = back.evidence()
	}
	s.Results[r.Cell] = &back
	if r.Outcome == Held {
		return nil
	}
	return s.makeRoom(s.evidenceOf(r.Cell))
}

// append writes a line, and puts it on the disk. What cannot be written as a whole is
// taken back.
func (s *Store) append(line []byte) error {
	_, err := s.file.Write(line)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(len(line))
	return nil
}

// makeRoom takes new evidence in, and drops the oldest until it all fits.
func (s *Store) makeRoom(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil // a cell can break before there is any
	}
	n, err := cache.DiskUsage(dir)
	if err != nil {
		return err
	}
	s.kept = append(s.kept, evidence{dir, n})
	for range excess(s.kept, s.keep) {
		if err := os.RemoveAll(s.kept[0].dir); err != nil {
			return fmt.Errorf("drop evidence: %w", err)
		}
		s.kept = s.kept[1:]
	}
	return nil
}

// excess is how many of the oldest must go for the rest to fit. The newest stays,
// whatever it takes.
func excess(kept []evidence, limit int64) int {
	sum := int64(0)
	for i := len(kept) - 1; i >= 0; i-- {
		sum += kept[i].bytes
		if sum > limit && i < len(kept)-1 {
			return i + 1
		}
	}
	return 0
}

// Close ends the work on the folder.
func (s *Store) Close() error { return s.file.Close() }
