package disk

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
)

// admitAll puts one write for each time, in milliseconds, into a cache.
func admitAll(c *cache, times ...int) {
	for i, ms := range times {
		c.admit(&blocklog.Event{Request: uint64(i + 1), Op: blocklog.Write, Length: 4096, Time: time.Duration(ms) * time.Millisecond})
	}
}

// dueAt lists the requests that a cache writes back at a time.
func dueAt(c *cache, ms int) (requests []uint64) {
	for h, ok := c.due(time.Duration(ms) * time.Millisecond); ok; h, ok = c.due(time.Duration(ms) * time.Millisecond) {
		requests = append(requests, h.request)
	}
	return requests
}

func TestCacheAge(t *testing.T) {
	c := newCache([]Fault{{Kind: Destaging, Delay: 30 * time.Millisecond}})
	admitAll(c, 0, 10, 20, 40)
	c.flushed(1)
	for _, step := range []struct {
		at   int
		want []uint64
	}{{29, nil}, {40, []uint64{2}}, {49, nil}, {75, []uint64{3, 4}}, {100, nil}} {
		if got := dueAt(c, step.at); !slices.Equal(got, step.want) {
			t.Errorf("at %d ms requests %v are written back, want %v", step.at, got, step.want)
		}
	}
}

func TestCacheLateFlush(t *testing.T) {
	c := newCache([]Fault{{Kind: FlushLate, Delay: 50 * time.Millisecond}})
	admitAll(c, 0, 1, 2, 3)
	c.late = append(c.late, late{at: 60 * time.Millisecond, order: 2}, late{at: 55 * time.Millisecond, order: 1}, late{at: 90 * time.Millisecond, order: 3})
	for _, step := range []struct {
		at   int
		want []uint64
	}{{54, nil}, {55, []uint64{1}}, {70, []uint64{2}}, {90, []uint64{3}}, {1000, nil}} {
		if got := dueAt(c, step.at); !slices.Equal(got, step.want) {
			t.Errorf("at %d ms requests %v are written back, want %v", step.at, got, step.want)
		}
	}
}

// TestCacheLimit: a bounded cache never holds more than it may, and writes its
// oldest back first.
func TestCacheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(512, 1<<16).Draw(t, "limit")
		c := newCache([]Fault{{Kind: BoundedCache, Size: limit}})
		next := uint64(1)
		for n := range uint64(rapid.IntRange(1, 50).Draw(t, "writes")) {
			length := 512 * rapid.Int64Range(1, 200).Draw(t, "sectors")
			for _, step := range []int64{length, 0} { // make room, admit, and see to it that it is no more
				for h, ok := c.excess(step); ok; h, ok = c.excess(step) {
					if h.request != next {
						t.Fatalf("request %d is written back before request %d", h.request, next)
					}
					next++
				}
				if step > 0 {
					c.admit(&blocklog.Event{Request: n + 1, Op: blocklog.Write, Length: length})
				}
			}
			if c.bytes > limit {
				t.Fatalf("the cache of %d bytes holds %d", limit, c.bytes)
			}
		}
	})
}

func TestNoCacheToKeep(t *testing.T) {
	if c := newCache([]Fault{{Kind: FlushIgnored}, {Kind: CacheUnadvertised}}); c != nil {
		t.Error("a drive that writes nothing back keeps account of its cache")
	}
}
