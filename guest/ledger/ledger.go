package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// The region's place in guest-physical memory. The guest kernel is told to keep
// its hands off it (memmap=, admin-guide/kernel-parameters.txt).
const (
	Base = 0x0B000000 // bytes
	Size = 1 << 20    // bytes
)

const (
	magic      = 0x4547_4445_4c57_5750 // names a ledger of this layout
	version    = 2
	RecordSize = 64 // bytes
	headerSize = 4096
	// Capacity is the number of records that the ring holds.
	Capacity = (Size - headerSize) / RecordSize

	publishedAt = 64
	startedAt   = 128
	consumedAt  = 192
)

// A record in memory and on disk, little endian:
//
//	0 op u64, 8 start i64, 16 sync i64, 24 end i64, 32 errno i32, 36 synced u32, 40 asked i32, 44 told i32, 48 again i32, 52 zero, 60 check u32
const checkAt = 60

// Encode writes r to b, which has RecordSize bytes.
func (r Record) Encode(b []byte) {
	_ = b[RecordSize-1]
	le := binary.LittleEndian
	le.PutUint64(b[0:], r.Op)
	le.PutUint64(b[8:], uint64(r.Start))
	le.PutUint64(b[16:], uint64(r.Sync))
	le.PutUint64(b[24:], uint64(r.End))
	le.PutUint32(b[32:], uint32(r.Errno))
	var synced uint32
	if r.Synced {
		synced = 1
	}
	le.PutUint32(b[36:], synced)
	le.PutUint32(b[40:], uint32(r.Asked))
	le.PutUint32(b[44:], uint32(r.Told))
	le.PutUint32(b[48:], uint32(r.Again))
	clear(b[52:checkAt])
	le.PutUint32(b[checkAt:], check(b))
}

// Decode reads a record from b. It fails where the bytes are not those of a
// record that Encode wrote.
func Decode(b []byte) (Record, error) {
	if len(b) < RecordSize {
		return Record{}, fmt.Errorf("read ledger record: %d bytes, want %d", len(b), RecordSize)
	}
	le := binary.LittleEndian
	if le.Uint32(b[checkAt:]) != check(b) {
		return Record{}, errors.New("read ledger record: its check sum does not match")
	}
	if s := le.Uint32(b[36:]); s > 1 {
		return Record{}, fmt.Errorf("read ledger record: synced is %d, want 0 or 1", s)
	}
	return Record{
		Op:     le.Uint64(b[0:]),
		Start:  int64(le.Uint64(b[8:])),
		Sync:   int64(le.Uint64(b[16:])),
		End:    int64(le.Uint64(b[24:])),
		Errno:  int32(le.Uint32(b[32:])),
		Synced: le.Uint32(b[36:]) == 1,
		Asked:  int32(le.Uint32(b[40:])),
		Told:   int32(le.Uint32(b[44:])),
		Again:  int32(le.Uint32(b[48:])),
	}, nil
}

// check is a sum over a record's words, cheap enough for a record every few
// nanoseconds and sure to see a record of which only a part was written.
func check(b []byte) uint32 {
	le := binary.LittleEndian
	h := uint64(0x9E3779B97F4A7C15)
	for i := 0; i < 56; i += 8 {
		h = (h ^ le.Uint64(b[i:])) * 0x94D049BB133111EB
		h ^= h >> 29
	}
	return uint32(h) | 1
}

// Region is the ledger's memory, as one of its two sides has mapped it.
type Region struct{ mem []byte }

// Map takes the region's memory: Size bytes, aligned to 8.
func Map(mem []byte) (Region, error) {
	if len(mem) != Size {
		return Region{}, fmt.Errorf("map ledger: %d bytes, want %d", len(mem), Size)
	}
	if uintptr(unsafe.Pointer(&mem[0]))%8 != 0 {
		return Region{}, errors.New("map ledger: memory is not aligned to 8 bytes")
	}
	return Region{mem}, nil
}

func (r Region) word(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&r.mem[at])) }

func (r Region) slot(n uint64) []byte {
	at := headerSize + int(n%Capacity)*RecordSize
	return r.mem[at : at+RecordSize]
}

// Clear begins an empty ledger. The guest calls it, before the first op of a workload.
func (r Region) Clear() {
	clear(r.mem[:headerSize])
	r.word(8).Store(version)
	r.word(0).Store(magic)
}

// Ready tells whether the guest has begun a ledger in the region.
func (r Region) Ready() bool { return r.word(0).Load() == magic && r.word(8).Load() == version }

// Published is the number of records so far.
func (r Region) Published() uint64 { return r.word(publishedAt).Load() }

// Started is the number of the op that has begun last.
func (r Region) Started() uint64 { return r.word(startedAt).Load() }

// Start says that op is about to begin.
func (r Region) Start(op uint64) { r.word(startedAt).Store(op) }

// Publish adds a record. Where the ring is full it waits until the harness has
// taken some: a record is never overwritten.
func (r Region) Publish(rec Record) {
	n := r.word(publishedAt).Load()
	for n-r.word(consumedAt).Load() >= Capacity {
		time.Sleep(100 * time.Microsecond)
	}
	rec.Encode(r.slot(n))
	r.word(publishedAt).Store(n + 1)
}

// Take returns the records published since the last call, and frees their
// places. The harness calls it, from one goroutine. It fails where the region
// holds anything that Publish cannot have written.
func (r Region) Take() ([]Record, error) {
	from, to := r.word(consumedAt).Load(), r.Published()
	if to < from || to-from > Capacity {
		return nil, fmt.Errorf("take ledger records: counts are damaged: %d published, %d taken", to, from)
	}
	out := make([]Record, 0, to-from)
	for n := from; n < to; n++ {
		rec, err := Decode(r.slot(n))
		if err != nil {
			return nil, fmt.Errorf("take ledger record %d: %w", n, err)
		}
		out = append(out, rec)
	}
	r.word(consumedAt).Store(to)
	return out, nil
}
