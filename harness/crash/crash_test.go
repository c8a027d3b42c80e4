package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/nbd"
)

const size = 8 * disk.SectorSize

type fataler interface {
	Helper()
	Fatal(...any)
}

// record runs steps on a drive's log. Each step is a request; "w3" writes its
// number to sector 3, "W3" does so with FUA, "f" flushes, "F" flushes without
// effect, "l" and "r" flush the left or the right half of the drive, "L" and "R" do so
// without effect, "e3" is a write that fails, "t3" one of three sectors, from there on, of
// which the middle one never reaches the drive; "d2" says that the drive wrote
// request 2 back by itself; "m3" is a write of three sectors, "z3" makes three
// sectors zeros, and "a" acknowledges an op. A "-" after it leaves the request without a reply, ever; ">" leaves it
// open until "<" answers the oldest open one.
func record(t fataler, dir string, steps ...string) *blocklog.Log {
	t.Helper()
	path := filepath.Join(dir, "log")
	w, err := blocklog.Create(path, size)
	if err != nil {
		t.Fatal(err)
	}
	var open []blocklog.Event
	n, acked := byte(0), uint64(0)
	reply := func(e blocklog.Event) {
		e.Kind, e.Time, e.Spoil, e.Started, e.Acked = blocklog.Reply, w.Now(), blocklog.Spoil{}, acked, acked
		if err := w.Append(&e, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range steps {
		if s == "a" {
			acked++
			continue
		}
		if s == "<" {
			reply(open[0])
			open = open[1:]
			continue
		}
		if s[0] == 'd' {
			e := blocklog.Event{Kind: blocklog.Destage, Request: uint64(s[1] - '0'), Op: blocklog.Write, Time: w.Now(), Started: acked, Acked: acked}
			if err := w.Append(&e, nil); err != nil {
				t.Fatal(err)
			}
			continue
		}
		n++
		e := blocklog.Event{Kind: blocklog.Arrive, Request: uint64(n), Op: blocklog.Flush, Time: w.Now(), Started: acked, Acked: acked}
		var payload []byte
		if strings.ContainsRune("wWetm", rune(s[0])) {
			e.Op, e.Offset, e.Length, e.FUA = blocklog.Write, int64(s[1]-'0')*disk.SectorSize, disk.SectorSize, s[0] == 'W'
			payload = bytes.Repeat([]byte{n}, disk.SectorSize)
		}
		switch s[0] {
		case 'e':
			e.Errno = 5
		case 'm':
			e.Length, payload = 3*e.Length, bytes.Repeat(payload, 3)
		case 'z':
			e.Op, e.Offset, e.Length = blocklog.Zeroes, int64(s[1]-'0')*disk.SectorSize, 3*disk.SectorSize
		case 't':
			e.Length, payload = 3*e.Length, bytes.Repeat(payload, 3)
			e.Spoil = blocklog.Spoil{Kind: blocklog.Torn, From: disk.SectorSize, To: 2 * disk.SectorSize}
		}
		e.NoEffect = strings.ContainsRune("FLR", rune(s[0]))
		switch s[0] {
		case 'l', 'L':
			e.Length = size / 2
		case 'r', 'R':
			e.Offset, e.Length = size/2, size/2
		}
		if err := w.Append(&e, payload); err != nil {
			t.Fatal(err)
		}
		switch s[len(s)-1] {
		case '-':
		case '>':
			open = append(open, e)
		default:
			reply(e)
		}
	}
	w.Close()
	l, err := blocklog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// content is the first byte of each sector.
func content(t fataler, s *Image) string {
	t.Helper()
	b := make([]byte, size)
	if _, err := s.Media.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 0, 8)
	for i := 0; i < size; i += disk.SectorSize {
		c := b[i]
		if !bytes.Equal(b[i:i+disk.SectorSize], bytes.Repeat([]byte{c}, disk.SectorSize)) {
			t.Fatal("a sector is torn")
		}
		out = append(out, '0'+c)
	}
	return string(out)
}

var base = bytes.NewReader(make([]byte, size))

func TestBuild(t *testing.T) {
	for _, c := range []struct {
		name     string
		steps    []string
		lose     string
		keep     string
		volatile int
	}{
		{"nothing", nil, "00000000", "00000000", 0},
		{"a write is volatile", []string{"w0"}, "00000000", "10000000", 1},
		{"a flush makes it durable", []string{"w0", "f"}, "10000000", "10000000", 0},
		{"a flush is for what came before", []string{"w0", "f", "w1"}, "10000000", "13000000", 1},
		{"FUA is for its own write", []string{"w0", "W1"}, "02000000", "12000000", 1},
		{"an ignored flush", []string{"w0", "F"}, "00000000", "10000000", 1},
		{"an effective flush after an ignored one", []string{"w0", "F", "f"}, "10000000", "10000000", 0},
		{"a write without a reply", []string{"w0-", "f"}, "00000000", "10000000", 1},
		{"a flush without a reply", []string{"w0", "f-"}, "00000000", "10000000", 1},
		{"a flush that came before the write's reply", []string{"w0>", "f>", "<", "<"}, "00000000", "10000000", 1},
		{"a flush that came after it", []string{"w0>", "<", "f>", "<"}, "10000000", "10000000", 0},
		{"a FUA write without a reply", []string{"W0-"}, "00000000", "10000000", 1},
		{"the newest of one sector", []string{"w0", "w0", "f"}, "20000000", "20000000", 0},
		{"an older durable version", []string{"w0", "f", "w0"}, "10000000", "30000000", 1},
		{"a write that fails", []string{"w0", "f", "e0"}, "10000000", "10000000", 0},
		{"a write that fails, without a reply", []string{"e0-"}, "00000000", "00000000", 0},
		{"a torn write", []string{"w1", "f", "t0", "f"}, "31300000", "31300000", 0},
		{"a torn write in the cache", []string{"t0"}, "00000000", "10100000", 1},
		{"written back", []string{"w0", "w1", "d1"}, "10000000", "12000000", 1},
		{"written back, and overwritten", []string{"w0", "d1", "w0"}, "10000000", "20000000", 1},
		{"written back, late, under an ignored flush", []string{"w0", "F", "w1", "d1"}, "10000000", "13000000", 1},
		{"a flush of one disk", []string{"w0", "w7", "l"}, "10000000", "10000002", 1},
		{"a flush of the other", []string{"w0", "w7", "r"}, "00000002", "10000002", 1},
		{"a flush of each", []string{"w0", "w7", "r", "l"}, "10000002", "10000002", 0},
		{"a flush of all", []string{"w0", "w7", "f"}, "10000002", "10000002", 0},
		{"one that is ignored", []string{"w0", "w7", "L", "r"}, "00000002", "10000002", 1},
		{"one after the other's", []string{"w0", "r", "w1", "l"}, "13000000", "13000000", 0},
		{"one that covers more than the other's", []string{"w0", "w7", "r", "w0", "l", "w7"}, "40000002", "40000006", 1},
		{"one in flight", []string{"w0", "w7", "l>", "w7", "r", "<"}, "10000004", "10000004", 0},
		{"a write that reaches into the other disk", []string{"m3", "l"}, "00000000", "00011100", 1},
		{"a FUA write over a cached one", []string{"w0", "W0"}, "20000000", "20000000", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := record(t, t.TempDir(), c.steps...)
			defer l.Close()
			for p, want := range map[Policy]string{Lose: c.lose, Keep: c.keep} {
				s, err := Build(base, l, len(l.Events), p, 1)
				if err != nil {
					t.Fatal(err)
				}
				if got := content(t, s); got != want || s.Volatile != c.volatile {
					t.Errorf("%s: content %s, %d volatile; want %s, %d", p, got, s.Volatile, want, c.volatile)
				}
			}
		})
	}
}

// TestEveryCut: a state is a function of the events before the cut alone, durable
// sectors never go away, and a random state lies between lose and keep.
func TestEveryCut(t *testing.T) {
	steps := rapid.SliceOfN(rapid.SampledFrom([]string{"w0", "w1", "w2", "w0>", "w1>", "W0", "W2>", "w5", "w7>", "f", "f>", "F", "l", "r>", "L", "R>", "e1", "t0", "t1>"}), 1, 30)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "crash")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l := record(t, dir, steps.Draw(t, "steps")...)
		defer l.Close()
		seed := rapid.Uint64().Draw(t, "seed")
		for cut := range len(l.Events) + 1 {
			states := map[Policy]string{}
			for _, p := range []Policy{Lose, Keep, Random} {
				s, err := Build(base, l, cut, p, seed)
				if err != nil {
					t.Fatal(err)
				}
				again, err := Build(base, l, cut, p, seed)
				if err != nil {
					t.Fatal(err)
				}
				states[p] = content(t, s)
				if got := content(t, again); got != states[p] {
					t.Fatalf("cut %d, %s: one seed gives %s and %s", cut, p, states[p], got)
				}
			}
			for i := range states[Random] {
				if r := states[Random][i]; r < states[Lose][i] || r > states[Keep][i] {
					t.Fatalf("cut %d: sector %d is %c, between %c and %c", cut, i, r, states[Lose][i], states[Keep][i])
				}
			}
		}
	})
}

