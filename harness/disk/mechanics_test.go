package disk

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
)

var slow = Timing{
	RPM: 7200, SectorsPerTrack: 900, SeekMin: 800 * time.Microsecond, SeekMax: 15 * time.Millisecond,
	BusRate: 66_000_000, Overhead: 50 * time.Microsecond,
}

func write(off, n int64) *blocklog.Event {
	return &blocklog.Event{Op: blocklog.Write, Offset: off, Length: n}
}

// TestOneSectorOneTurn: rewriting a sector costs a revolution each time, however
// long the host thinks in between, as long as it thinks less than a turn.
func TestOneSectorOneTurn(t *testing.T) {
	m := NewMechanics(slow, 1<<30, false)
	now := m.Serve(0, write(4096, 4096))
	for range 100 {
		done := m.Serve(now+300*time.Microsecond, write(4096, 4096))
		if d := (done - now - slow.Revolution()).Abs(); d > time.Microsecond {
			t.Fatalf("a rewrite took %v, a revolution is %v", done-now, slow.Revolution())
		}
		now = done
	}
}

// TestMediaRate: a long transfer runs at one track a revolution plus the skew.
func TestMediaRate(t *testing.T) {
	m := NewMechanics(slow, 1<<30, false)
	track := int64(slow.SectorsPerTrack) * SectorSize
	first := m.Serve(0, write(0, track))
	second := m.Serve(first, write(track, track))
	if d := second - first; d < slow.Revolution() || d > 2*slow.Revolution()+slow.SeekMin {
		t.Errorf("the next track took %v", d)
	}
}

// TestWriteCache: with the cache on a write costs the bus, and the flush the media.
func TestWriteCache(t *testing.T) {
	m := NewMechanics(slow, 1<<30, true)
	now := m.Serve(0, write(512<<20, 4096))
	if now > 200*time.Microsecond {
		t.Errorf("a cached write took %v", now)
	}
	read := m.Serve(now, &blocklog.Event{Op: blocklog.Read, Offset: 512 << 20, Length: 4096})
	if read-now > 200*time.Microsecond {
		t.Errorf("a read of cached data took %v", read-now)
	}
	flushed := m.Serve(read, &blocklog.Event{Op: blocklog.Flush})
	if flushed-read < slow.SeekMin {
		t.Errorf("a flush that has to seek took %v", flushed-read)
	}
	if again := m.Serve(flushed, &blocklog.Event{Op: blocklog.Flush}) - flushed; again > 100*time.Microsecond {
		t.Errorf("a flush with nothing to write took %v", again)
	}
}

// TestReadAhead: what the drive has read ahead comes at bus speed, but not before
// it has passed under the head.
func TestReadAhead(t *testing.T) {
	m := NewMechanics(slow, 1<<30, true)
	r := func(off int64) *blocklog.Event { return &blocklog.Event{Op: blocklog.Read, Offset: off, Length: 4096} }
	now := m.Serve(0, r(0))
	next := m.Serve(now, r(4096))
	if next-now > time.Millisecond {
		t.Errorf("a sequential read took %v", next-now)
	}
	m.Serve(next, write(8192, 4096)) // spoils what was read ahead there
	m.Serve(next, &blocklog.Event{Op: blocklog.Flush})
	if m.ahead.to != 0 {
		t.Error("data read ahead outlives a write to it")
	}
}

// TestTimeNeverRunsBack: no request is answered before it arrived, nor before the
// one ahead of it.
func TestTimeNeverRunsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMechanics(slow, 1<<30, rapid.Bool().Draw(t, "cache"))
		var now, last time.Duration
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			now += time.Duration(rapid.IntRange(0, 20_000_000).Draw(t, "pause"))
			e := &blocklog.Event{
				Op:     blocklog.Op(rapid.IntRange(int(blocklog.Read), int(blocklog.Zeroes)).Draw(t, "op")),
				Offset: 512 * rapid.Int64Range(0, 1<<20).Draw(t, "sector"), Length: 512 * rapid.Int64Range(1, 100).Draw(t, "sectors"),
				FUA: rapid.Bool().Draw(t, "fua"),
			}
			done := m.Serve(now, e)
			if done < now || done < last || done-max(now, last) > time.Second {
				t.Fatalf("%s at %v, after %v, is answered at %v", e.Op, now, last, done)
			}
			last = done
		}
	})
}
