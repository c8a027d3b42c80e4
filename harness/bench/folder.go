package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folderPrefix begins the names of work folders.
const folderPrefix = "bench-"

// folder is a private folder for all that a bench writes. As long as its owner
// lives it is locked (flock(2)).
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a work folder in the cache, and removes those of owners that
// were killed.
func newFolder() (*folder, error) {
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	stale, err := filepath.Glob(filepath.Join(root, folderPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("make work folder: %w", err)
	}
	for _, path := range stale {
		if f, err := lockFolder(path); err == nil {
			err = (&folder{path, f}).remove()
			if err != nil {
				return nil, err
			}
		}
	}
	path, err := os.MkdirTemp(root, fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("make work folder: %w", err)
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock work folder: %w", err), os.RemoveAll(path))
	}
	return &folder{path, lock}, nil
}

// lockFolder locks a folder, or fails at once where another process has.
func lockFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// remove deletes the folder with all that is in it.
func (f *folder) remove() error {
	defer f.lock.Close()
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("remove work folder: %w", err)
	}
	return nil
}
