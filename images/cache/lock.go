package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	tmpPrefix = ".tmp-"
	oldPrefix = ".old-"
	// lockPoll is how often a held lock is tried again. flock(2) has no wait
	// with a deadline, and a blocked one cannot be called off.
	lockPoll = 25 * time.Millisecond
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// fileLock is a held flock(2). The kernel drops it when its holder dies. Its
// descriptor is close-on-exec, so children of the holder do not keep it.
type fileLock struct{ file *os.File }

func (l fileLock) unlock() { l.file.Close() } //nolint:errcheck // nothing was written

// tryLock takes the lock at path, or returns errLocked at once.
func tryLock(path string) (fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fileLock{}, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return fileLock{f}, nil
	}
	f.Close() //nolint:errcheck // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fileLock{}, errLocked
	}
	return fileLock{}, &os.PathError{Op: "flock", Path: path, Err: err}
}

// lock waits for the entry's lock, until ctx ends or LockWait is over.
func (c *Cache) lock(ctx context.Context, e entry) (fileLock, error) {
	limit := c.LockWait
	if limit == 0 {
		limit = DefaultLockWait
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		lock, err := tryLock(e.lockPath())
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return fileLock{}, ctx.Err()
		case <-deadline.C:
			return fileLock{}, fmt.Errorf("another process has held %s for %v: end it, or try again when it is done", e.lockPath(), limit)
		case <-tick.C:
		}
	}
}

func (e entry) lockPath() string { return e.dir() + ".lock" }

// sweep removes what dead builders have left in this kind's folder: its own
// leftovers, since the caller holds the lock, and those of other entries whose
// lock is free.
func (e entry) sweep() error {
	files, err := os.ReadDir(e.folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		owner, ok := leftoverOf(f.Name())
		if !ok {
			continue
		}
		path := filepath.Join(e.folder, f.Name())
		if owner == e.name {
			err = os.RemoveAll(path)
		} else {
			err = sweepOther(filepath.Join(e.folder, owner)+".lock", path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepOther removes the leftover at path unless its owner's lock is held.
func sweepOther(lockPath, path string) error {
	lock, err := tryLock(lockPath)
	if errors.Is(err, errLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.unlock()
	return os.RemoveAll(path)
}

// leftoverOf returns the entry that a temporary folder belongs to: its name
// without the prefix and without the random ending.
func leftoverOf(name string) (owner string, ok bool) {
	rest, isTmp := strings.CutPrefix(name, tmpPrefix)
	if !isTmp {
		if rest, ok = strings.CutPrefix(name, oldPrefix); !ok {
			return "", false
		}
	}
	end := strings.LastIndexByte(rest, '-')
	if end <= 0 {
		return "", false
	}
	return rest[:end], true
}

// discard takes the entry's folder away, first by a rename so that nobody sees
// half of it. The caller holds the lock.
func (e entry) discard() error {
	if _, err := os.Lstat(e.dir()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	old, err := os.MkdirTemp(e.folder, oldPrefix+e.name+"-")
	if err != nil {
		return err
	}
	if err := os.Rename(e.dir(), filepath.Join(old, "entry")); err != nil {
		return err
	}
	return os.RemoveAll(old)
}