// TestRandomReachesBoth: over seeds a volatile write is now lost, now kept.
func TestRandomReachesBoth(t *testing.T) {
	l := record(t, t.TempDir(), "w0", "w1")
	defer l.Close()
	seen := map[string]bool{}
	for seed := range uint64(200) {
		s, err := Build(base, l, len(l.Events), Random, seed)
		if err != nil {
			t.Fatal(err)
		}
		seen[content(t, s)] = true
	}
	for _, want := range []string{"00000000", "10000000", "02000000", "12000000"} {
		if !seen[want] {
			t.Errorf("no seed of 200 gives the state %s", want)
		}
	}
}

func TestBadCut(t *testing.T) {
	l := record(t, t.TempDir(), "w0")
	defer l.Close()
	for _, cut := range []int{-1, 3} {
		if _, err := Build(base, l, cut, Lose, 0); err == nil {
			t.Errorf("a cut at %d of 2 events was taken", cut)
		}
	}
}

// TestDriveTellsTheTruth lets drives with faults serve requests, and compares what
// they answer to reads with what their logs alone say: a cut that keeps all leaves
// what was read last, and one that loses all only what was written at some time.
func TestDriveTellsTheTruth(t *testing.T) {
	kinds := []disk.Fault{
		{Kind: disk.FlushIgnored},
		{Kind: disk.FUAIgnored},
		{Kind: disk.FlushLate, Delay: time.Nanosecond},
		{Kind: disk.Failing, On: disk.OnAny, Select: disk.Select{Tries: 1}},
		{Kind: disk.TornWrite, On: disk.OnWrite},
		{Kind: disk.BitRot},
		{Kind: disk.BoundedCache, Size: 2 * disk.SectorSize},
		{Kind: disk.Destaging, Delay: time.Nanosecond},
	}
	rapid.Check(t, func(t *rapid.T) {
		var faults []disk.Fault
		for _, f := range rapid.SliceOfNDistinct(rapid.SampledFrom(kinds), 0, 4, rapid.ID).Draw(t, "faults") {
			if f.Kind != disk.BoundedCache && f.Kind != disk.Destaging {
				f.Select.Chance = rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "chance")
			}
			faults = append(faults, f)
		}
		dir, err := os.MkdirTemp("", "crash")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		log, err := blocklog.Create(filepath.Join(dir, "log"), size)
		if err != nil {
			t.Fatal(err)
		}
		d := disk.New(disk.Config{
			Base: base, Size: size, Log: log, WriteCache: rapid.Bool().Draw(t, "write cache"), Faults: faults, Seed: rapid.Uint64().Draw(t, "seed"),
			Counts: func() (uint64, uint64) { return 1, 0 },
		})
		for n := range rapid.IntRange(1, 20).Draw(t, "requests") {
			submit(t, d, byte(n+1))
		}
		view := make([]byte, size)
		for tries := 0; ; tries++ { // a read may fail as well
			if d.Submit(&nbd.Request{Command: nbd.Read, Length: size, Data: view}, func(e error) { err = e }); err == nil || tries == 50 {
				break
			}
		}
		d.Close()
		log.Close()
		l, openErr := blocklog.Open(filepath.Join(dir, "log"))
		if openErr != nil {
			t.Fatal(openErr)
		}
		defer l.Close()
		kept, lost := media(t, l, Keep), media(t, l, Lose)
		if err == nil && !bytes.Equal(kept, view) {
			t.Fatalf("faults %+v: what is read last is not what a cut leaves that keeps all", faults)
		}
		for at := int64(0); at < size; at += disk.SectorSize {
			if !written(t, l, at, lost[at:at+disk.SectorSize]) {
				t.Fatalf("faults %+v: the sector at %d holds what was never stored there", faults, at)
			}
		}
	})
}

