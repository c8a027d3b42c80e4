// Package cache keeps what is costly to build (kernels, formatted disks,
// tools for the guest) in the user's cache folder, under content keys.
//
// The shape on disk:
//
//	ROOT/KIND/NAME/              one entry: the files its builder made
//	ROOT/KIND/NAME/manifest.json its completion manifest, written last
//	ROOT/KIND/NAME.lock          lock of the entry, flock(2)
//	ROOT/KIND/.tmp-NAME-XXXX/    an entry being built
//	ROOT/KIND/.old-NAME-XXXX/    an entry on its way out
//	ROOT/scratch/.tmp-NAME-XXXX/ a folder of Scratch
//
// NAME is a readable part of the key and a hash of all of it. An entry appears
// by one rename, after every file in it has been written to the disk, so a
// builder that is killed leaves at most a temporary folder. An entry whose
// manifest is missing, or whose files do not have the sizes in it, is rebuilt
// and never handed out.
//
// A temporary folder of NAME exists only while its builder holds NAME.lock.
// Whoever gets that lock therefore knows that any it finds is a dead builder's,
// and removes it; no process number, which may be reused, is consulted. A lock
// file without an entry is removed by one that holds it, so whoever gets a lock
// looks whether its file is still the one of that name.
//
// The time of an entry's folder is that of its last use, by which Prune goes.
// Prune may take an entry from a process that has its path but has not opened
// its files: such a process calls Entry once more, which builds it anew.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Variable is the environment variable that names the cache folder.
const Variable = "POWERCUT_CACHE"

// DefaultLockWait bounds the wait for another process that builds the same
// entry. The longest build, the download of a kernel, has a shorter deadline.
const DefaultLockWait = 20 * time.Minute

// Cache is a cache folder. Its methods may be called by several goroutines and
// by several processes at once.
type Cache struct {
	Root     string        // absolute path; need not exist yet
	Verify   bool          // also compare the hash of every file before an entry is used
	LockWait time.Duration // 0 means DefaultLockWait
}

// Default returns the user's cache: $POWERCUT_CACHE, else
// $XDG_CACHE_HOME/powercut, else $HOME/.cache/powercut. Relative values are
// refused, as the XDG Base Directory Specification asks.
func Default() (*Cache, error) {
	for _, candidate := range []struct{ variable, below string }{
		{Variable, ""},
		{"XDG_CACHE_HOME", "powercut"},
		{"HOME", ".cache/powercut"},
	} {
		value := os.Getenv(candidate.variable)
		if value == "" {
			continue
		}
		if !filepath.IsAbs(value) {
			return nil, fmt.Errorf("find cache folder: %s is %q, which is not an absolute path", candidate.variable, value)
		}
		return &Cache{Root: filepath.Join(value, candidate.below)}, nil
	}
	return nil, fmt.Errorf("find cache folder: none of %s, XDG_CACHE_HOME and HOME is set: set %s to a folder that powercut may use", Variable, Variable)
}

// Builder fills the folder dir with regular files and folders. It must give up
// when ctx ends. What it leaves in dir becomes the entry if it returns nil.
type Builder func(ctx context.Context, dir string) error

// Entry returns the folder of the entry (kind, key), and calls build to make it
// if there is none or a damaged one. key holds everything that the content
// depends on; kind is a short name such as "kernel". The files are read-only
// and must stay as they are; copy one to change it. That it was used now is
// noted for Prune.
func (c *Cache) Entry(ctx context.Context, kind, key string, build Builder) (string, error) {
	e, err := c.entry(kind, key)
	if err != nil {
		return "", err
	}
	if e.check(c.Verify) == nil {
		e.touch()
		return e.dir(), nil
	}
	if err := os.MkdirAll(e.folder, 0o755); err != nil {
		return "", c.explain("make cache folder", err)
	}
	lock, err := c.lock(ctx, e)
	if err != nil {
		return "", c.explain("lock cache entry "+e.name, err)
	}
	defer lock.unlock()
	if e.check(c.Verify) == nil { // another process has built it meanwhile
		e.touch()
		return e.dir(), nil
	}
	if err := e.build(ctx, build); err != nil {
		return "", c.explain("build "+kind, err)
	}
	return e.dir(), nil
}

