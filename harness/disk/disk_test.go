package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
	"powercut/harness/nbd"
)

const testSize = 64 << 10

type fataler interface {
	Helper()
	Fatal(...any)
}

func newDrive(t fataler, dir string, change func(*Config)) (*Drive, *blocklog.Writer) {
	t.Helper()
	log, err := blocklog.Create(filepath.Join(dir, "block.log"), testSize)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Base: bytes.NewReader(bytes.Repeat([]byte{0xEE}, testSize)), Size: testSize, Log: log, WriteCache: true}
	if change != nil {
		change(&cfg)
	}
	return New(cfg), log
}

// do submits a request and waits for its answer.
func do(d *Drive, r *nbd.Request) (answered bool) {
	done := make(chan struct{})
	d.Submit(r, func(error) { close(done) })
	select {
	case <-done:
		return true
	case <-d.Stopped():
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// TestReadsSeeWrites: the drive reads as an array of bytes does, whatever mix of
// writes, zeroes and trims came before.
func TestReadsSeeWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir := tempDir(t)
		d, log := newDrive(t, dir, nil)
		defer log.Close()
		defer d.Close()
		model := bytes.Repeat([]byte{0xEE}, testSize)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			sector := rapid.IntRange(0, testSize/SectorSize-1).Draw(t, "sector")
			n := SectorSize * rapid.IntRange(1, min(20, testSize/SectorSize-sector)).Draw(t, "sectors")
			off := sector * SectorSize
			r := &nbd.Request{Offset: int64(off), Length: n}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				r.Command, r.Data = nbd.Write, bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, n)
				copy(model[off:], r.Data)
			case 1:
				r.Command = nbd.Trim
				clear(model[off : off+n])
			case 2:
				r.Command = nbd.WriteZeroes
				clear(model[off : off+n])
			case 3:
				r.Command, r.Data = nbd.Read, make([]byte, n)
			}
			if !do(d, r) {
				t.Fatal("no answer")
			}
			if r.Command == nbd.Read && !bytes.Equal(r.Data, model[off:off+n]) {
				t.Fatalf("read %d+%d differs from the model", off, n)
			}
		}
		all := &nbd.Request{Command: nbd.Read, Length: testSize, Data: make([]byte, testSize)}
		if !do(d, all) || !bytes.Equal(all.Data, model) {
			t.Fatal("the drive's content differs from the model")
		}
	})
}

