// Package whole writes files that are there as a whole, or not at all.
package whole

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write writes a file under another name in the same folder first, and puts it on the
// disk. If that fails what was at path is as it was. Where path is a symbolic link, the
// file that it names is written; a device or a pipe stays one, and is given the content
// once there is all of it.
func Write(path string, write func(*os.File) error) (err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // there is nothing yet
	case info.IsDir():
		return fmt.Errorf("write %s: it is a folder", path)
	case !info.Mode().IsRegular():
		return pour(path, write)
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
func pour(path string, write func(*os.File) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
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
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return errors.Join(err, out.Close())
}

// WriteJSON writes a value as an indented JSON document.
func WriteJSON(path string, v any) error {
	return Write(path, func(f *os.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}
