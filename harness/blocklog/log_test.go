package blocklog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const driveSize = 1 << 20

type fataler interface {
	Helper()
	Fatal(...any)
}

// written appends what a drive might, and returns the events as they were given.
func written(t fataler, path string, steps []step) []Event {
	t.Helper()
	w, err := Create(path, driveSize)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var out []Event
	var open []Event
	for _, s := range steps {
		e := Event{Kind: Arrive, Request: uint64(len(out) + 1), Op: s.op, FUA: s.fua, Offset: s.offset, Length: s.length}
		e.Request = uint64(len(open) + 1)
		e.Started, e.Acked, e.Time = s.acked+1, s.acked, w.Now()
		e.Spoil = s.damage
		var payload []byte
		if s.op == Write {
			payload = bytes.Repeat([]byte{byte(e.Request)}, int(s.length))
		}
		if err := w.Append(&e, payload); err != nil {
			t.Fatal(err)
		}
		out, open = append(out, e), append(open, e)
	}
	for _, e := range open {
		e.Kind, e.Time, e.Acked, e.Spoil = Reply, w.Now(), out[len(out)-1].Acked, Spoil{}
		if err := w.Append(&e, nil); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
		if e.Op == Read || e.Op == Flush || e.FUA {
			continue
		}
		e = Event{Kind: Destage, Request: e.Request, Op: e.Op, Started: e.Started, Acked: e.Acked, Time: w.Now()}
		if err := w.Append(&e, nil); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

type step struct {
	op             Op
	fua            bool
	offset, length int64
	acked          uint64
	damage         Spoil
}

func drawSteps(t *rapid.T) []step {
	var acked uint64
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		acked += uint64(rapid.IntRange(0, 1).Draw(t, "acks"))
		s := step{op: Op(rapid.IntRange(int(Read), int(Zeroes)).Draw(t, "op")), acked: acked}
		if s.op != Flush {
			s.offset = 512 * rapid.Int64Range(0, 1000).Draw(t, "sector")
			s.length = 512 * rapid.Int64Range(1, 20).Draw(t, "sectors")
			s.fua = s.op == Write && rapid.Bool().Draw(t, "fua")
		}
		if s.op == Write && rapid.Bool().Draw(t, "damage") {
			from := rapid.Int64Range(0, s.length/512-1).Draw(t, "damage from")
			s.damage = Spoil{Kind: SpoilKind(rapid.IntRange(1, 2).Draw(t, "damage kind")), From: 512 * from, To: 512 * rapid.Int64Range(from+1, s.length/512).Draw(t, "damage to")}
			if s.damage.Kind == Rot {
				s.damage.Bit = rapid.IntRange(0, 4095).Draw(t, "bit")
			}
		}
		return s
	}), 1, 40).Draw(t, "steps")
}

// TestRoundTrip: what is appended is what is read, payloads included.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "log")
		defer os.Remove(path)
		want := written(t, path, drawSteps(t))
		l, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for i := range want {
			if want[i].Kind != Arrive {
				want[i].DataAt = 0
			}
		}
		if d := cmp.Diff(want, l.Events); d != "" || l.Truncated || l.Size != driveSize {
			t.Fatalf("truncated %v, size %d, events (-want +got):\n%s", l.Truncated, l.Size, d)
		}
		for _, e := range l.Events {
			if e.Kind == Arrive && e.Op == Write {
				p, err := l.Payload(e)
				if err != nil || !bytes.Equal(p, bytes.Repeat([]byte{byte(e.Request)}, int(e.Length))) {
					t.Fatalf("payload of request %d: %v", e.Request, err)
				}
			}
		}
	})
}

// TestCutShort: a log of which the end is missing gives a prefix of its events,
// wherever it ends.
func TestCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	want := written(t, path, []step{{op: Write, length: 512}, {op: Flush}, {op: Write, offset: 512, length: 1024, fua: true}})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := headerSize; n <= len(whole); n++ {
		l, err := Load(bytes.NewReader(whole[:n]), int64(n))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if len(l.Events) > len(want) || l.Truncated == (n == headerSize || n == len(whole) || ends(whole, n)) {
			t.Fatalf("%d bytes: %d events, truncated %v", n, len(l.Events), l.Truncated)
		}
	}
}

// ends tells whether an event ends at byte n.
func ends(whole []byte, n int) bool {
	l, err := Load(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		return false
	}
	at := headerSize
	for _, e := range l.Events {
		at += eventSize
		if e.DataAt != 0 {
			at += int(e.Length) + padding(int(e.Length))
		}
		if at == n {
			return true
		}
	}
	return false
}

// TestDamage: no byte of a log can change unseen.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	written(t, path, []step{{op: Write, length: 512}, {op: Flush}, {op: Read, length: 4096}})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x40
		if _, err := Load(bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d changed: error is %v, want ErrDamaged", i, err)
		}
	}
}