func tempDir(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestMediaUnaligned: ReadAt takes any offset and length.
func TestMediaUnaligned(t *testing.T) {
	data := make([]byte, 8192)
	for i := range data {
		data[i] = byte(i>>8 + i)
	}
	base := bytes.Repeat([]byte{0xEE}, 8192)
	m := NewMedia(8192, bytes.NewReader(base), bytes.NewReader(data))
	m.Write(512, 1536, 1024)
	m.Write(4096, 512, 7000)
	m.Zero(4608, 1024)
	want := bytes.Clone(base)
	copy(want[512:2048], data[1024:])
	copy(want[4096:4608], data[7000:])
	clear(want[4608:5632])
	for off := 0; off < 8192; off += 37 {
		for _, n := range []int{1, 500, 513, 4000, 8192} {
			n = min(n, 8192-off)
			got := make([]byte, n)
			if k, err := m.ReadAt(got, int64(off)); err != nil || k != n || !bytes.Equal(got, want[off:off+n]) {
				t.Fatalf("read %d+%d: %d bytes, %v, or wrong content", off, n, k, err)
			}
		}
	}
	if n, err := m.ReadAt(make([]byte, 10), 8190); n != 2 || err == nil {
		t.Errorf("read over the end: %d bytes, %v", n, err)
	}
}

// TestCutStopsTheWorld: for every position at which the world may stop, exactly
// the events before it are in the log, and no request that has no reply there was
// answered.
func TestCutStopsTheWorld(t *testing.T) {
	for cut := range 13 {
		var answers atomic.Int32
		dir := t.TempDir()
		d, log := newDrive(t, dir, func(c *Config) {
			c.Cut = func(pos int, _ *blocklog.Event) (string, bool) { return "test", pos == cut }
		})
		for i := range 6 {
			r := &nbd.Request{Command: nbd.Write, Offset: int64(i) * 512, Length: 512, Data: make([]byte, 512)}
			d.Submit(r, func(error) { answers.Add(1) })
		}
		_, pos, err := d.Cut()
		want := min(cut, 12)
		if pos != want || err != nil || int(answers.Load()) != want/2 {
			t.Errorf("cut at %d: position %d, %d answers, %v; want %d, %d", cut, pos, answers.Load(), err, want, want/2)
		}
		d.Close()
		log.Close()
		l, err := blocklog.Open(filepath.Join(dir, "block.log"))
		if err != nil || len(l.Events) != want {
			t.Fatalf("cut at %d: the log has %d events, %v; want %d", cut, len(l.Events), err, want)
		}
		l.Close()
	}
}

// TestCountsAreRead: each event carries the ledger's counts as they were when it
// was logged.
func TestCountsAreRead(t *testing.T) {
	var n uint64
	var got [][2]uint64
	d, log := newDrive(t, t.TempDir(), func(c *Config) {
		c.Counts = func() (uint64, uint64) { n++; return n + 100, n }
		c.Cut = func(_ int, e *blocklog.Event) (string, bool) {
			got = append(got, [2]uint64{e.Started, e.Acked})
			return "", false
		}
	})
	defer log.Close()
	defer d.Close()
	do(d, &nbd.Request{Command: nbd.Flush})
	if len(got) != 2 || got[0] != [2]uint64{101, 1} || got[1] != [2]uint64{102, 2} {
		t.Errorf("counts at the events: %v", got)
	}
}

// TestFullHost: a log that cannot be written is a failure of the harness, and no
// request is answered that is not in it.
func TestFullHost(t *testing.T) {
	d, log := newDrive(t, t.TempDir(), nil)
	log.Close() // every append fails from now on
	answered := do(d, &nbd.Request{Command: nbd.Write, Length: 512, Data: make([]byte, 512)})
	if _, _, err := d.Cut(); answered || err == nil {
		t.Errorf("answered %v, error %v", answered, err)
	}
	d.Close()
}

// TestUnreadableBase: a base image that cannot be read is one as well.
func TestUnreadableBase(t *testing.T) {
	d, log := newDrive(t, t.TempDir(), func(c *Config) { c.Base = brokenReader{} })
	defer log.Close()
	answered := do(d, &nbd.Request{Command: nbd.Read, Length: 512, Data: make([]byte, 512)})
	if _, _, err := d.Cut(); answered || err == nil {
		t.Errorf("answered %v, error %v", answered, err)
	}
	d.Close()
}

type brokenReader struct{}

func (brokenReader) ReadAt([]byte, int64) (int, error) { return 0, errors.New("medium error") }

// TestTimedDriveAnswersAll: with an actuator each request is answered, in order,
// and none before the drive's own clock allows it.
func TestTimedDriveAnswersAll(t *testing.T) {
	timing := Rotating{RPM: 60000, SectorsPerTrack: 100, SeekMin: time.Microsecond, SeekMax: time.Millisecond, BusRate: 1 << 30}
	d, log := newDrive(t, t.TempDir(), func(c *Config) { c.Timing, c.WriteCache = timing, false })
	defer log.Close()
	defer d.Close()
	order := make(chan int, 5)
	for i := range 5 {
		r := &nbd.Request{Command: nbd.Write, FUA: true, Length: 512, Data: make([]byte, 512)}
		d.Submit(r, func(error) { order <- i })
	}
	for i := range 5 {
		if got := <-order; got != i {
			t.Fatalf("answer %d is for request %d", i, got)
		}
	}
	if least := 4 * timing.Revolution(); log.Now() < least {
		t.Errorf("five writes of one sector took %v, less than four turns (%v)", log.Now(), least)
	}
}

func BenchmarkDriveWrite4K(b *testing.B) {
	d, log := newDrive(b, b.TempDir(), nil)
	defer log.Close()
	defer d.Close()
	r := &nbd.Request{Command: nbd.Write, Length: 4096, Data: make([]byte, 4096)}
	b.SetBytes(4096)
	for b.Loop() {
		d.Submit(r, func(error) {})
	}
}
