package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDefault(t *testing.T) {
	tests := []struct {
		name, own, xdg, home string
		want, err            string
	}{
		{"own", "/a", "/b", "/c", "/a", ""},
		{"xdg", "", "/b", "/c", "/b/powercut", ""},
		{"home", "", "", "/c", "/c/.cache/powercut", ""},
		{"none", "", "", "", "", "set POWERCUT_CACHE"},
		{"relative", "a", "/b", "/c", "", "not an absolute path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(Variable, tt.own)
			t.Setenv("XDG_CACHE_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			c, err := Default()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v does not say %q", err, tt.err)
				}
				return
			}
			if err != nil || c.Root != tt.want {
				t.Errorf("root %v, error %v, want %s", c, err, tt.want)
			}
		})
	}
}

// counter is a builder that counts its calls and writes two files.
type counter struct{ calls atomic.Int32 }

func (b *counter) build(_ context.Context, dir string) error {
	b.calls.Add(1)
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "two"), []byte("22"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "one"), []byte("one"), 0o644)
}

func newCache(t *testing.T) *Cache { return &Cache{Root: filepath.Join(t.TempDir(), "cache")} }

// leftovers lists temporary folders below root.
func leftovers(t *testing.T, c *Cache) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(c.Root, "*", ".*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEntryBuildsOnce(t *testing.T) {
	c, b, ctx := newCache(t), &counter{}, t.Context()
	if _, ok := c.Lookup("kind", "a key"); ok {
		t.Error("entry is there before it was built")
	}
	var first string
	for range 3 {
		dir, err := c.Entry(ctx, "kind", "a key", b.build)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = dir
		}
		if dir != first {
			t.Errorf("entry moved from %s to %s", first, dir)
		}
	}
	if n := b.calls.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
	info, err := os.Stat(filepath.Join(first, "sub", "two"))
	if err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("mode %v, error %v: want a read-only file that keeps its x bits", info, err)
	}
	if found := leftovers(t, c); len(found) > 0 {
		t.Errorf("left %v", found)
	}
}

func TestKeysAndRemove(t *testing.T) {
	c, b, ctx := newCache(t), &counter{}, t.Context()
	keys := []string{"a b", "a/b", "../../a", strings.Repeat("long", 100), ""}
	for _, key := range keys {
		if _, err := c.Entry(ctx, "kind", key, b.build); err != nil {
			t.Fatal(err)
		}
	}
	if n := int(b.calls.Load()); n != len(keys) {
		t.Errorf("%d keys gave %d entries", len(keys), n)
	}
	got, err := c.Keys("kind")
	if err != nil || len(got) != len(keys) {
		t.Errorf("Keys = %q, %v", got, err)
	}
	if err := c.Remove(ctx, "kind", "a b"); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Lookup("kind", "a b"); ok {
		t.Error("removed entry is still there")
	}
	if _, ok := c.Lookup("kind", "a/b"); !ok {
		t.Error("another entry went with it")
	}
	if _, err := c.Entry(ctx, "../kind", "a", b.build); err == nil {
		t.Error("a kind with a path in it was accepted")
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	c, ctx := newCache(t), t.Context()
	broken := errors.New("broken")
	tests := map[string]Builder{
		"error": func(_ context.Context, dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), broken)
		},
		"link": func(_ context.Context, dir string) error {
			return os.Symlink("/etc/passwd", filepath.Join(dir, "link"))
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			if dir, err := c.Entry(ctx, "kind", name, build); err == nil {
				t.Errorf("got %s", dir)
			}
			if _, ok := c.Lookup("kind", name); ok {
				t.Error("entry is there")
			}
			if found := leftovers(t, c); len(found) > 0 {
				t.Errorf("left %v", found)
			}
		})
	}
}

func TestDamagedEntryIsRebuilt(t *testing.T) {
	tests := map[string]struct {
		damage func(dir string) error
		verify bool // only noticed by comparing hashes
	}{
		"truncated":  {func(dir string) error { return os.Truncate(filepath.Join(dir, "one"), 1) }, false},
		"longer":     {func(dir string) error { return os.Truncate(filepath.Join(dir, "one"), 9) }, false},
		"gone":       {func(dir string) error { return os.Remove(filepath.Join(dir, "sub", "two")) }, false},
		"no list":    {func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, false},
		"empty list": {func(dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 0) }, false},
		"half list":  {func(dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 60) }, false},
		"other entry": {func(dir string) error {
			path := filepath.Join(dir, manifestName)
			text, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, []byte(strings.Replace(string(text), `"key": "k`, `"key": "K`, 1)), 0o644))
		}, false},
		"a link": {func(dir string) error {
			path := filepath.Join(dir, "one")
			return errors.Join(os.Rename(path, path+".away"), os.Symlink("one.away", path))
		}, false},
		"changed byte": {func(dir string) error {
			path := filepath.Join(dir, "one")
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("onf"), 0o644))
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, b, ctx := newCache(t), &counter{}, t.Context()
			dir, err := c.Entry(ctx, "kind", "key", b.build)
			if err != nil {
				t.Fatal(err)
			}
			c.Verify = true
			if err := c.Check("kind", "key"); err != nil {
				t.Fatalf("new entry: %v", err)
			}
			if err := tt.damage(dir); err != nil {
				t.Fatal(err)
			}
			c.Verify = tt.verify
			if _, ok := c.Lookup("kind", "key"); ok {
				t.Error("damaged entry was handed out")
			}
			if dir, err = c.Entry(ctx, "kind", "key", b.build); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "one"))
			if err != nil || string(text) != "one" || b.calls.Load() != 2 {
				t.Errorf("after the damage: %q, %v, %d builds", text, err, b.calls.Load())
			}
			if found := leftovers(t, c); len(found) > 0 {
				t.Errorf("left %v", found)
			}
		})
	}
}

