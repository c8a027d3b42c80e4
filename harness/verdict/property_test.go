package verdict

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// drawPlan makes small valid plans of every form: several rounds, overlaps, ops
// of one byte, and more ops at one place than stamps.
func drawPlan(t *rapid.T) workload.Plan {
	p := workload.Plan{Path: "f", Seed: rapid.Uint64().Draw(t, "seed")}
	p.Call = rapid.SampledFrom([]workload.Call{workload.Fsync, workload.Fsync, workload.OSync, workload.Msync, workload.SyncFileRange, workload.None}).Draw(t, "call")
	p.Kind = rapid.SampledFrom([]workload.Kind{workload.Overwrite, workload.Append}).Draw(t, "kind")
	p.Count = rapid.IntRange(1, 700).Draw(t, "count")
	p.Stride = rapid.Int64Range(0, 40).Draw(t, "stride")
	p.Bytes = rapid.Int64Range(1, 50).Draw(t, "bytes")
	p.Size = rapid.Int64Range(1, 900).Draw(t, "size")
	if p.Kind == workload.Append {
		p.Size, p.Stride = 0, max(1, p.Stride)
	} else if rapid.Bool().Draw(t, "round") {
		p.Size = max(1, p.Stride) * rapid.Int64Range(1, 20).Draw(t, "slots")
		p.Bytes = rapid.Int64Range(1, max(1, p.Stride)).Draw(t, "part")
	}
	if p.Kind == workload.Overwrite {
		p.Allocate = rapid.SampledFrom([]workload.Allocation{"", workload.Written, workload.Unwritten, workload.Sparse}).Draw(t, "allocate")
	}
	for p.Validate() != nil {
		if p.Count /= 2; p.Count < 1 {
			t.Skip("nothing fits")
		}
	}
	if size := max(p.Size, p.SizeAfter(p.Count)); slices.Contains(workload.Ranged, p.Call) && rapid.Bool().Draw(t, "ranged") {
		p.Sync.Offset = rapid.Int64Range(0, size-1).Draw(t, "sync from")
		p.Sync.Length = rapid.Int64Range(1, size-p.Sync.Offset).Draw(t, "sync bytes")
	}
	return p
}

// drawHistory lets a run get so far, with ops that fail here and there.
func drawHistory(t *rapid.T, p workload.Plan) History {
	h := History{Plan: p, InPlace: rapid.Bool().Draw(t, "in place")}
	if rapid.IntRange(0, 9).Draw(t, "setup") == 0 {
		return h // the cut came before op 0 was done
	}
	started := rapid.OneOf(rapid.Just(p.Count), rapid.IntRange(0, p.Count)).Draw(t, "started")
	h.Started = uint64(started)
	failing := rapid.SampledFrom([]int{0, 0, 3, 40}).Draw(t, "failing")
	last := started - rapid.IntRange(0, min(1, started)).Draw(t, "in flight")
	for k := 0; k <= last; k++ {
		rec := ledger.Record{Op: uint64(k), Synced: k == 0 || p.Call != workload.None}
		if failing > 0 && rapid.IntRange(0, failing).Draw(t, "fails") == 0 {
			rec.Errno, rec.Synced = 5, false
		}
		h.Records = append(h.Records, rec)
	}
	return h
}

// promisedAt tells whether op k's byte at off must be there, by the letter of the
// documentation.
func promisedAt(h History, k int, off int64) bool {
	p := h.Plan
	switch {
	case !acknowledged(h, k):
		return false
	case k == 0:
		return true
	case p.Call == workload.SyncFileRange && (!h.InPlace || p.Blank()):
		return false
	}
	return p.Sync.Length == 0 || off >= p.Sync.Offset && off < p.Sync.End()
}

// acknowledged tells whether op k is, by the letter of the documentation.
func acknowledged(h History, k int) bool {
	if k > 0 && h.Plan.Call == workload.None {
		return false
	}
	return k < len(h.Records) && h.Records[k].Synced && h.Records[k].Errno == 0
}

