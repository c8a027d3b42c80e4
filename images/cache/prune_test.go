package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fill makes entries of one kind, each used a minute after the one before.
func fill(t *testing.T, c *Cache, keys ...string) {
	t.Helper()
	begun := time.Now().Add(-time.Hour)
	for i, key := range keys {
		dir, err := c.Entry(t.Context(), "kind", key, (&counter{}).build)
		if err != nil {
			t.Fatal(err)
		}
		at := begun.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// checkKeys compares the keys that are left with a list of words.
func checkKeys(t *testing.T, c *Cache, want string) {
	t.Helper()
	got, err := c.Keys("kind")
	slices.Sort(got)
	if all := strings.Join(got, " "); err != nil || all != want {
		t.Errorf("left %q, want %q (error %v)", all, want, err)
	}
}

// checkFiles wants nothing in the folder of kind but its entries and their locks.
func checkFiles(t *testing.T, c *Cache, kind string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(c.Root, kind))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		owner, isLock := strings.CutSuffix(f.Name(), lockSuffix)
		if _, err := os.Stat(filepath.Join(c.Root, kind, owner)); strings.HasPrefix(f.Name(), ".") || isLock && err != nil {
			t.Errorf("left %s (%v)", f.Name(), err)
		}
	}
}

func TestPrune(t *testing.T) {
	for _, tt := range []struct {
		keep       int
		spare, use string
		want       string
	}{
		{5, "", "", "a b c d"},
		{4, "", "", "a b c d"},
		{2, "", "", "c d"},
		{2, "d", "", "c d"},
		{2, "a", "", "a d"},
		{2, "no such", "", "c d"},
		{1, "b", "", "b"},
		{0, "", "", ""},
		{0, "c", "", "c"},
		{2, "", "a", "a d"},
		{1, "", "b", "b"},
	} {
		t.Run(fmt.Sprintf("keep %d spare %q use %q", tt.keep, tt.spare, tt.use), func(t *testing.T) {
			c, b := newCache(t), &counter{}
			fill(t, c, "a", "b", "c", "d")
			if tt.use != "" {
				if _, err := c.Entry(t.Context(), "kind", tt.use, b.build); err != nil || b.calls.Load() > 0 {
					t.Fatalf("use: %v, %d builds", err, b.calls.Load())
				}
			}
			if err := c.Prune(t.Context(), "kind", tt.keep, tt.spare); err != nil {
				t.Fatal(err)
			}
			checkKeys(t, c, tt.want)
			checkFiles(t, c, "kind")
		})
	}
}

func TestPruneOfNothing(t *testing.T) {
	c := newCache(t)
	if err := c.Prune(t.Context(), "kind", 1, ""); err != nil {
		t.Error(err)
	}
	if err := c.Prune(t.Context(), "../kind", 1, ""); err == nil {
		t.Error("a kind with a path in it was accepted")
	}
}

// Another kind stays whole, and damaged entries are not kept for ever.
func TestPruneTakesDamagedEntries(t *testing.T) {
	c, b := newCache(t), &counter{}
	fill(t, c, "a", "b", "c")
	if _, err := c.Entry(t.Context(), "other", "a", b.build); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(c.Root, "kind", entryName("a"))
	if err := os.Remove(filepath.Join(damaged, manifestName)); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(damaged, past, past); err != nil {
		t.Fatal(err)
	}
	if err := c.Prune(t.Context(), "kind", 2, "c"); err != nil {
		t.Fatal(err)
	}
	checkKeys(t, c, "b c")
	if _, err := os.Stat(damaged); err == nil {
		t.Error("the damaged entry is still there")
	}
	if _, ok := c.Lookup("other", "a"); !ok {
		t.Error("an entry of another kind is gone")
	}
}