func TestConcurrentGoroutinesBuildOnce(t *testing.T) {
	c, b := newCache(t), &counter{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.Entry(t.Context(), "kind", "key", b.build); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := b.calls.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

// blocked starts a build that waits until release is called.
func blocked(t *testing.T, c *Cache, key string) (release func()) {
	t.Helper()
	started, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.Entry(context.WithoutCancel(t.Context()), "kind", key, func(_ context.Context, dir string) error {
			close(started)
			<-end
			return os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644)
		})
		done <- err
	}()
	<-started
	return func() {
		close(end)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestWaitForLockIsBounded(t *testing.T) {
	c, b := newCache(t), &counter{}
	release := blocked(t, c, "key")
	defer release()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Entry(ctx, "kind", "key", b.build); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancelling: %v", err)
	}
	hurried := &Cache{Root: c.Root, LockWait: time.Millisecond}
	_, err := hurried.Entry(t.Context(), "kind", "key", b.build)
	if err == nil || !strings.Contains(err.Error(), "another process has held") {
		t.Errorf("after the limit: %v", err)
	}
	if b.calls.Load() != 0 {
		t.Error("built beside another builder")
	}
}

// The temporary folder of a living builder stays; that of a dead one goes.
func TestSweepSparesTheLiving(t *testing.T) {
	c, b := newCache(t), &counter{}
	release := blocked(t, c, "alive")
	dead := filepath.Join(c.Root, "kind", tmpPrefix+entryName("dead")+"-123")
	if err := os.MkdirAll(filepath.Join(dead, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Entry(t.Context(), "kind", "third", b.build); err != nil {
		t.Fatal(err)
	}
	left := leftovers(t, c)
	if len(left) != 1 || !strings.Contains(left[0], entryName("alive")) {
		t.Errorf("left %v, want the living builder's only", left)
	}
	release()
	if _, ok := c.Lookup("kind", "alive"); !ok {
		t.Error("the living builder lost its entry")
	}
}

// mountTmpfs mounts a small file system, or skips the test.
func mountTmpfs(t *testing.T, options string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestDiskFull(t *testing.T) {
	c := &Cache{Root: filepath.Join(mountTmpfs(t, "size=64k", 0), "cache")}
	_, err := c.Entry(t.Context(), "kind", "key", func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "big"), make([]byte, 1<<20), 0o644)
	})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "is full: free some space, or set POWERCUT_CACHE") {
		t.Errorf("error: %v", err)
	}
	if found := leftovers(t, c); len(found) > 0 {
		t.Errorf("left %v on the full disk", found)
	}
	// There is room again, so a small entry must succeed.
	if _, err := c.Entry(t.Context(), "kind", "key", (&counter{}).build); err != nil {
		t.Error(err)
	}
}

func TestNotWritable(t *testing.T) {
	check := func(t *testing.T, root string) {
		_, err := (&Cache{Root: root}).Entry(t.Context(), "kind", "key", (&counter{}).build)
		if err == nil || !strings.Contains(err.Error(), "is not writable: change its permissions, or set POWERCUT_CACHE") {
			t.Errorf("error: %v", err)
		}
	}
	t.Run("permission", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root may write everywhere")
		}
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		check(t, filepath.Join(dir, "cache"))
	})
	t.Run("file in the way", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		check(t, filepath.Join(path, "cache"))
	})
	t.Run("read-only disk", func(t *testing.T) {
		check(t, filepath.Join(mountTmpfs(t, "", unix.MS_RDONLY), "cache"))
	})
}

// A failure that has nothing to do with the cache folder is not blamed on it.
func TestOtherErrorsKeepTheirMeaning(t *testing.T) {
	c := newCache(t)
	cause := &os.PathError{Op: "open", Path: "/etc/elsewhere", Err: unix.EACCES}
	_, err := c.Entry(t.Context(), "kind", "key", func(context.Context, string) error { return fmt.Errorf("read: %w", cause) })
	if !errors.Is(err, unix.EACCES) || strings.Contains(err.Error(), "not writable") {
		t.Errorf("error: %v", err)
	}
}
