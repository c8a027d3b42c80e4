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
	tmpPrefix  = ".tmp-"
	oldPrefix  = ".old-"
	lockSuffix = ".lock"
	// lockPoll is how often a held lock is tried again. flock(2) has no wait
	// with a deadline, and a blocked one cannot be called off.
	lockPoll = 25 * time.Millisecond
)

// errLocked says that another process holds a lock, or has just removed it.
var errLocked = errors.New("locked by another process")

// fileLock is a held flock(2). The kernel drops it when its holder dies. Its
// descriptor is close-on-exec, so children of the holder do not keep it.
type fileLock struct{ file *os.File }

func (l fileLock) unlock() { l.file.Close() } //nolint:errcheck // nothing was written

// drop removes the lock's file and gives the lock up. There must be no entry
// that it guards.
func (l fileLock) drop() error {
	defer l.unlock()
	err := os.Remove(l.file.Name())
	if errors.Is(err, os.ErrNotExist) {
		return nil // somebody has removed the whole cache
	}
	return err
}

// current reports whether the file that is locked is still the one at its path.
func (l fileLock) current() bool {
	ours, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(l.file.Name())
	return err == nil && os.SameFile(ours, there)
}

// tryLock takes the lock at path, or returns errLocked at once.
func tryLock(path string) (fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fileLock{}, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && (fileLock{f}).current() {
		return fileLock{f}, nil
	}
	f.Close() //nolint:errcheck // nothing was written
	if err == nil {
		return fileLock{}, errLocked // and at the next try it is a new file
	}
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

func (e entry) lockPath() string { return e.dir() + lockSuffix }

// sweep removes what dead builders have left in this kind's folder: its own
// leftovers, since the caller holds the lock, and those of other entries whose
// lock is free, with that lock where it guards nothing.
func (e entry) sweep() error {
	files, err := os.ReadDir(e.folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		other := e
		if owner, ok := leftoverOf(f.Name()); ok {
			other.name = owner
		} else if other.name, ok = strings.CutSuffix(f.Name(), lockSuffix); !ok || other.there() {
			continue
		}
		if other == e {
			err = e.removeLeftover(f.Name())
		} else {
			err = other.sweepDead(f.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepDead removes a leftover of e, or its lock that guards nothing, unless
// somebody holds that lock.
func (e entry) sweepDead(name string) error {
	lock, err := tryLock(e.lockPath())
	if errors.Is(err, errLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.unlock()
	if err := e.removeLeftover(name); err != nil || e.there() {
		return err
	}
	return lock.drop()
}

// removeLeftover removes a temporary folder of the entry; its lock stays. The
// caller holds the lock.
func (e entry) removeLeftover(name string) error {
	if name == e.name+lockSuffix {
		return nil
	}
	return os.RemoveAll(filepath.Join(e.folder, name))
}

// there reports whether the entry has a folder, whole or not.
func (e entry) there() bool {
	_, err := os.Lstat(e.dir())
	return !errors.Is(err, os.ErrNotExist)
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
	if !e.there() {
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