// An entry whose lock is held is left alone, and the next one goes in its place.
func TestPruneSparesTheLocked(t *testing.T) {
	c := newCache(t)
	fill(t, c, "a", "b", "c")
	if err := os.Remove(filepath.Join(c.Root, "kind", entryName("a"), "one")); err != nil {
		t.Fatal(err)
	}
	release := blocked(t, c, "a") // is rebuilding it
	if err := c.Prune(t.Context(), "kind", 2, ""); err != nil {
		t.Fatal(err)
	}
	checkKeys(t, c, "c")
	release()
	checkKeys(t, c, "a c")
}

// An entry that is used between the listing and its turn stays.
func TestPruneSparesWhatWasJustUsed(t *testing.T) {
	c := newCache(t)
	fill(t, c, "a")
	e, err := c.entry("kind", "a")
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.siblings()
	if err != nil || len(all) != 1 {
		t.Fatalf("listed %v, %v", all, err)
	}
	if _, err := c.Entry(t.Context(), "kind", "a", (&counter{}).build); err != nil {
		t.Fatal(err)
	}
	if gone, err := all[0].evict(); gone || err != nil {
		t.Errorf("evicted: %v, %v", gone, err)
	}
	checkKeys(t, c, "a")
}

// Users, builders and pruners at once: every use ends with a whole entry or with
// a file that has vanished, never with an error of the cache or with half an entry.
func TestPruneAmongUsers(t *testing.T) {
	c := newCache(t)
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			for round := range 40 {
				key := fmt.Sprint((worker + round) % 5)
				dir, err := c.Entry(t.Context(), "kind", key, (&counter{}).build)
				if err != nil {
					t.Error(err)
					return
				}
				text, err := os.ReadFile(filepath.Join(dir, "one"))
				if !os.IsNotExist(err) && (err != nil || string(text) != "one") {
					t.Errorf("read %q, %v", text, err)
				}
				if err := c.Prune(t.Context(), "kind", 2, key); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := c.Prune(t.Context(), "kind", 2, ""); err != nil {
		t.Fatal(err)
	}
	if keys, err := c.Keys("kind"); err != nil || len(keys) > 2 {
		t.Errorf("left %q, %v", keys, err)
	}
	if _, err := c.Entry(t.Context(), "kind", "last", (&counter{}).build); err != nil {
		t.Fatal(err)
	}
	checkFiles(t, c, "kind")
}

func TestDiskUsage(t *testing.T) {
	dir := t.TempDir()
	if n, err := DiskUsage(filepath.Join(dir, "none")); n != 0 || err != nil {
		t.Errorf("of nothing: %d bytes, %v", n, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sparse"), make([]byte, 64<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "sparse"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if n, err := DiskUsage(dir); n < 64<<10 || n > 1<<20 || err != nil {
		t.Errorf("of a sparse file: %d bytes, %v", n, err)
	}
}

func TestScratch(t *testing.T) {
	c := newCache(t)
	first, releaseFirst, err := c.Scratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(first)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v", info, err)
	}
	second, releaseSecond, err := c.Scratch(t.Context())
	if err != nil || second == first {
		t.Fatalf("second folder %s beside %s, %v", second, first, err)
	}
	for _, dir := range []string{first, second} {
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o400); err != nil {
			t.Error(err)
		}
	}
	if err := releaseFirst(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(second, "file")); err != nil {
		t.Errorf("the second folder went with the first: %v", err)
	}
	if err := releaseSecond(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(c.Root, scratchKind)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Many at once: each gets a folder of its own, none loses it to a sweep.
func TestScratchAmongOthers(t *testing.T) {
	c := newCache(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				dir, release, err := c.Scratch(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
					t.Error(err)
				}
				if err := release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(filepath.Join(c.Root, scratchKind)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestScratchOfTheDeadIsSwept(t *testing.T) {
	c := newCache(t)
	p := start(t, "scratch", c.Root)
	dir := p.line(t)
	_, release, err := c.Scratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Errorf("the folder of a living process is gone: %v", err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Wait() //nolint:errcheck // killed
	if _, release, err = c.Scratch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(c.Root, scratchKind)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