// writersOf lists by byte the ops that had begun and cover it, in order; op 0 is
// one of them with Overwrite.
func writersOf(h History) [][]int {
	p := h.Plan
	list := make([][]int, p.SizeAfter(int(h.Started)))
	for k := 0; k <= int(h.Started); k++ {
		for off := range extent(p, k).Length {
			list[extent(p, k).Offset+off] = append(list[extent(p, k).Offset+off], k)
		}
	}
	return list
}

// extent is what op k writes, op 0 included.
func extent(p workload.Plan, k int) workload.Extent {
	switch {
	case k == 0 && p.Blank():
		return workload.Extent{}
	case k == 0:
		return workload.Extent{Length: p.SizeAfter(0)}
	}
	return p.Op(k)
}

// drawSurvivors is a correct file system: what was acknowledged is there, and of
// everything else each single byte may be.
func drawSurvivors(t *rapid.T, h History) Survivors {
	mood := rapid.SampledFrom([]string{"newest", "oldest", "bytes", "sectors"}).Draw(t, "mood")
	random := rapid.IntRange(0, 1<<30)
	least, any := int64(0), acknowledged(h, 0)
	if any {
		least = h.Plan.SizeAfter(0)
	}
	list := writersOf(h)
	data := make([]byte, len(list))
	sector := 0
	for off, writers := range list {
		if mood == "bytes" || mood == "sectors" && off%16 == 0 {
			sector = random.Draw(t, "choice")
		}
		choice := -1 // zeros
		var allowed []int
		for _, k := range writers {
			if promisedAt(h, k, int64(off)) {
				allowed, choice, any, least = nil, k, true, max(least, int64(off)+1)
			} else {
				allowed = append(allowed, k)
			}
		}
		switch {
		case len(allowed) == 0 || mood == "oldest":
		case mood == "newest":
			choice = allowed[len(allowed)-1]
		default:
			if i := sector % (len(allowed) + 1); i > 0 {
				choice = allowed[i-1]
			}
		}
		if choice >= 0 {
			data[off] = workload.Stamp(h.Plan.Seed, int64(off), choice)
		}
	}
	if !any && rapid.Bool().Draw(t, "gone") {
		return Survivors{}
	}
	size := rapid.OneOf(rapid.Just(int64(len(data))), rapid.Int64Range(least, int64(len(data)))).Draw(t, "size")
	return Survivors{Exists: true, Size: size, Data: Bytes(data[:size])}
}

func TestCorrectFileSystemsAreNeverAccused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, drawPlan(t))
		s := drawSurvivors(t, h)
		r := Judge(h, s)
		if r.Broken() {
			t.Fatalf("accused: setup %+v, size %q, stray %v, counts %+v, findings %v\nplan %+v, started %d, %d records",
				r.Setup, r.Size, r.Stray, r.Counts, findings(r), h.Plan, h.Started, len(h.Records))
		}
		if r.Counts.Kept+r.Counts.Unpromised != r.Counts.Acked || r.Counts.Ops != int(h.Started) {
			t.Fatalf("counts %+v of %d ops", r.Counts, h.Started)
		}
	})
}

// slow judges one op byte by byte and reading by reading, as the documentation
// of Judge says it and with none of its means.
func slow(h History, s Survivors, e evidence, k int) OpVerdict {
	v := OpVerdict{Op: k, Extent: extent(h.Plan, k), Acked: acknowledged(h, k)}
	var older, foreign, own, sure, due bool
	first, last := int64(-1), int64(-1)
	oldest := int(nobody)
	for off := v.Extent.Offset; off < v.Extent.End(); off++ {
		levels := e.levels[off]
		due = due || promisedAt(h, k, off) && len(levels) > 0 && levels[len(levels)-1] < k
	}
	concerned := func(off int64) bool { return !due || promisedAt(h, k, off) }
	for off := v.Extent.Offset; off < v.Extent.End(); off++ {
		levels := e.levels[off]
		if len(levels) == 0 {
			if k > 0 || len(e.writers[off]) == 1 { // op 0 answers for what no op covers
				if !foreign {
					first = off
				}
				foreign, last = true, off
			}
			continue
		}
		own = own || len(levels) == 1 && levels[0] == k
		if !concerned(off) {
			continue
		}
		oldest = min(oldest, levels[len(levels)-1])
		sure = sure || levels[0] >= k
		if levels[len(levels)-1] < k {
			older = true
			if foreign {
				continue
			}
			if first < 0 {
				first = off
			}
			last = off
		}
	}
	sure = sure || own
	v.Class = classOf(v.Acked, foreign, older, own || k == 0 && sure)
	if v.Class == Lost && !due {
		v.Class = Unpromised
	}
	if first >= 0 {
		v.Missing = workload.Extent{Offset: first, Length: last + 1 - first}
	}
	if !foreign && older && !sure && k > 0 {
		v.Missing = v.Extent
		if part := h.Plan.Synced(k); due && part.Length > 0 {
			v.Missing = part
		}
	}
	if !foreign && older {
		v.Found = wordsFor(h, s, oldest)
	}
	return v
}

