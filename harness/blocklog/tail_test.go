package blocklog

import (
	"bytes"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
)

// TestReadBehind: what was appended can be read back at once, wherever it is by then:
// in memory, under way, or in the file.
func TestReadBehind(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for round, most := range []int{1, 8, 600, 5000} { // sectors of a write
		w, err := Create(filepath.Join(dir, strconv.Itoa(round)), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		content := make([]byte, headerSize) // of the log, but for the events
		for request := uint64(1); request < 100 && len(content) < 32<<20; request++ {
			payload := bytes.Repeat([]byte{byte(request)}, 512*(1+random.IntN(most)))
			e := Event{Kind: Arrive, Op: Write, Request: request, Length: int64(len(payload))}
			// What the log was given to keep is spoilt as soon as it may be.
			add := w.Append
			if random.IntN(2) == 0 {
				given := bytes.Clone(payload)
				add = func(e *Event, _ []byte) error { return w.Take(e, given, func() { clear(given) }) }
			}
			if err := add(&e, payload); err != nil || e.DataAt != int64(len(content)+eventSize) {
				t.Fatalf("payload is at %d, not %d: %v", e.DataAt, len(content)+eventSize, err)
			}
			content = append(append(content, make([]byte, eventSize)...), payload...)
			if random.IntN(10) == 0 {
				if err := w.Settle(); err != nil {
					t.Fatal(err)
				}
			}
			from := random.IntN(len(content))
			got := make([]byte, min(len(content)-from, 1+random.IntN(3*len(payload))))
			if k, err := w.ReadAt(got, int64(from)); err != nil || k != len(got) {
				t.Fatal(k, err)
			}
			for i, b := range content[from : from+len(got)] {
				if b != 0 && got[i] != b { // 0 is a byte of an event
					t.Fatalf("byte %d is %d, not %d", from+i, got[i], b)
				}
			}
		}
		if k, err := w.ReadAt(make([]byte, 100), int64(len(content))-10); k != 10 || err != io.EOF {
			t.Fatalf("behind the end: %d bytes, %v", k, err)
		}
	}
}

// TestBounded: what waits in memory is bounded, however fast it comes, and of what is
// in the file nothing is missing although most of it was let go.
func TestBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	const most = resident + 3*stride + maxWaiting
	payload := make([]byte, 1<<20)
	for request := uint64(1); request*uint64(len(payload)) < most; request++ {
		payload[0] = byte(request)
		e := Event{Kind: Arrive, Op: Write, Request: request, Length: int64(len(payload))}
		err := error(nil)
		if request%2 == 0 {
			err = w.Append(&e, payload)
		} else {
			err = w.Take(&e, bytes.Clone(payload), func() {})
		}
		if err != nil {
			t.Fatal(err)
		}
		w.tail.mu.Lock()
		if w.tail.waiting > maxWaiting || len(w.tail.spare)*pieceSize > maxWaiting {
			t.Errorf("%d bytes wait, %d pieces are spare", w.tail.waiting, len(w.tail.spare))
		}
		w.tail.mu.Unlock()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path)
	if err != nil || len(l.Events) != w.Events() {
		t.Fatalf("%d events of %d, %v", len(l.Events), w.Events(), err)
	}
	defer l.Close()
	for _, e := range l.Events {
		if p, err := l.Payload(e); err != nil || p[0] != byte(e.Request) || !bytes.Equal(p[1:], payload[1:]) {
			t.Fatalf("request %d: payload begins with %d, %v", e.Request, p[0], err)
		}
	}
}

// TestLostFile: what cannot be written is an error at the next opportunity, and from
// then on; nobody waits for it.
func TestLostFile(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "log"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	w.file.Close()
	e := Event{Kind: Arrive, Op: Flush, Request: 1}
	if err := w.Append(&e, nil); err != nil {
		t.Error(err)
	}
	if err := w.Settle(); err == nil {
		t.Error("settled")
	}
	payload := make([]byte, 2*maxWaiting)
	e = Event{Kind: Arrive, Op: Write, Request: 2, Length: int64(len(payload))}
	if err := w.Append(&e, payload); err == nil {
		t.Error("appended")
	}
	if err := w.Close(); err == nil {
		t.Error("closed")
	}
}