// TestSalvage: of a damaged log what comes before the damage is read, and the place
// told, wherever a byte is changed or the file ends.
func TestSalvage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	want := written(t, path, []step{{op: Write, length: 512}, {op: Flush}, {op: Read, length: 4096}})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begins := []int64{headerSize} // of events, and the end
	for _, e := range want {
		next := begins[len(begins)-1] + eventSize
		if e.Kind == Arrive && e.Op == Write {
			next += e.Length
		}
		begins = append(begins, next)
	}
	salvage := func(b []byte) (*Log, *Damage) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		l, d, err := Salvage(path)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return l, d
	}
	if l, d := salvage(whole); d != nil || len(l.Events) != len(want) {
		t.Fatalf("a whole log: %d events, %v", len(l.Events), d)
	}
	for n := headerSize; n < len(whole); n++ {
		spoiled := bytes.Clone(whole)
		spoiled[n] ^= 0x40
		for name, b := range map[string][]byte{"changed": spoiled, "short": whole[:n]} {
			event := 0
			for int64(n) >= begins[event+1] {
				event++
			}
			l, d := salvage(b)
			if name == "short" && int64(n) == begins[event] {
				if d != nil || len(l.Events) != event {
					t.Fatalf("ends before event %d: %d events, %v", event, len(l.Events), d)
				}
				continue
			}
			if d == nil || d.Event != event || d.Byte != begins[event] || len(l.Events) != event || !errors.Is(d, ErrDamaged) {
				t.Fatalf("byte %d %s: %d events, %v; want damage at event %d, byte %d", n, name, len(l.Events), d, event, begins[event])
			}
		}
	}
	if err := os.WriteFile(path, whole[:30], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Salvage(path); !errors.Is(err, ErrDamaged) {
		t.Errorf("half a header: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	path := filepath.Join(f.TempDir(), "log")
	written(f, path, []step{{op: Write, length: 512}, {op: Flush}, {op: Trim, offset: 512, length: 512}})
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:200])
	_, packed := compressed(f, f.TempDir())
	f.Add(packed)
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Load(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("error %v is not ErrDamaged", err)
			}
			return
		}
		for _, e := range l.Events {
			if e.Kind == Arrive && e.Op == Write {
				if _, err := l.Payload(e); err != nil {
					t.Fatalf("event was taken, its payload is unreadable: %v", err)
				}
			}
		}
	})
}

func BenchmarkAppend4K(b *testing.B) {
	w, err := Create(filepath.Join(b.TempDir(), "log"), 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	payload := make([]byte, 4096)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		e := Event{Kind: Arrive, Op: Write, Request: uint64(w.Events() + 1), Length: 4096}
		if err := w.Append(&e, payload); err != nil {
			b.Fatal(err)
		}
	}
}

// TestContradictions: a log that contradicts itself is refused, although each of
// its events is whole.
func TestContradictions(t *testing.T) {
	arrive := Event{Kind: Arrive, Request: 1, Op: Write, Length: 1024}
	reply := Event{Kind: Reply, Request: 1, Op: Write, Length: 1024}
	back := Event{Kind: Destage, Request: 1, Op: Write}
	with := func(e Event, change func(*Event)) Event { change(&e); return e }
	damaged := func(d Spoil) Event { return with(arrive, func(e *Event) { e.Spoil = d }) }
	flush := Event{Kind: Arrive, Request: 1, Op: Flush}
	for name, events := range map[string][]Event{
		"reply to nothing":              {reply},
		"reply to another request":      {arrive, with(reply, func(e *Event) { e.Length = 512 })},
		"reply with another effect":     {arrive, with(reply, func(e *Event) { e.NoEffect = true })},
		"success of what was to fail":   {with(arrive, func(e *Event) { e.Errno = 5 }), reply},
		"unknown kind":                  {with(arrive, func(e *Event) { e.Kind = 4 })},
		"negative errno":                {with(arrive, func(e *Event) { e.Errno = -5 })},
		"destaged without an answer":    {arrive, back},
		"destaged twice":                {arrive, reply, back, back},
		"destaged after a failure":      {arrive, with(reply, func(e *Event) { e.Errno = 5 }), back},
		"destaged as another kind":      {arrive, reply, with(back, func(e *Event) { e.Op = Trim })},
		"destaged with an extent":       {arrive, reply, with(back, func(e *Event) { e.Length = 1024 })},
		"destaged request 0":            {arrive, reply, with(back, func(e *Event) { e.Request = 0 })},
		"destaged flush":                {flush, {Kind: Reply, Request: 1, Op: Flush}, {Kind: Destage, Request: 1, Op: Flush}},
		"damaged flush":                 {with(flush, func(e *Event) { e.Spoil = Spoil{Kind: Torn, To: 512} })},
		"damage beyond the write":       {damaged(Spoil{Kind: Torn, To: 1536})},
		"damage to nothing":             {damaged(Spoil{Kind: Torn})},
		"damage to a part of a sector":  {damaged(Spoil{Kind: Torn, To: 100})},
		"damage of an unknown kind":     {damaged(Spoil{Kind: 3, To: 512})},
		"damage without a kind":         {damaged(Spoil{To: 512})},
		"damage to a bit of no sector":  {damaged(Spoil{Kind: Rot, To: 512, Bit: 4096})},
		"damage to a bit of a torn one": {damaged(Spoil{Kind: Torn, To: 512, Bit: 1})},
		"damaged reply":                 {arrive, with(reply, func(e *Event) { e.Spoil = Spoil{Kind: Torn, To: 512} })},
	} {
		path := filepath.Join(t.TempDir(), "log")
		w, err := Create(path, driveSize)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			var payload []byte
			if e.Kind == Arrive && e.Op == Write {
				payload = make([]byte, e.Length)
			}
			if err := w.Append(&e, payload); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		if l, err := Open(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error is %v, want ErrDamaged", name, err)
			if err == nil {
				l.Close()
			}
		}
	}
}