// evidence is what the slow judge goes by: each byte's writers and readings.
type evidence struct{ writers, levels [][]int }

func gather(h History, s Survivors) evidence {
	e := evidence{writers: writersOf(h)}
	var before []int
	for off := range e.writers {
		if levels := levelsOf(h, s, e.writers, int64(off)); !slices.Equal(levels, before) {
			before = levels // neighbours share their list, for the sake of memory
		}
		e.levels = append(e.levels, before)
	}
	return e
}

// levelsOf lists the readings of a byte, the earliest first.
func levelsOf(h History, s Survivors, list [][]int, off int64) (levels []int) {
	data := bytesOf(s)
	switch {
	case off >= int64(len(data)):
		return []int{-2}
	case data[off] == 0:
		return []int{-1}
	}
	for _, k := range list[off] {
		if workload.Stamp(h.Plan.Seed, off, k) == data[off] {
			levels = append(levels, k)
		}
	}
	return levels
}

// classOf is the table in types.go.
func classOf(acked, foreign, older, own bool) Class {
	if foreign {
		return Foreign
	}
	return map[[3]bool]Class{
		{true, false, false}: Kept, {true, false, true}: Kept,
		{true, true, false}: Lost, {true, true, true}: Lost,
		{false, false, false}: Early, {false, false, true}: Early,
		{false, true, false}: Absent, {false, true, true}: Torn,
	}[[3]bool{acked, older, own}]
}

func wordsFor(h History, s Survivors, level int) string {
	j := &judge{plan: h.Plan, exists: s.Exists, readings: &readings{size: int64(len(bytesOf(s)))}}
	return j.describe(int32(level))
}

// drawDamage does anything to a file: parts rewound, zeroed, swapped, overwritten
// with noise or with stamps of ops that were never there, cut, lengthened.
func drawDamage(t *rapid.T, h History) Survivors {
	p := h.Plan
	data := make([]byte, p.SizeAfter(int(h.Started)))
	p.Content(int(h.Started), 0, data)
	for range rapid.IntRange(0, 4).Draw(t, "damages") {
		if len(data) == 0 {
			break
		}
		from := rapid.IntRange(0, len(data)-1).Draw(t, "from")
		part := data[from : from+rapid.IntRange(1, len(data)-from).Draw(t, "n")]
		switch rapid.IntRange(0, 6).Draw(t, "damage") {
		case 0, 1:
			p.Content(rapid.IntRange(0, p.Count).Draw(t, "to"), int64(from), part)
		case 2:
			clear(part)
		case 3:
			copy(part, rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "noise"))
		case 4:
			part[0] = workload.Stamp(p.Seed, int64(from), rapid.IntRange(0, p.Count).Draw(t, "op"))
		case 5:
			copy(part, data)
		case 6:
			data = data[:from]
		}
	}
	size := int64(len(data)) + rapid.SampledFrom([]int64{0, 0, 0, 7}).Draw(t, "more")
	return Survivors{Exists: true, Size: size, Data: Bytes(append(data, make([]byte, size-int64(len(data)))...))}
}

func TestJudgeAgreesWithSlowJudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, drawPlan(t))
		s := drawDamage(t, h)
		r := Judge(h, s)
		e := gather(h, s)
		for k, got := range append([]OpVerdict{r.Setup}, r.Ops...) {
			want := slow(h, s, e, k)
			if want.Class == Foreign {
				got.Found = "" // quoted bytes are looked at in the stories
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v, started %d, op %d (-want +got):\n%s", h.Plan, h.Started, k, diff)
			}
		}
		if want := strayOf(s, e.writers); (r.Stray != nil) != (want.Length > 0) || r.Stray != nil && r.Stray.Extent != want {
			t.Fatalf("%+v: stray %v, want %v", h.Plan, r.Stray, want)
		}
	})
}

// strayOf is what stands where no op writes.
func strayOf(s Survivors, list [][]int) (e workload.Extent) {
	data := bytesOf(s)
	for off, writers := range list {
		if len(writers) > 0 || off >= len(data) || data[off] == 0 {
			continue
		}
		if e.Length == 0 {
			e.Offset = int64(off)
		}
		e.Length = int64(off) + 1 - e.Offset
	}
	return e
}

// drawFinished is a run of which every op was acknowledged, and its file.
func drawFinished(t *rapid.T) *story {
	p := drawPlan(t)
	p.Call, p.Sync = workload.Fdatasync, workload.Extent{}
	return tell(p, p.Count, p.Count)
}

// without returns what the file would be had op k never written.
func without(p workload.Plan, k int) []byte {
	file := make([]byte, p.SizeAfter(p.Count))
	p.Content(0, 0, file)
	for op := 1; op <= p.Count; op++ {
		if e := p.Op(op); op != k {
			workload.Fill(file[e.Offset:e.End()], p.Seed, e.Offset, op)
		}
	}
	return file
}

// TestEachLossIsSeen plants the loss of one op, all of it: a lost write, as a
// drive that ignores a flush loses it.
func TestEachLossIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := drawFinished(t)
		p := st.history.Plan
		k := rapid.IntRange(1, p.Count).Draw(t, "lost")
		st.survivors.Data = Bytes(without(p, k))
		visible := false // is op k the last writer anywhere
		for off, writers := range writersOf(st.history) {
			visible = visible || writers != nil && writers[len(writers)-1] == k && off >= 0
		}
		r := Judge(st.history, st.survivors)
		want := Kept
		if visible {
			want = Lost
		}
		for _, v := range r.Ops {
			if v.Op != k && v.Class != Kept || v.Op == k && v.Class != want {
				t.Fatalf("%+v: op %d is gone (to be seen: %v), and op %d is %s", p, k, visible, v.Op, v.Class)
			}
		}
		if r.Broken() != visible || r.Setup.Class != Kept {
			t.Fatalf("%+v: op %d is gone (to be seen: %v): broken %v, setup %s", p, k, visible, r.Broken(), r.Setup.Class)
		}
	})
}

// TestEachChangedByteIsSeen changes one byte to anything else: somebody must be
// accused, and it must be somebody who wrote that byte.
func TestEachChangedByteIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := drawFinished(t)
		off := rapid.IntRange(0, len(st.data())-1).Draw(t, "off")
		was := st.data()[off]
		st.data()[off] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		r := Judge(st.history, st.survivors)
		if !r.Broken() {
			t.Fatalf("%+v: byte %d went from %#x to %#x, and nobody is accused", st.history.Plan, off, was, st.data()[off])
		}
		for _, f := range findings(r) {
			if f.Op > 0 && !slices.Contains(writersOf(st.history)[off], f.Op) {
				t.Fatalf("%+v: byte %d changed, and op %d is accused, which does not write it", st.history.Plan, off, f.Op)
			}
		}
	})
}