// submit lets a drive serve one request, at once.
func submit(t *rapid.T, d *disk.Drive, content byte) {
	r := &nbd.Request{Command: rapid.SampledFrom([]nbd.Command{nbd.Write, nbd.Write, nbd.Write, nbd.Flush, nbd.Trim}).Draw(t, "command")}
	if r.Command != nbd.Flush {
		first := rapid.IntRange(0, size/disk.SectorSize-1).Draw(t, "sector")
		r.Offset, r.Length = int64(first)*disk.SectorSize, disk.SectorSize*rapid.IntRange(1, size/disk.SectorSize-first).Draw(t, "sectors")
		r.FUA = rapid.Bool().Draw(t, "FUA")
	} else if rapid.Bool().Draw(t, "of one disk") {
		r.Offset, r.Length = rapid.SampledFrom([]int64{0, size / 2}).Draw(t, "disk"), size/2
	}
	if r.Command == nbd.Write {
		r.Data = bytes.Repeat([]byte{content}, r.Length)
	}
	answered := false
	d.Submit(r, func(error) { answered = true })
	if !answered {
		t.Fatal("no answer")
	}
}

func media(t *rapid.T, l *blocklog.Log, p Policy) []byte {
	s, err := Build(base, l, len(l.Events), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := s.Media.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// written tells whether a sector's content is the base's or that of a payload.
func written(t *rapid.T, l *blocklog.Log, at int64, sector []byte) bool {
	if bytes.Equal(sector, make([]byte, disk.SectorSize)) {
		return true
	}
	for _, e := range l.Events {
		if e.Kind != blocklog.Arrive || e.Op != blocklog.Write || e.Errno != 0 || at < e.Offset || at >= e.Offset+e.Length {
			continue
		}
		payload, err := l.Payload(e)
		if err != nil {
			t.Fatal(err)
		}
		if torn := e.Spoil.Kind == blocklog.Torn && at-e.Offset >= e.Spoil.From && at-e.Offset < e.Spoil.To; !torn && bytes.Equal(payload[at-e.Offset:][:disk.SectorSize], sector) {
			return true
		}
	}
	return false
}
