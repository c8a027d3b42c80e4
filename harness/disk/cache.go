package disk

import (
	"time"

	"powercut/harness/blocklog"
)

// cache knows which answered changes are volatile, in the order in which they were
// answered. A drive keeps one where it writes back by itself, and only there: else
// nothing depends on it. It always writes its oldest back first.
type cache struct {
	limit int64         // bytes that it holds; 0: any number
	age   time.Duration // after which a change is written back; 0: never
	held  []held
	bytes int64
	order int    // of the change that came last
	late  []late // flushes that take effect later, in the order of their answers
}

// held is a change in the cache.
type held struct {
	request uint64
	op      blocklog.Op
	bytes   int64 // that it takes in the cache: its payload
	order   int
	at      time.Duration // when it was answered
}

// late is a flush that takes effect at a later time.
type late struct {
	at    time.Duration
	order int // of the last change that it covers
}

// newCache returns the cache that the faults ask for, or nil where none of them
// writes anything back.
func newCache(faults []Fault) *cache {
	var c cache
	needed := false
	for _, f := range faults {
		switch f.Kind {
		case BoundedCache:
			c.limit, needed = f.Size, true
		case Destaging:
			c.age, needed = f.Delay, true
		case FlushLate:
			needed = true
		}
	}
	if !needed {
		return nil
	}
	return &c
}

// admit takes a change in that was answered at that time.
func (c *cache) admit(e *blocklog.Event) {
	h := held{request: e.Request, op: e.Op, at: e.Time}
	if e.Op == blocklog.Write {
		h.bytes = e.Length
	}
	c.order++
	h.order = c.order
	c.held = append(c.held, h)
	c.bytes += h.bytes
}

// flushed says that a flush took effect, which covers the changes up to that order.
func (c *cache) flushed(order int) {
	for len(c.held) > 0 && c.held[0].order <= order {
		c.pop()
	}
}

func (c *cache) pop() held {
	h := c.held[0]
	c.held = c.held[1:]
	c.bytes -= h.bytes
	return h
}

// due returns a change that is to be written back by now, and takes it out.
func (c *cache) due(now time.Duration) (held, bool) {
	for len(c.late) > 0 && len(c.held) > 0 && c.late[0].order < c.held[0].order {
		c.late = c.late[1:]
	}
	switch {
	case len(c.held) == 0:
		return held{}, false
	case c.age > 0 && now-c.held[0].at >= c.age:
	case c.lateBy(now):
	default:
		return held{}, false
	}
	return c.pop(), true
}

// lateBy tells whether a flush that covers the oldest change has taken effect.
func (c *cache) lateBy(now time.Duration) bool {
	for _, l := range c.late {
		if l.at <= now && l.order >= c.held[0].order {
			return true
		}
	}
	return false
}

// excess returns a change that has to be written back before the cache can take
// that many bytes more, and takes it out.
func (c *cache) excess(bytes int64) (held, bool) {
	if c.limit == 0 || len(c.held) == 0 || c.bytes+bytes <= c.limit {
		return held{}, false
	}
	return c.pop(), true
}