// TestStaleGeneration puts one location back by some rounds: each op of these is
// lost, and nobody else.
func TestStaleGeneration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := workload.Plan{Kind: workload.Overwrite, Path: "f", Call: workload.Fsync, Seed: 9}
		p.Bytes = rapid.Int64Range(1, 20).Draw(t, "bytes")
		p.Stride = p.Bytes + rapid.Int64Range(0, 5).Draw(t, "gap")
		slots := rapid.IntRange(1, 9).Draw(t, "slots")
		rounds := rapid.IntRange(1, 100).Draw(t, "rounds")
		p.Size, p.Count = p.Stride*int64(slots), slots*rounds
		slot := rapid.IntRange(1, slots).Draw(t, "slot")
		left := rapid.IntRange(0, rounds-1).Draw(t, "left")
		st := tell(p, p.Count, p.Count)
		e := p.Op(slot)
		st.rewind(left*slots, e.Offset, e.Length)
		var want []int
		for round := left; round < rounds; round++ {
			want = append(want, round*slots+slot)
		}
		var got []int
		for _, f := range findings(Judge(st.history, st.survivors)) {
			if f.Class == Lost && f.From == e.Offset && f.To == e.End() {
				got = append(got, f.Op)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: location %d of round %d is back in round %d: lost %v, want %v", p, slot, rounds, left, got, want)
		}
	})
}

// TestSwappedOps has two ops' data end up in each other's place, as a drive
// or a file system does that mixes up two blocks.
func TestSwappedOps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := workload.Plan{Kind: rapid.SampledFrom([]workload.Kind{workload.Overwrite, workload.Append}).Draw(t, "kind"), Path: "f", Call: workload.Fsync, Seed: 9}
		p.Bytes = rapid.Int64Range(8, 64).Draw(t, "bytes") // shorter ones may agree by chance
		p.Stride = p.Bytes
		p.Count = rapid.IntRange(2, 50).Draw(t, "count")
		p.Size = p.Stride * int64(p.Count)
		a := rapid.IntRange(1, p.Count-1).Draw(t, "a")
		b := rapid.IntRange(a+1, p.Count).Draw(t, "b")
		st := tell(p, p.Count, p.Count)
		x, y := p.Op(a), p.Op(b)
		data := st.data()
		xs, ys := bytes.Clone(data[x.Offset:x.End()]), bytes.Clone(data[y.Offset:y.End()])
		copy(data[x.Offset:], ys)
		copy(data[y.Offset:], xs)
		r := Judge(st.history, st.survivors)
		for _, v := range r.Ops {
			if swapped := v.Op == a || v.Op == b; swapped != v.Class.broken() {
				t.Fatalf("%+v: ops %d and %d are swapped, and op %d is %s", p, a, b, v.Op, v.Class)
			}
		}
	})
}

// TestTruncation cuts a finished file: exactly the ops that reach beyond are lost.
func TestTruncation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := drawFinished(t)
		size := rapid.Int64Range(0, int64(len(st.data()))-1).Draw(t, "size")
		st.resize(size)
		r := Judge(st.history, st.survivors)
		for _, v := range r.Ops {
			if beyond := v.Extent.End() > size; beyond != (v.Class == Lost) {
				t.Fatalf("%+v: cut at %d, and op %d at %v is %s", st.history.Plan, size, v.Op, v.Extent, v.Class)
			}
		}
		if r.Size == "" || !r.Broken() {
			t.Fatalf("%+v: cut at %d, and its size is right", st.history.Plan, size)
		}
	})
}

func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int32Range(-3, 9), 1, 40).Draw(t, "list")
		a := rapid.IntRange(0, len(list)).Draw(t, "a")
		b := rapid.IntRange(a, len(list)).Draw(t, "b")
		bound := rapid.Int32Range(-3, 9).Draw(t, "bound")
		first, last, least := -1, -1, nobody
		for i := a; i < b; i++ {
			if list[i] < bound {
				last = i
				if first < 0 {
					first = i
				}
			}
			least = min(least, list[i])
		}
		tree := newTree(len(list), func(i int) int32 { return list[i] })
		if f, l, m := tree.firstBelow(a, b, bound), tree.lastBelow(a, b, bound), tree.least(a, b); f != first || l != last || m != least {
			t.Fatalf("%v from %d to %d below %d: got %d, %d, %d, want %d, %d, %d", list, a, b, bound, f, l, m, first, last, least)
		}
	})
}
