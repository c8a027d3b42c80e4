package verdict

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// drive is the least model of a disk with a volatile cache that can lie: a file
// of sectors, each on the media in one version and in the cache in newer ones.
// A sync makes all cached sectors durable, unless flushes are ignored. It knows
// which ops each version holds, and so what a cut has lost, by a way that has
// nothing to do with stamps.
type drive struct {
	plan   workload.Plan
	now    []byte // as the guest sees the file
	media  []byte
	cached map[int64][]version // by sector, the oldest first
	on     map[int64]int       // by sector: the last op on the media
	last   map[int64][]int     // by sector: the ops that wrote to it
}

// version is the content of one sector after an op.
type version struct {
	op   int
	data []byte
}

const sectorSize = 512

func newDrive(p workload.Plan) *drive {
	d := &drive{
		plan: p, now: make([]byte, p.Size), media: make([]byte, p.Size),
		cached: map[int64][]version{}, on: map[int64]int{}, last: map[int64][]int{},
	}
	p.Content(0, 0, d.now)
	copy(d.media, d.now)
	return d
}

// write lets op k write, and the drive take its sectors into the cache.
func (d *drive) write(k int) {
	e := d.plan.Op(k)
	workload.Fill(d.now[e.Offset:e.End()], d.plan.Seed, e.Offset, k)
	for s := e.Offset / sectorSize; s*sectorSize < e.End(); s++ {
		data := slices.Clone(d.now[s*sectorSize : min((s+1)*sectorSize, d.plan.Size)])
		d.cached[s] = append(d.cached[s], version{k, data})
		d.last[s] = append(d.last[s], k)
	}
}

// destage puts a version of a sector, and all before it, onto the media.
func (d *drive) destage(s int64, versions int) {
	v := d.cached[s][versions-1]
	copy(d.media[s*sectorSize:], v.data)
	d.on[s] = v.op
	if d.cached[s] = d.cached[s][versions:]; len(d.cached[s]) == 0 {
		delete(d.cached, s)
	}
}

// flush destages all.
func (d *drive) flush() {
	for _, s := range slices.Sorted(maps.Keys(d.cached)) {
		d.destage(s, len(d.cached[s]))
	}
}

// lost returns the ops up to acked that have a sector on the media which is older
// than they are, and of which they are not hidden: a later op may have written
// the same bytes of it, but that is not on the media either.
func (d *drive) lost(acked int) (list []int) {
	gone := map[int]bool{}
	for s, ops := range d.last {
		for _, k := range ops {
			if k > d.on[s] && k <= acked {
				gone[k] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(gone))
}

// drawSectorPlan makes plans in which ops meet in sectors: many in one, or one
// in many, aligned or not.
func drawSectorPlan(t *rapid.T) workload.Plan {
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Call: workload.Fsync, Seed: rapid.Uint64().Draw(t, "seed")}
	p.Stride = rapid.SampledFrom([]int64{1, 64, 100, 511, 512, 513, 1024, 4096}).Draw(t, "stride")
	p.Bytes = rapid.Int64Range(1, p.Stride).Draw(t, "bytes")
	slots := rapid.Int64Range(1, 40).Draw(t, "slots")
	p.Size = p.Stride * slots
	p.Count = rapid.IntRange(1, int(min(slots*100, 400))).Draw(t, "count")
	if p.Validate() != nil {
		t.Skip("stamps repeat")
	}
	return p
}

// TestDriveThatIgnoresFlushes cuts the power of a lying drive, at random, and
// holds the verdict against what the drive knows that it has lost.
func TestDriveThatIgnoresFlushes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawSectorPlan(t)
		d := newDrive(p)
		h := History{Plan: p, Records: []ledger.Record{{Synced: true}}}
		honest := rapid.IntRange(0, p.Count).Draw(t, "honest") // flushes up to this op take effect
		for k := 1; k <= p.Count; k++ {
			d.write(k)
			h.Started = uint64(k)
			if k <= honest {
				d.flush()
			}
			h.Records = append(h.Records, ledger.Record{Op: uint64(k), Synced: true})
		}
		for _, s := range slices.Sorted(maps.Keys(d.cached)) {
			if n := rapid.IntRange(0, len(d.cached[s])).Draw(t, "destaged"); n > 0 {
				d.destage(s, n)
			}
		}
		r := Judge(h, Survivors{Exists: true, Size: p.Size, Data: Bytes(d.media)})
		var got []int
		for _, v := range r.Ops {
			if v.Class == Lost {
				got = append(got, v.Op)
			} else if v.Class != Kept {
				t.Fatalf("%+v: op %d is %s", p, v.Op, v.Class)
			}
		}
		if want := d.lost(p.Count); !slices.Equal(got, want) {
			t.Fatalf("%+v, honest up to %d: lost %v, want %v", p, honest, got, want)
		}
	})
}

// TestHonestDrive cuts the power at any op and lets the cache keep any sectors:
// nobody is ever accused.
func TestHonestDrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawSectorPlan(t)
		d := newDrive(p)
		h := History{Plan: p, Records: []ledger.Record{{Synced: true}}}
		for k := 1; k <= p.Count; k++ {
			d.write(k)
			h.Started = uint64(k)
			if rapid.IntRange(0, 20).Draw(t, "cut") == 0 {
				break
			}
			rec := ledger.Record{Op: uint64(k), Synced: true}
			if rapid.IntRange(0, 20).Draw(t, "error") == 0 {
				rec.Synced, rec.Errno = false, 5
			} else {
				d.flush()
			}
			h.Records = append(h.Records, rec)
		}
		for _, s := range slices.Sorted(maps.Keys(d.cached)) {
			if n := rapid.IntRange(0, len(d.cached[s])).Draw(t, "destaged"); n > 0 {
				d.destage(s, n)
			}
		}
		if r := Judge(h, Survivors{Exists: true, Size: p.Size, Data: Bytes(d.media)}); r.Broken() || r.Counts.Kept != r.Counts.Acked {
			t.Fatalf("%+v: accused: %+v, %v", p, r.Counts, findings(r))
		}
	})
}
