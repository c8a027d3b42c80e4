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
		e.Kind, e.Time, e.Acked = Reply, w.Now(), out[len(out)-1].Acked
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
			if want[i].Kind == Reply {
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
