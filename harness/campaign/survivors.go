package campaign

import (
	"errors"
	"fmt"
	"os"

	"powercut/harness/verdict"
)

// survivors is the recovered file as the run folder keeps it: a verdict.Content. It is
// closed once it is judged.
type survivors struct {
	file *os.File
	size int64
	buf  [verdict.MaxRange]byte
	err  error // the first failure to read: what was judged is not what is there
}

func openSurvivors(path string) (*survivors, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read survivors: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read survivors: %w", err), f.Close())
	}
	return &survivors{file: f, size: info.Size()}, nil
}

// Size implements verdict.Content.
func (s *survivors) Size() int64 { return s.size }

// Range implements verdict.Content.
func (s *survivors) Range(from, to int64) []byte {
	b := s.buf[:to-from]
	if _, err := s.file.ReadAt(b, from); err != nil && s.err == nil {
		s.err = fmt.Errorf("read survivors: %w", err)
	}
	return b
}

// Close closes the file. It fails where not all could be read.
func (s *survivors) Close() error { return errors.Join(s.err, s.file.Close()) }
