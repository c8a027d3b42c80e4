package disk

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
)

var flash = SolidState{
	BusRate: 500_000_000, Overhead: 20 * time.Microsecond, Buffer: 64 << 20, Channels: 8, Page: 16 << 10,
	Read: 80 * time.Microsecond, Program: 300 * time.Microsecond,
	Flush: time.Millisecond, FlushPage: 500 * time.Microsecond, FUA: 3 * time.Millisecond,
}

// took is how long a request takes that arrives when the one before is answered.
func took(m Model, now *time.Duration, e *blocklog.Event) time.Duration {
	done := m.Serve(*now, e)
	d := done - *now
	*now = done
	return d
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if (got - want).Abs() > want/1000+time.Nanosecond {
		t.Errorf("%s took %v, want %v", what, got, want)
	}
}

// TestSolidState holds single requests against the parameters that they are made of.
func TestSolidState(t *testing.T) {
	var now time.Duration
	m := flash.Model(1<<30, true)
	bus := onBus(4096, flash.BusRate)
	flush, fua := &blocklog.Event{Op: blocklog.Flush}, &blocklog.Event{Op: blocklog.Write, FUA: true, Length: 4096}
	near(t, "a flush with nothing dirty", took(m, &now, flush), flash.Overhead)
	near(t, "a cached write", took(m, &now, write(0, 4096)), flash.Overhead+bus)
	near(t, "a read of what is cached", took(m, &now, &blocklog.Event{Op: blocklog.Read, Length: 4096}), flash.Overhead+bus)
	near(t, "a flush of one page", took(m, &now, flush), flash.Overhead+flash.Flush+flash.FlushPage)
	near(t, "a read of a page", took(m, &now, &blocklog.Event{Op: blocklog.Read, Length: 4096}), flash.Overhead+flash.Read+bus)
	near(t, "a FUA write", took(m, &now, fua), flash.Overhead+bus+flash.FUA)
	for _, pages := range []int64{8, 9, 80} {
		for i := range pages {
			took(m, &now, write(i*flash.Page, 4096))
		}
		turns := time.Duration((pages + 7) / 8)
		near(t, "a flush of many pages", took(m, &now, flush), flash.Overhead+flash.Flush+turns*flash.FlushPage)
	}
	off := flash.Model(1<<30, false)
	now = 0
	near(t, "a write without a cache", took(off, &now, write(0, 4096)), flash.Overhead+bus+flash.FUA)
}

// TestChannels: reads from different channels overlap, and those from one do not.
func TestChannels(t *testing.T) {
	last := func(stride int64) (end time.Duration) {
		m := flash.Model(1<<30, true)
		for i := range int64(8) {
			end = max(end, m.Serve(0, &blocklog.Event{Op: blocklog.Read, Offset: i * stride, Length: 4096}))
		}
		return end
	}
	bus := onBus(4096, flash.BusRate)
	near(t, "eight reads from eight channels", last(flash.Page), flash.Overhead+flash.Read+8*bus)
	near(t, "eight reads from one channel", last(8*flash.Page), flash.Overhead+8*flash.Read+bus)
}

// TestFullBuffer: writes that find the buffer full come at the rate of flash.
func TestFullBuffer(t *testing.T) {
	small := flash
	small.Buffer, small.BusRate = 8<<20, 5_000_000_000
	m := small.Model(1<<30, true)
	const chunk = 128 << 10
	var now, begun time.Duration
	for i := range int64(400) {
		if i == 200 {
			begun = now
		}
		took(m, &now, write(i*chunk, chunk))
	}
	want := small.Program + small.Overhead + onBus(chunk, small.BusRate) // a page of each of eight channels
	near(t, "a write into a full buffer", (now-begun)/200, want)
}

// TestSolidStateTime: no request is answered before it arrived, and none waits for
// ever.
func TestSolidStateTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := flash.Model(1<<30, rapid.Bool().Draw(t, "cache"))
		var now time.Duration
		for i := range rapid.IntRange(1, 50).Draw(t, "n") {
			now += time.Duration(rapid.IntRange(0, 2_000_000).Draw(t, "pause"))
			e := &blocklog.Event{
				Op:     blocklog.Op(rapid.IntRange(int(blocklog.Read), int(blocklog.Zeroes)).Draw(t, "op")),
				Offset: 512 * rapid.Int64Range(0, 1<<20).Draw(t, "sector"), Length: 512 * rapid.Int64Range(1, 100).Draw(t, "sectors"),
				FUA: rapid.Bool().Draw(t, "fua"),
			}
			if done := m.Serve(now, e); done < now+flash.Overhead || done-now > time.Duration(i+1)*10*time.Millisecond {
				t.Fatalf("%s at %v is answered at %v", e.Op, now, done)
			}
		}
	})
}