// Lookup returns the folder of the entry (kind, key) if it is there and whole,
// and never builds.
func (c *Cache) Lookup(kind, key string) (dir string, ok bool) {
	e, err := c.entry(kind, key)
	if err != nil || e.check(c.Verify) != nil {
		return "", false
	}
	return e.dir(), true
}

// Check says in one sentence why the entry (kind, key) cannot be used; nil
// means that it can.
func (c *Cache) Check(kind, key string) error {
	e, err := c.entry(kind, key)
	if err != nil {
		return err
	}
	return e.check(c.Verify)
}

// Has tells whether there is an entry (kind, key), whole or not.
func (c *Cache) Has(kind, key string) bool {
	e, err := c.entry(kind, key)
	if err != nil {
		return false
	}
	_, err = os.Lstat(e.dir())
	return err == nil
}

// Remove deletes the entry (kind, key) if it is there, waiting for a builder
// of it to end first.
func (c *Cache) Remove(ctx context.Context, kind, key string) error {
	e, err := c.entry(kind, key)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(e.dir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := c.lock(ctx, e)
	if err != nil {
		return c.explain("lock cache entry "+e.name, err)
	}
	defer lock.unlock()
	return c.explain("remove cache entry "+e.name, e.discard())
}

// Keys lists the keys of the whole entries of one kind, sorted by name.
func (c *Cache) Keys(kind string) ([]string, error) {
	folders, err := os.ReadDir(filepath.Join(c.Root, kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain("list cache", err)
	}
	var keys []string
	for _, f := range folders {
		m, err := readManifest(filepath.Join(c.Root, kind, f.Name()))
		if err != nil {
			continue
		}
		if c.Check(kind, m.Key) == nil {
			keys = append(keys, m.Key)
		}
	}
	return keys, nil
}

// entry is the place of one entry.
type entry struct {
	kind, key string
	folder    string // ROOT/KIND
	name      string
}

func (e entry) dir() string { return filepath.Join(e.folder, e.name) }

func (c *Cache) entry(kind, key string) (entry, error) {
	if kind == "" || strings.ContainsAny(kind, "/.") {
		return entry{}, fmt.Errorf("find cache entry: kind %q is not a plain name", kind)
	}
	return entry{kind: kind, key: key, folder: filepath.Join(c.Root, kind), name: entryName(key)}, nil
}

// entryName returns a file name for key: a readable beginning, and enough of
// its hash that two keys never share a name.
func entryName(key string) string {
	const readable = 40
	sum := sha256.Sum256([]byte(key))
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '_'
	}, key)
	if len(plain) > readable {
		plain = plain[:readable]
	}
	return strings.TrimLeft(plain, ".-") + "-" + hex.EncodeToString(sum[:8])
}

// build makes the entry. The caller holds its lock.
func (e entry) build(ctx context.Context, build Builder) error {
	if err := e.sweep(); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(e.folder, tmpPrefix+e.name+"-")
	if err != nil {
		return err
	}
	if err := e.fill(ctx, tmp, build); err != nil {
		os.RemoveAll(tmp) //nolint:errcheck // the next builder sweeps what is left
		return err
	}
	return nil
}

// fill runs the builder and puts its result in place.
func (e entry) fill(ctx context.Context, tmp string, build Builder) error {
	if err := build(ctx, tmp); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := seal(tmp, e.kind, e.key); err != nil {
		return err
	}
	if err := e.discard(); err != nil {
		return err
	}
	if err := os.Rename(tmp, e.dir()); err != nil {
		return err
	}
	return syncPath(e.folder)
}

// explain turns what went wrong with the folder itself into a sentence that
// says what to do. Other errors only get their context.
func (c *Cache) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: the disk that holds the cache folder %s is full: free some space, or set %s to a folder on another disk: %w", doing, c.Root, Variable, err)
	case c.refuses(err):
		return fmt.Errorf("%s: the cache folder %s is not writable: change its permissions, or set %s to a folder that is: %w", doing, c.Root, Variable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// refuses reports whether err is a refusal of the cache folder, rather than of
// some other path that a builder has touched.
func (c *Cache) refuses(err error) bool {
	if errors.Is(err, syscall.EROFS) {
		return true
	}
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ENOTDIR) {
		return false
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return within(c.Root, path.Path) || within(path.Path, c.Root)
	}
	var link *os.LinkError
	return errors.As(err, &link) && within(c.Root, link.New)
}

// within reports whether path is folder or lies below it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
