// Package regular opens files that a user names as an image or a module, which may be
// anything.
package regular

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ErrNot says that what a path names is there, and no regular file.
var ErrNot = errors.New("not a regular file")

// Open opens a regular file, or a link to one, for reading. It does not wait for somebody to
// open the other end of a named pipe.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNot}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Check says why Open would not open a file.
func Check(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}
