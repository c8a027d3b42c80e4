package ledger

import (
	"bytes"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newRegion(t testing.TB) Region {
	t.Helper()
	words := make([]uint64, Size/8)
	r, err := Map(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), Size))
	if err != nil {
		t.Fatal(err)
	}
	r.Clear()
	return r
}

func drawRecord(t *rapid.T) Record {
	return Record{
		Asked: rapid.Int32().Draw(t, "asked"), Told: rapid.Int32().Draw(t, "told"), Again: rapid.Int32().Draw(t, "again"),
		Op: rapid.Uint64().Draw(t, "op"), Start: rapid.Int64().Draw(t, "start"), Sync: rapid.Int64().Draw(t, "sync"),
		End: rapid.Int64().Draw(t, "end"), Errno: rapid.Int32().Draw(t, "errno"), Synced: rapid.Bool().Draw(t, "synced"),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecord(t)
		var b [RecordSize]byte
		want.Encode(b[:])
		got, err := Decode(b[:])
		if err != nil || got != want {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

// TestRecordDamage: a record of which any field changed is refused.
func TestRecordDamage(t *testing.T) {
	var b [RecordSize]byte
	Record{Op: 7, Start: 1, Sync: 2, End: 3, Errno: 5, Synced: true}.Encode(b[:])
	for i := range b {
		if i >= 40 && i < checkAt {
			continue // reserved
		}
		c := b
		c[i] ^= 1
		if r, err := Decode(c[:]); err == nil {
			t.Errorf("byte %d changed: read %+v", i, r)
		}
	}
}

// TestConcurrent: with both sides at work and many times the ring's capacity,
// every record arrives once, in order.
func TestConcurrent(t *testing.T) {
	r := newRegion(t)
	const n = 3*Capacity + 7
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint64(n) {
			r.Start(i)
			r.Publish(Record{Op: i, End: int64(i) * 3})
		}
	})
	for next := uint64(0); next < n; {
		got, err := r.Take()
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range got {
			if want := (Record{Op: next, End: int64(next) * 3}); rec != want {
				t.Fatalf("record %d is %+v, want %+v", next, rec, want)
			}
			next++
		}
	}
	wg.Wait()
	if r.Started() != n-1 || r.Published() != n {
		t.Errorf("started %d, published %d; want %d, %d", r.Started(), r.Published(), n-1, n)
	}
}

// TestFullRingWaits: nothing is overwritten while nobody takes records.
func TestFullRingWaits(t *testing.T) {
	r := newRegion(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint64(Capacity + 1) {
			r.Publish(Record{Op: i})
		}
	}()
	for r.Published() < Capacity {
	}
	got, err := r.Take()
	if err != nil || len(got) < Capacity {
		t.Fatalf("took %d records, %v; want at least %d", len(got), err, Capacity)
	}
	<-done
	rest, err := r.Take()
	if err != nil {
		t.Fatal(err)
	}
	var want, all []uint64
	for i := range uint64(Capacity + 1) {
		want = append(want, i)
	}
	for _, rec := range append(got, rest...) {
		all = append(all, rec.Op)
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
}

// FuzzTake: whatever a guest has left in the region, Take ends, and what it
// returns without an error are records that Encode writes.
func FuzzTake(f *testing.F) {
	f.Add(uint64(0), uint64(1), make([]byte, RecordSize))
	f.Add(uint64(5), uint64(3), []byte{1})
	f.Add(uint64(0), uint64(1<<63), []byte{1})
	var good [RecordSize]byte
	Record{Op: 1, Synced: true}.Encode(good[:])
	f.Add(uint64(0), uint64(1), good[:])
	f.Fuzz(func(t *testing.T, consumed, published uint64, slots []byte) {
		r := newRegion(t)
		copy(r.mem[headerSize:], slots)
		r.word(consumedAt).Store(consumed)
		r.word(publishedAt).Store(published)
		got, err := r.Take()
		if err != nil {
			return
		}
		if uint64(len(got)) != published-consumed {
			t.Fatalf("took %d records, want %d", len(got), published-consumed)
		}
		for i, rec := range got {
			var b [RecordSize]byte
			rec.Encode(b[:])
			if slot := r.slot(consumed + uint64(i)); !bytes.Equal(slot[:52], b[:52]) {
				t.Fatalf("record %d reads as %+v, its bytes are % x", i, rec, slot[:52])
			}
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	r := newRegion(b)
	for b.Loop() {
		r.word(consumedAt).Store(r.Published())
		r.Publish(Record{Op: 1, Synced: true})
	}
}
