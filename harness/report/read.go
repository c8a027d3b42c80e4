package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The files of a run folder that tell of it as a whole: Begun is there before the
// first guest, Finished once all is judged.
const (
	Begun    = "run.json"
	Finished = "report.json"
)

// ReadError says that a path holds no report that can be read, and where it fails.
type ReadError struct {
	File    string
	Line    int // from 1, or 0: the file as a whole
	Message string
}

func (e *ReadError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("read report: %s:%d: %s", e.File, e.Line, e.Message)
	}
	return fmt.Sprintf("read report: %s: %s", e.File, e.Message)
}

// Stored are runs that are over.
type Stored struct {
	Runs []*Document // Folder is where each was found, if it was found in a run folder
	// Unfinished are run folders without a report: the harness failed, was interrupted,
	// or is still at it.
	Unfinished []string
}

// Read reads a run folder, a folder of run folders, or a JSON document of one run or
// of several. What cannot be read is a *ReadError.
func Read(path string) (*Stored, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	s := &Stored{}
	if !info.IsDir() {
		s.Runs, err = readFile(path)
		return s, err
	}
	found, err := s.folder(path)
	if err != nil || found {
		return s, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	for _, e := range entries {
		if _, err := s.folder(filepath.Join(path, e.Name())); err != nil {
			return nil, err
		}
	}
	if len(s.Runs) == 0 {
		return nil, &ReadError{File: path, Message: "holds no report: it is neither a run folder nor a folder of finished runs"}
	}
	return s, nil
}

// folder adds a run folder, and tells whether it is one.
func (s *Stored) folder(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, Begun)); err != nil {
		return false, nil
	}
	docs, err := readFile(filepath.Join(dir, Finished))
	var missing *ReadError
	if _, gone := os.Stat(filepath.Join(dir, Finished)); errors.Is(gone, fs.ErrNotExist) && errors.As(err, &missing) {
		s.Unfinished = append(s.Unfinished, dir)
		return true, nil
	}
	if err != nil {
		return true, err
	}
	for _, d := range docs {
		d.Folder = dir
	}
	s.Runs = append(s.Runs, docs...)
	return true, nil
}

func unreadable(path string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return &ReadError{File: path, Message: err.Error()}
}

// readAll returns what a file holds. It does not wait for somebody to open the other end of a
// named pipe.
func readAll(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// readFile reads a Document or a Combined.
func readFile(path string) ([]*Document, error) {
	b, err := readAll(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, jsonError(path, b, err)
	}
	var all Combined
	switch head.Schema {
	case Schema:
		all.Runs = []*Document{{}}
		err = json.Unmarshal(b, all.Runs[0])
	case SummarySchema:
		err = json.Unmarshal(b, &all)
	default:
		return nil, wrongSchema(path, b, head.Schema)
	}
	if err != nil {
		return nil, jsonError(path, b, err)
	}
	for _, d := range all.Runs {
		if d == nil || d.Schema != Schema {
			return nil, &ReadError{File: path, Message: fmt.Sprintf("holds a run whose schema is not %q", Schema)}
		}
	}
	return all.Runs, nil
}

// Unmarshal reads a JSON text that is the line of a file with that number, or begins
// there, and says in its field schema that it is of the version want. Its error is a
// *ReadError.
func Unmarshal(path string, text []byte, number int, want string, v any) error {
	var head struct {
		Schema string `json:"schema"`
	}
	err := json.Unmarshal(text, &head)
	if err == nil && head.Schema != want {
		at := max(bytes.Index(text, []byte(`"schema"`)), 0)
		return &ReadError{File: path, Line: number - 1 + line(text, int64(at)), Message: fmt.Sprintf("its schema is %q; this powercut reads %q", head.Schema, want)}
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err == nil {
		return nil
	}
	e := jsonError(path, text, err)
	e.Line = number - 1 + max(e.Line, 1)
	return e
}

func wrongSchema(path string, b []byte, found string) error {
	e := &ReadError{File: path, Message: fmt.Sprintf("its schema is %q; this powercut reads %q and %q", found, Schema, SummarySchema)}
	if found == "" {
		e.Message = fmt.Sprintf("has no schema; this powercut reads %q and %q", Schema, SummarySchema)
	} else if at := bytes.Index(b, []byte(`"schema"`)); at >= 0 {
		e.Line = line(b, int64(at))
	}
	return e
}

// jsonError finds the line of a mistake.
func jsonError(path string, b []byte, err error) *ReadError {
	e := &ReadError{File: path, Message: err.Error()}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		e.Line = line(b, syntax.Offset)
	case errors.As(err, &kind):
		e.Line = line(b, kind.Offset)
		e.Message = fmt.Sprintf("%s is a %s, and should be a %s", kind.Field, kind.Value, kind.Type)
	}
	return e
}

// line is the number of the line that the byte at an offset is in, from 1.
func line(b []byte, at int64) int {
	return 1 + bytes.Count(b[:min(max(at, 0), int64(len(b)))], []byte("\n"))
}
