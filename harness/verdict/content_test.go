package verdict

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// fleeting is a Content that spoils what it gave last, and refuses what it may not be asked.
type fleeting struct {
	Bytes
	t    *rapid.T
	last []byte
}

func (f *fleeting) Range(from, to int64) []byte {
	for i := range f.last {
		f.last[i] ^= 0xff
	}
	if from < 0 || from >= to || to > f.Size() || to-from > MaxRange {
		f.t.Fatalf("asked for the bytes from %d up to %d of %d", from, to, f.Size())
	}
	f.last = append([]byte(nil), f.Bytes[from:to]...)
	return f.last
}

// TestContentInParts: the judge keeps none of the bytes that it was given, and says the same
// of them.
func TestContentInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, drawPlan(t))
		s := drawDamage(t, h)
		want := Judge(h, s)
		s.Data = &fleeting{Bytes: bytesOf(s), t: t}
		if diff := cmp.Diff(want, Judge(h, s)); diff != "" {
			t.Fatalf("%+v: (-in memory +in parts)\n%s", h.Plan, diff)
		}
	})
}

// planned is what a file holds after all ops of a plan, but for some bytes; it is never in
// memory.
type planned struct {
	plan    workload.Plan
	spoiled []int64 // where these are
	buf     []byte
}

func (p *planned) Size() int64 { return p.plan.SizeAfter(p.plan.Count) }

func (p *planned) Range(from, to int64) []byte {
	part := p.buf[:to-from]
	p.plan.Content(p.plan.Count, from, part)
	for _, at := range p.spoiled {
		if from <= at && at < to {
			part[at-from] ^= 0x55
		}
	}
	return part
}

// TestLargeFile: a file of a GiB is judged in memory that does not grow with it, and of all
// its bytes the two that are not as they should be are found, one of an op and one in a hole.
func TestLargeFile(t *testing.T) {
	const hole, most = 700_000_001, 1 << 20
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 1 << 30, Count: 200, Bytes: 4096, Stride: 5 << 20, Call: workload.Fsync, Seed: 3, Allocate: workload.Sparse}
	own := p.Op(140).Offset + 5
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	h := History{Plan: p, Started: uint64(p.Count)}
	for k := range p.Count + 1 {
		h.Records = append(h.Records, ledger.Record{Op: uint64(k), Synced: true})
	}
	for _, spoiled := range [][]int64{nil, {hole, own}} {
		s := Survivors{Exists: true, Size: p.Size, Data: &planned{p, spoiled, make([]byte, MaxRange)}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := Judge(h, s)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("judging took %d bytes of memory, at most %d are for a file of any size", took, most)
		}
		if spoiled == nil {
			if r.Broken() || r.Counts.Kept != p.Count {
				t.Errorf("a file as it should be: %+v, setup %+v, stray %v", r.Counts, r.Setup, r.Stray)
			}
			continue
		}
		one := func(at int64) workload.Extent { return workload.Extent{Offset: at, Length: 1} }
		if r.Stray == nil || r.Stray.Extent != one(hole) || r.Counts.Foreign != 1 || r.Counts.Kept != p.Count-1 || r.Ops[139].Missing != one(own) {
			t.Errorf("bytes %v are spoiled: stray %+v, op %+v, counts %+v", spoiled, r.Stray, r.Ops[139], r.Counts)
		}
	}
}
