package disk

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/nbd"
)

// faulty is a drive with faults whose workload is in its first op.
func faulty(t fataler, dir string, faults ...Fault) (*Drive, *blocklog.Writer) {
	t.Helper()
	return newDrive(t, dir, func(c *Config) {
		c.Faults, c.Seed = faults, 1
		c.Counts = func() (uint64, uint64) { return 1, 0 }
	})
}

func writeAt(at int64, n int, fua bool) *nbd.Request {
	return &nbd.Request{Command: nbd.Write, FUA: fua, Offset: at, Length: n, Data: bytes.Repeat([]byte{byte(at/512 + 1)}, n)}
}

// answer submits a request and waits for its answer.
func answer(t testing.TB, d *Drive, r *nbd.Request) error {
	t.Helper()
	got := make(chan error, 1)
	d.Submit(r, func(err error) { got <- err })
	select {
	case err := <-got:
		return err
	case <-d.Stopped():
		t.Fatal("the world stopped")
		return nil
	}
}

// logOf closes drive and log and reads the log back, which checks it.
func logOf(t testing.TB, dir string, d *Drive, log *blocklog.Writer) *blocklog.Log {
	t.Helper()
	d.Close()
	log.Close()
	l, err := blocklog.Open(filepath.Join(dir, "block.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestFaultsAreLogged: what a fault took away is told in the log, at the request
// and at its answer.
func TestFaultsAreLogged(t *testing.T) {
	dir := t.TempDir()
	d, log := faulty(t, dir, Fault{Kind: FlushIgnored}, Fault{Kind: FUAIgnored})
	for _, r := range []*nbd.Request{{Command: nbd.Flush}, writeAt(0, 512, true), writeAt(0, 512, false)} {
		if err := answer(t, d, r); err != nil {
			t.Fatal(err)
		}
	}
	l := logOf(t, dir, d, log)
	for i, want := range []bool{true, true, true, true, false, false} {
		if l.Events[i].NoEffect != want {
			t.Errorf("event %d: no effect is %v, want %v", i, l.Events[i].NoEffect, want)
		}
	}
}

// TestHonestBeforeOp1: faults wait for the workload.
func TestHonestBeforeOp1(t *testing.T) {
	dir := t.TempDir()
	started := uint64(0)
	d, log := newDrive(t, dir, func(c *Config) {
		c.Faults = []Fault{{Kind: Failing, On: OnAny}, {Kind: TornWrite, On: OnWrite}}
		c.Counts = func() (uint64, uint64) { return started, 0 }
	})
	if err := answer(t, d, writeAt(0, 4096, false)); err != nil {
		t.Errorf("before op 1 a write gave %v", err)
	}
	started = 1
	if err := answer(t, d, writeAt(0, 4096, false)); !errors.Is(err, syscall.EIO) {
		t.Errorf("in op 1 a write gave %v", err)
	}
	l := logOf(t, dir, d, log)
	if e := l.Events[0]; e.Errno != 0 || e.Spoil != (blocklog.Spoil{}) {
		t.Errorf("the log says of the first write: %+v", e)
	}
}

// TestFailing: what fails has no effect, and the log says so from its arrival on.
func TestFailing(t *testing.T) {
	dir := t.TempDir()
	d, log := faulty(t, dir, Fault{Kind: Failing, On: OnAny, Select: Select{From: 2, Tries: 1, Once: true}}, Fault{Kind: Failing, On: OnRead, Select: Select{Nth: 2, Tries: 1}})
	if err := answer(t, d, writeAt(0, 512, false)); err != nil {
		t.Fatal(err)
	}
	if err := answer(t, d, writeAt(512, 512, false)); !errors.Is(err, syscall.EIO) {
		t.Errorf("the second request gave %v", err)
	}
	read := &nbd.Request{Command: nbd.Read, Length: 1024, Data: make([]byte, 1024)}
	if err := answer(t, d, read); err != nil || read.Data[0] != 1 || read.Data[512] != 0xEE {
		t.Errorf("read %d, %d after a write and a write that failed, %v", read.Data[0], read.Data[512], err)
	}
	if err := answer(t, d, read); !errors.Is(err, syscall.EIO) {
		t.Errorf("the second read gave %v", err)
	}
	l := logOf(t, dir, d, log)
	for i, want := range []int32{0, 0, 5, 5, 0, 0, 5, 5} {
		if l.Events[i].Errno != want {
			t.Errorf("event %d: errno %d, want %d", i, l.Events[i].Errno, want)
		}
	}
}

// TestSpoiltWrites: reads see what was stored, torn or rotten.
func TestSpoiltWrites(t *testing.T) {
	for _, f := range []Fault{{Kind: TornWrite, On: OnWrite}, {Kind: BitRot}} {
		dir := t.TempDir()
		d, log := faulty(t, dir, f)
		if err := answer(t, d, writeAt(0, 4096, true)); err != nil {
			t.Fatal(err)
		}
		read := &nbd.Request{Command: nbd.Read, Length: 4096, Data: make([]byte, 4096)}
		if err := answer(t, d, read); err != nil {
			t.Fatal(err)
		}
		want := bytes.Repeat([]byte{1}, 4096)
		damage := logOf(t, dir, d, log).Events[0].Spoil
		switch damage.Kind {
		case blocklog.Torn:
			copy(want[damage.From:damage.To], bytes.Repeat([]byte{0xEE}, 4096))
		case blocklog.Rot:
			damage.Flip(want)
		}
		if !bytes.Equal(read.Data, want) || bytes.Equal(want, bytes.Repeat([]byte{1}, 4096)) {
			t.Errorf("%s: the log says %+v, and what is read differs from that", f.Kind, damage)
		}
	}
}

// TestBoundedCache: at each event no more is volatile than the cache holds.
func TestBoundedCache(t *testing.T) {
	dir := t.TempDir()
	d, log := faulty(t, dir, Fault{Kind: BoundedCache, Size: 8192})
	for i := range int64(10) {
		if err := answer(t, d, writeAt(i*4096%40960, 4096, i == 5)); err != nil {
			t.Fatal(err)
		}
	}
	if err := answer(t, d, writeAt(0, 16384, false)); err != nil { // larger than the cache
		t.Fatal(err)
	}
	l := logOf(t, dir, d, log)
	volatile, sizes := map[uint64]int64{}, map[uint64]int64{}
	var total int64
	var destaged []uint64
	for i, e := range l.Events {
		switch {
		case e.Kind == blocklog.Arrive:
			sizes[e.Request] = e.Length
		case e.Kind == blocklog.Destage:
			total -= volatile[e.Request]
			destaged = append(destaged, e.Request)
		case !e.Durable():
			volatile[e.Request] = sizes[e.Request]
			total += e.Length
		}
		if total > 8192 && i != len(l.Events)-2 { // the last one is written back right after its answer
			t.Errorf("after event %d %d bytes are volatile", i, total)
		}
	}
	if len(destaged) != 10 || total != 0 {
		t.Errorf("requests %v were written back, %d bytes are left", destaged, total)
	}
}

// TestFlushCoversWhatWasAnswered: a flush empties the cache of what was answered
// when it arrived, and of nothing else.
func TestFlushCoversWhatWasAnswered(t *testing.T) {
	dir := t.TempDir()
	d, log := faulty(t, dir, Fault{Kind: BoundedCache, Size: 1024}, Fault{Kind: Slow, On: OnFlush, Delay: 20 * time.Millisecond})
	flushed := make(chan error, 1)
	if err := answer(t, d, writeAt(0, 512, false)); err != nil {
		t.Fatal(err)
	}
	d.Submit(&nbd.Request{Command: nbd.Flush}, func(err error) { flushed <- err })
	if err := errors.Join(answer(t, d, writeAt(512, 512, false)), <-flushed); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := answer(t, d, writeAt(1024, 512, false)); err != nil {
			t.Fatal(err)
		}
	}
	var destaged []uint64
	for _, e := range logOf(t, dir, d, log).Events {
		if e.Kind == blocklog.Destage {
			destaged = append(destaged, e.Request)
		}
	}
	if !slices.Equal(destaged, []uint64{3}) {
		t.Errorf("requests %v were written back, want 3, which the flush did not cover", destaged)
	}
}

// pass waits until that much time of the log has passed.
func pass(log *blocklog.Writer, d time.Duration) {
	for end := log.Now() + d; log.Now() < end; {
		runtime.Gosched()
	}
}

// TestDestaging: what has been in the cache for long is in the log as written back
// by the cut at the latest; so is what a late flush covered.
func TestDestaging(t *testing.T) {
	for _, c := range []struct {
		fault    Fault
		requests []*nbd.Request
		late     bool
	}{
		{Fault{Kind: Destaging, Delay: time.Millisecond}, []*nbd.Request{writeAt(0, 512, false)}, false},
		{Fault{Kind: FlushLate, Delay: time.Millisecond}, []*nbd.Request{writeAt(0, 512, false), {Command: nbd.Flush}, writeAt(0, 512, false)}, true},
	} {
		dir := t.TempDir()
		d, log := faulty(t, dir, c.fault)
		for _, r := range c.requests {
			if err := answer(t, d, r); err != nil {
				t.Fatal(err)
			}
		}
		pass(log, 2*time.Millisecond)
		d.Stop("test")
		var destaged []uint64
		for _, e := range logOf(t, dir, d, log).Events {
			if e.Kind == blocklog.Destage {
				destaged = append(destaged, e.Request)
			}
			if e.Op == blocklog.Flush && e.NoEffect != c.late {
				t.Errorf("%s: the flush has no effect: %v", c.fault.Kind, e.NoEffect)
			}
		}
		if !slices.Equal(destaged, []uint64{1}) {
			t.Errorf("%s: requests %v are written back, want 1", c.fault.Kind, destaged)
		}
	}
}

// TestStall: a stall holds up all that comes after it, and nothing overtakes.
func TestStall(t *testing.T) {
	const delay = 20 * time.Millisecond
	dir := t.TempDir()
	d, log := faulty(t, dir, Fault{Kind: Stalling, On: OnWrite, Delay: delay, Select: Select{Nth: 1}})
	var all sync.WaitGroup
	for i := range int64(3) {
		all.Add(1)
		d.Submit(writeAt(i*512, 512, false), func(error) { all.Done() })
	}
	all.Wait()
	l := logOf(t, dir, d, log)
	var order []uint64
	for _, e := range l.Events {
		if e.Kind == blocklog.Reply {
			order = append(order, e.Request)
		}
		if e.Kind == blocklog.Reply && e.Time-l.Events[0].Time < delay {
			t.Errorf("request %d was answered %v after the stall began", e.Request, e.Time-l.Events[0].Time)
		}
	}
	if !slices.Equal(order, []uint64{1, 2, 3}) {
		t.Errorf("answers in the order %v", order)
	}
}

// TestSlow: a slow request holds up itself alone.
func TestSlow(t *testing.T) {
	dir := t.TempDir()
	d, log := faulty(t, dir, Fault{Kind: Slow, On: OnWrite, Delay: time.Hour, Select: Select{Nth: 1}})
	d.Submit(writeAt(0, 512, false), func(error) { t.Error("answered within an hour") })
	for range 3 {
		if err := answer(t, d, writeAt(512, 512, false)); err != nil {
			t.Fatal(err)
		}
	}
	logOf(t, dir, d, log)
}

// TestTimedDelay: a drive with mechanics adds a fault's delay to their time.
func TestTimedDelay(t *testing.T) {
	dir := t.TempDir()
	d, log := newDrive(t, dir, func(c *Config) {
		c.Timing, c.Faults = quick, []Fault{{Kind: Slow, On: OnAny, Delay: 20 * time.Millisecond}}
		c.Counts = func() (uint64, uint64) { return 1, 0 }
	})
	if err := answer(t, d, writeAt(0, 512, false)); err != nil {
		t.Fatal(err)
	}
	if l := logOf(t, dir, d, log); l.Events[1].Time-l.Events[0].Time < 20*time.Millisecond {
		t.Errorf("answered after %v", l.Events[1].Time-l.Events[0].Time)
	}
}

// TestTimedStall: a drive with mechanics that stalls answers nothing before the stall
// is over, although it has the time.
func TestTimedStall(t *testing.T) {
	dir := t.TempDir()
	const stall = 20 * time.Millisecond
	d, log := newDrive(t, dir, func(c *Config) {
		c.Timing, c.Faults = quick, []Fault{{Kind: Stalling, On: OnWrite, Delay: stall, Select: Select{Nth: 1}}}
		c.Counts = func() (uint64, uint64) { return 1, 0 }
	})
	d.Submit(writeAt(0, 512, false), func(error) {})
	read := &nbd.Request{Command: nbd.Read, Offset: 0, Length: 512, Data: make([]byte, 512)}
	if err := answer(t, d, read); err != nil {
		t.Fatal(err)
	}
	for _, e := range logOf(t, dir, d, log).Events {
		if e.Kind == blocklog.Reply && e.Time < stall {
			t.Errorf("the %v was answered after %v", e.Op, e.Time)
		}
	}
}

// quick is a drive that takes next to no time.
var quick = Rotating{RPM: 60000, SectorsPerTrack: 100, SeekMin: time.Microsecond, SeekMax: time.Millisecond, BusRate: 1 << 30}

// TestDelaysEnd: a drive that is closed waits for no delay.
func TestDelaysEnd(t *testing.T) {
	dir := t.TempDir()
	d, log := faulty(t, dir, Fault{Kind: Stalling, On: OnAny, Delay: time.Hour})
	d.Submit(writeAt(0, 512, false), func(error) { t.Error("answered") })
	if l := logOf(t, dir, d, log); len(l.Events) != 1 {
		t.Errorf("the log has %d events", len(l.Events))
	}
}
