package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// touch notes that the entry is used now. Where the cache belongs to another
// user that fails, and it is not ours to prune either.
func (e entry) touch() {
	now := time.Now()
	_ = os.Chtimes(e.dir(), now, now)
}

// used is an entry and when it was used last.
type used struct {
	entry
	at time.Time
}

// Prune removes entries of one kind, those first that have not been used for the
// longest time, until no more than keep are left. The entry whose key is spare
// stays, and so does one that somebody is building or removing. Damaged entries
// count and go like others.
func (c *Cache) Prune(ctx context.Context, kind string, keep int, spare string) error {
	spared, err := c.entry(kind, spare)
	if err != nil {
		return err
	}
	all, err := spared.siblings()
	if err != nil {
		return c.explain("prune cache", err)
	}
	slices.SortFunc(all, func(a, b used) int { return a.at.Compare(b.at) })
	for left := len(all); left > keep && len(all) > 0; all = all[1:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if all[0].name == spared.name {
			continue
		}
		gone, err := all[0].evict()
		if err != nil {
			return c.explain("prune cache", err)
		}
		if gone {
			left--
		}
	}
	return nil
}

// siblings lists the entries of e's kind.
func (e entry) siblings() ([]used, error) {
	folders, err := os.ReadDir(e.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []used
	for _, f := range folders {
		if !f.IsDir() || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else prunes as well
		}
		if err != nil {
			return nil, err
		}
		other := e
		other.name = f.Name()
		all = append(all, used{other, info.ModTime()})
	}
	return all, nil
}

// evict removes the entry unless it is locked, or was used since it was listed.
func (u used) evict() (gone bool, err error) {
	lock, err := tryLock(u.lockPath())
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.unlock()
	if info, err := os.Stat(u.dir()); err == nil && info.ModTime().After(u.at) {
		return false, nil
	}
	if err := u.discard(); err != nil {
		return false, err
	}
	return true, lock.drop()
}

// DiskUsage sums what the files below a folder take on the disk, in bytes: holes
// in files do not count. What vanishes meanwhile, or is not there, takes nothing.
func DiskUsage(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				const unit = 512 // of st_blocks, stat(2)
				bytes += info.Sys().(*syscall.Stat_t).Blocks * unit
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure folder: %w", err)
	}
	return bytes, nil
}
