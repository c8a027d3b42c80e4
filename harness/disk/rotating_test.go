package disk

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
)

var slow = Rotating{
	RPM: 7200, SectorsPerTrack: 900, SeekMin: 800 * time.Microsecond, SeekMax: 15 * time.Millisecond,
	BusRate: 66_000_000, Overhead: 50 * time.Microsecond,
}

func write(off, n int64) *blocklog.Event {
	return &blocklog.Event{Op: blocklog.Write, Offset: off, Length: n}
}

// TestOneSectorOneTurn: rewriting a sector costs a revolution each time, however
// long the host thinks in between, as long as it thinks less than a turn.
func TestOneSectorOneTurn(t *testing.T) {
	m := newMechanics(slow, 1<<30, false)
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
	m := newMechanics(slow, 1<<30, false)
	track := int64(slow.SectorsPerTrack) * SectorSize
	first := m.Serve(0, write(0, track))
	second := m.Serve(first, write(track, track))
	if d := second - first; d < slow.Revolution() || d > 2*slow.Revolution()+slow.SeekMin {
		t.Errorf("the next track took %v", d)
	}
}

// TestWriteCache: with the cache on a write costs the bus, and the flush the media.
func TestWriteCache(t *testing.T) {
	m := newMechanics(slow, 1<<30, true)
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
	m := newMechanics(slow, 1<<30, true)
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
		m := newMechanics(slow, 1<<30, rapid.Bool().Draw(t, "cache"))
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

// TestSequentialReads: a stream of reads comes at the media's rate, over the borders
// of tracks and past what is read ahead, as long as the host keeps up.
func TestSequentialReads(t *testing.T) {
	m := newMechanics(slow, 1<<30, false)
	const chunk, chunks = 128 << 10, 400
	var now, begun time.Duration
	for i := range int64(chunks) {
		now = m.Serve(now+100*time.Microsecond, &blocklog.Event{Op: blocklog.Read, Offset: i * chunk, Length: chunk})
		if i == 0 {
			begun = now
		}
	}
	track := float64(slow.SectorsPerTrack) * SectorSize
	want := track / (slow.Revolution() + slow.Skew()).Seconds()
	got := float64((chunks-1)*chunk) / (now - begun).Seconds()
	if got < 0.98*want || got > 1.02*want {
		t.Errorf("%.1f MB/s, the media's rate is %.1f", got/1e6, want/1e6)
	}
}

// TestSequentialWrites: so does a stream of cached writes, once the buffer is full.
func TestSequentialWrites(t *testing.T) {
	full := slow
	full.Buffer = 2 << 20
	m := newMechanics(full, 1<<30, true)
	const chunk, chunks = 128 << 10, 1000
	var now, begun time.Duration
	for i := range int64(chunks) {
		if i == chunks/2 {
			begun = now
		}
		now = m.Serve(now+50*time.Microsecond, write(i*chunk, chunk))
		if m.dirty.bytes > full.Buffer {
			t.Fatalf("%d bytes are in a buffer of %d", m.dirty.bytes, full.Buffer)
		}
	}
	track := float64(slow.SectorsPerTrack) * SectorSize
	want := track / (slow.Revolution() + slow.Skew()).Seconds()
	got := float64(chunks/2*chunk) / (now - begun).Seconds()
	if got < 0.9*want || got > 1.02*want {
		t.Errorf("%.1f MB/s, the media's rate is %.1f", got/1e6, want/1e6)
	}
}

// TestOverlap: data that is overwritten in the buffer reaches the media once, and
// what is written around the cache is in it no more.
func TestOverlap(t *testing.T) {
	m := newMechanics(slow, 1<<30, true)
	for i := range int64(200) {
		m.Serve(0, write(i%7*512, 4096))
	}
	if len(m.dirty.list) != 1 || m.dirty.bytes != 6*512+4096 {
		t.Errorf("the buffer holds %v", m.dirty.list)
	}
	m.Serve(0, &blocklog.Event{Op: blocklog.Write, Offset: 1024, Length: 512, FUA: true})
	if len(m.dirty.list) != 2 {
		t.Errorf("after a FUA write inside it the buffer holds %v", m.dirty.list)
	}
	m.Serve(0, &blocklog.Event{Op: blocklog.Trim, Length: 1 << 20})
	if len(m.dirty.list) != 0 {
		t.Errorf("after a trim the buffer holds %v", m.dirty.list)
	}
}

// TestShortestAccessFirst: in whatever order data came, a flush of it costs at most
// a sweep of the actuator with half a turn at each piece, and less than in the order
// of its addresses.
func TestShortestAccessFirst(t *testing.T) {
	const n = 64
	const size = int64(8 << 30)
	tracks := size / (900 * 512)
	most := n * (slow.SeekTime(tracks/n+1, tracks) + slow.Revolution()/2)
	for _, step := range []int64{1, 27} {
		m := newMechanics(slow, size, true)
		sweep := newMechanics(slow, size, false)
		var now, ordered time.Duration
		for i := range int64(n) {
			now = m.Serve(now, write(i*step%n*(size/n), 4096))
		}
		ordered = now
		for i := range int64(n) {
			ordered = sweep.Serve(ordered, write(i*(size/n), 4096))
		}
		took := m.Serve(now, &blocklog.Event{Op: blocklog.Flush}) - now
		if took > most || took > ordered-now {
			t.Errorf("a flush of %d pieces took %v, a sweep with half a turn at each %v, one by address %v", n, took, most, ordered-now)
		}
	}
}

// TestNoWayBack: a stream larger than the buffer, with a block far away written
// after each round, runs at the rate of the media: the block waits for a moment
// when the head is near.
func TestNoWayBack(t *testing.T) {
	round := func(far bool) time.Duration {
		drive := slow
		drive.Buffer = 8 << 20
		m := newMechanics(drive, 8<<30, true)
		var now, warm time.Duration
		for i := range 40 {
			if i == 20 {
				warm = now
			}
			for k := range int64(80) {
				now = m.Serve(now, write(512<<20+k*128<<10, 128<<10))
			}
			if far {
				now = m.Serve(now, write(4<<20, 4096))
			}
		}
		return (now - warm) / 20
	}
	without, with := round(false), round(true)
	if with-without > slow.Revolution() {
		t.Errorf("a round takes %v with a block elsewhere, and %v without", with, without)
	}
}

// TestBoundedList: pieces that cannot be joined do not pile up.
func TestBoundedList(t *testing.T) {
	for _, timing := range []Timing{slow, flash} {
		m := timing.Model(8<<30, true)
		var now time.Duration
		for i := range int64(maxExtents + 100) {
			now = m.Serve(now, write(i*2*4096, 512))
		}
		n := 0
		switch m := m.(type) {
		case *mechanics:
			n = len(m.dirty.list)
		case *solidState:
			n = len(m.dirty.list)
		}
		if n == 0 || n > maxExtents {
			t.Errorf("%T keeps %d pieces", m, n)
		}
	}
}
