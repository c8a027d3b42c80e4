// Package whole writes files that are there as a whole, or not at all.
package whole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoReader says that a named pipe is to be written, and nobody reads it.
var ErrNoReader = errors.New("it is a pipe, and nobody reads it; start what reads it first")

// Write is WriteContext for paths that are the program's own.
func Write(path string, write func(*os.File) error) error {
	return WriteContext(context.Background(), path, write)
}

// WriteContext writes a file under another name in the same folder first, and puts it on
// the disk. If that fails what was at path is as it was. Where path is a symbolic link, the
// file that it names is written; a device or a pipe stays one, and is given the content
// once there is all of it. A pipe that nobody reads is ErrNoReader at once; one whose reader
// is slow is waited for until ctx ends.
func WriteContext(ctx context.Context, path string, write func(*os.File) error) (err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // there is nothing yet
	case info.IsDir():
		return fmt.Errorf("write %s: it is a folder", path)
	case !info.Mode().IsRegular():
		return pour(ctx, path, info.Mode(), write)
	default:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// pour writes to what is no file: what is made in a temporary file goes there at once.
func pour(ctx context.Context, path string, mode fs.FileMode, write func(*os.File) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	out, err := open(path, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	f, err := os.CreateTemp("", "powercut-write-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = out.SetWriteDeadline(time.Unix(1, 0)) }) // of a pipe; a device has none, and needs none
	defer stop()
	if _, err = io.Copy(out, f); ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

// open opens a device or a pipe. To open a pipe blocks until there is a reader, unless it is
// asked not to (fifo(7)).
func open(path string, mode fs.FileMode) (*os.File, error) {
	if mode&fs.ModeNamedPipe == 0 {
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil, ErrNoReader
	}
	return f, err
}

// WriteJSON writes a value as an indented JSON document.
func WriteJSON(path string, v any) error {
	return Write(path, func(f *os.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}
