package verdict

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"powercut/guest/workload"
)

// Relations between two verdicts, which hold whatever the single verdict is.

// TestAcksOnlyChangeTheirOwnOp takes one ack away: that op's class changes as the
// table of classes says, and nothing else does but the size, which may be forgiven.
func TestAcksOnlyChangeTheirOwnOp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, drawPlan(t))
		s := drawDamage(t, h)
		if len(h.Records) < 2 {
			t.Skip("no op has ended")
		}
		k := rapid.IntRange(1, len(h.Records)-1).Draw(t, "op")
		was := Judge(h, s)
		h.Records = slices.Clone(h.Records)
		h.Records[k].Synced = false
		is := Judge(h, s)
		if diff := cmp.Diff(was.Setup, is.Setup); diff != "" {
			t.Fatalf("setup changed: %s", diff)
		}
		for i := range was.Ops {
			a, b := was.Ops[i], is.Ops[i]
			if a.Op == k && a.Acked {
				allowed := map[Class][]Class{Kept: {Early}, Lost: {Absent, Torn}, Unpromised: {Absent, Torn}, Foreign: {Foreign}}[a.Class]
				if !slices.Contains(allowed, b.Class) || b.Acked {
					t.Fatalf("op %d was %s when acked, and is %s", k, a.Class, b.Class)
				}
				a.Class, a.Acked = b.Class, b.Acked
				if h.Plan.Sync.Length > 0 { // what is missing is of another part
					a.Missing, a.Found = b.Missing, b.Found
				}
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("without the ack of op %d, op %d changed: %s", k, a.Op, diff)
			}
		}
		if was.Size == "" && is.Size != "" {
			t.Fatalf("without the ack of op %d the size is wrong: %s", k, is.Size)
		}
	})
}

// TestJudgeIsPure holds two verdicts on the same case against each other, and the
// case against what it was.
func TestJudgeIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, drawPlan(t))
		s := drawDamage(t, h)
		records, data := slices.Clone(h.Records), bytes.Clone(bytesOf(s))
		first := Judge(h, s)
		if diff := cmp.Diff(first, Judge(h, s)); diff != "" {
			t.Fatalf("second verdict differs: %s", diff)
		}
		if !slices.Equal(records, h.Records) || !bytes.Equal(data, bytesOf(s)) {
			t.Fatal("the case was changed")
		}
	})
}

// TestCountsAddUp counts the ops of a result again.
func TestCountsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, drawPlan(t))
		r := Judge(h, drawDamage(t, h))
		c := r.Counts
		if c.Kept+c.Lost+c.Unpromised+c.Early+c.Absent+c.Torn+c.Foreign != c.Ops || len(r.Ops) != c.Ops || c.Ambiguous > c.Kept {
			t.Fatalf("%+v of %d ops", c, len(r.Ops))
		}
		classes := map[Class]int{}
		for i, v := range r.Ops {
			classes[v.Class]++
			if v.Op != i+1 {
				t.Fatalf("op %d stands in place %d", v.Op, i)
			}
			if (v.Found == "") != (v.Class == Kept || v.Class == Early) {
				t.Fatalf("%s op %d: %q is found instead", v.Class, v.Op, v.Found)
			}
			if v.Missing.Length > 0 && (v.Missing.Offset < v.Extent.Offset || v.Missing.End() > v.Extent.End()) {
				t.Fatalf("op %d: of %v, %v is missing", v.Op, v.Extent, v.Missing)
			}
			if (v.Missing.Length > 0) != (v.Found != "") {
				t.Fatalf("%s op %d: %v missing, %q found", v.Class, v.Op, v.Missing, v.Found)
			}
		}
		for class, n := range map[Class]int{Kept: c.Kept, Lost: c.Lost, Early: c.Early, Absent: c.Absent, Torn: c.Torn, Foreign: c.Foreign} {
			if classes[class] != n {
				t.Fatalf("%d ops are %s, counted %d", classes[class], class, n)
			}
		}
	})
}

// TestLargeSegments is TestJudgeAgreesWithSlowJudge with ops of many sectors and
// of more than a chunk, damaged in sectors and at their edges.
func TestLargeSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := workload.Plan{Path: "f", Call: workload.Fsync, Seed: rapid.Uint64().Draw(t, "seed")}
		p.Kind = rapid.SampledFrom([]workload.Kind{workload.Overwrite, workload.Append}).Draw(t, "kind")
		p.Bytes = rapid.SampledFrom([]int64{700, 4096, 4097, 4096 + 700, chunk - 1, chunk + 700}).Draw(t, "bytes")
		p.Stride = p.Bytes + rapid.SampledFrom([]int64{-90, 0, 0, 3, 512, 5000}).Draw(t, "gap")
		p.Count = rapid.IntRange(1, max(2, 6-int(p.Bytes/4096))).Draw(t, "count")
		p.Size = int64(p.Count)*p.Stride + 90
		if p.Kind == workload.Overwrite && p.Stride >= p.Bytes && rapid.Bool().Draw(t, "round") {
			p.Size = p.Stride * int64(rapid.IntRange(1, p.Count).Draw(t, "slots"))
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		st := tell(p, p.Count, rapid.IntRange(0, p.Count).Draw(t, "acked"))
		data := st.data()
		for range rapid.IntRange(0, 4).Draw(t, "damages") {
			from := int64(rapid.IntRange(0, len(data)/piece).Draw(t, "sector")*piece + rapid.IntRange(-2, 2).Draw(t, "edge"))
			from = min(max(from, 0), int64(len(data))-1)
			n := min(rapid.SampledFrom([]int64{1, 7, piece, 9 * piece, chunk, 3 * chunk}).Draw(t, "n"), int64(len(data))-from)
			switch rapid.IntRange(0, 3).Draw(t, "damage") {
			case 0, 1:
				st.rewind(rapid.IntRange(0, p.Count).Draw(t, "to"), from, n)
			case 2:
				st.zero(from, n)
			case 3:
				data[from] ^= rapid.Byte().Draw(t, "flip")
			}
		}
		r := Judge(st.history, st.survivors)
		e := gather(st.history, st.survivors)
		for k, got := range append([]OpVerdict{r.Setup}, r.Ops...) {
			want := slow(st.history, st.survivors, e, k)
			if want.Class == Foreign {
				got.Found = ""
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v, op %d (-want +got):\n%s", p, k, diff)
			}
		}
	})
}

// TestAmbiguousIsWhatCouldBeOlder counts again, byte by byte.
func TestAmbiguousIsWhatCouldBeOlder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := workload.Plan{Kind: workload.Overwrite, Path: "f", Call: workload.Fsync, Seed: 3}
		p.Bytes = rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(211, 300)).Draw(t, "bytes")
		p.Stride = rapid.Int64Range(0, min(p.Bytes, 4)).Draw(t, "stride")
		p.Size = rapid.Int64Range(p.Bytes, 700).Draw(t, "size")
		p.Count = rapid.IntRange(200, 900).Draw(t, "count")
		if p.Validate() != nil {
			t.Skip("does not fit")
		}
		st := tell(p, p.Count, p.Count)
		if rapid.Bool().Draw(t, "damaged") {
			st.rewind(rapid.IntRange(0, p.Count).Draw(t, "to"), 0, p.Bytes)
		}
		r := Judge(st.history, st.survivors)
		e := gather(st.history, st.survivors)
		want := 0
		for _, v := range r.Ops {
			sure := v.Class != Kept
			for off := v.Extent.Offset; off < v.Extent.End(); off++ {
				sure = sure || e.levels[off][0] >= v.Op
			}
			if !sure {
				want++
			}
		}
		if r.Counts.Ambiguous != want {
			t.Fatalf("%+v: %d ambiguous, want %d", p, r.Counts.Ambiguous, want)
		}
	})
}

// TestStaleAmongEqualStamps has one place written more often than there are
// stamps, with each lane's come round at another time, and puts parts of it back.
func TestStaleAmongEqualStamps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := workload.Plan{Kind: workload.Overwrite, Path: "f", Call: workload.Fsync, Seed: 3}
		p.Bytes = rapid.Int64Range(1, 90).Draw(t, "bytes")
		p.Size, p.Count = p.Bytes, rapid.IntRange(200, 700).Draw(t, "count")
		st := tell(p, p.Count, p.Count)
		for range rapid.IntRange(1, 2).Draw(t, "damages") {
			from := rapid.Int64Range(0, p.Size-1).Draw(t, "from")
			st.rewind(rapid.IntRange(0, p.Count).Draw(t, "to"), from, rapid.Int64Range(1, p.Size-from).Draw(t, "n"))
		}
		e := gather(st.history, st.survivors)
		for _, got := range Judge(st.history, st.survivors).Ops {
			if diff := cmp.Diff(slow(st.history, st.survivors, e, got.Op), got); diff != "" {
				t.Fatalf("%+v, op %d (-want +got):\n%s", p, got.Op, diff)
			}
		}
	})
}

// TestLanesComeRoundApart has the first sector of one place, after 480 ops, back at op 235: its
// stamp is also that of a later op in seven lanes, but of nobody else in lane 0. What
// stands in the rest is op 480, or op 239 in lane 1, or earlier ones in the others.
func TestLanesComeRoundApart(t *testing.T) {
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 576, Count: 480, Bytes: 576, Call: workload.Fsync, Seed: 3}
	st := tell(p, 480, 480).rewind(235, 0, piece)
	r := Judge(st.history, st.survivors)
	// The last byte of lane 0 that went back is at 504.
	for k, want := range map[int]int64{235: 0, 236: 505, 239: 505, 240: 576, 480: 576} {
		if v := r.Ops[k-1]; v.Missing != (workload.Extent{Length: want}) || (v.Class == Lost) != (want > 0) {
			t.Errorf("op %d is %s, and %v is missing, want %d", k, v.Class, v.Missing, want)
		}
	}
	if r.Counts.Lost != 480-235 || r.Ops[479].Found != "the content of op 235" {
		t.Errorf("%+v, %+v", r.Counts, r.Ops[479])
	}
}

// TestSureOfOneLane cuts a file of ops that overlap. Of op 389 only the bytes of
// lane 7 from 599 on are surely not older: their stamp is that of ops 389 and 600.
// Of op 390 none is.
func TestSureOfOneLane(t *testing.T) {
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 1000, Count: 600, Bytes: 300, Stride: 1, Call: workload.Fsync, Seed: 3}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	st := tell(p, 600, 600).resize(640)
	r := Judge(st.history, st.survivors)
	for k, want := range map[int]workload.Extent{
		341: {}, 342: {Offset: 640, Length: 1}, 389: {Offset: 640, Length: 48}, 390: {Offset: 389, Length: 300},
	} {
		if got := r.Ops[k-1].Missing; got != want {
			t.Errorf("of op %d, %v is missing, want %v", k, got, want)
		}
	}
}

// TestResultAsJSON pins the field names, which reports are read by.
func TestResultAsJSON(t *testing.T) {
	st := tell(overwrite(1), 1, 1).rewind(0, 512, 88)
	text, err := json.Marshal(Judge(st.history, st.survivors))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"counts":{"ops":1,"acked":1,"kept":0,"lost":1,"unpromised":0,"early":0,"absent":0,"torn":0,"foreign":0,"failed":0,"ambiguous":0},` +
		`"setup":{"op":0,"extent":{"offset":0,"length":10000},"acked":true,"class":"kept","missing":{"offset":0,"length":0}},` +
		`"ops":[{"op":1,"extent":{"offset":0,"length":600},"acked":true,"class":"lost","missing":{"offset":512,"length":88},"found":"the content from before op 1"}]}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		result Result
		want   bool
	}{
		"nothing":       {Result{}, false},
		"lost":          {Result{Counts: Counts{Lost: 1}}, true},
		"foreign":       {Result{Counts: Counts{Foreign: 1}}, true},
		"unacked":       {Result{Counts: Counts{Early: 1, Absent: 2, Torn: 3, Failed: 4, Ambiguous: 5}}, false},
		"setup lost":    {Result{Setup: OpVerdict{Class: Lost}}, true},
		"setup foreign": {Result{Setup: OpVerdict{Class: Foreign}}, true},
		"setup torn":    {Result{Setup: OpVerdict{Class: Torn}}, false},
		"size":          {Result{Size: "too large"}, true},
		"stray":         {Result{Stray: &Stray{}}, true},
	} {
		if got := c.result.Broken(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestForeignBytesAreQuoted shows no more than the first few in a row.
func TestForeignBytesAreQuoted(t *testing.T) {
	p := workload.Plan{Kind: workload.Append, Path: "f", Count: 3, Bytes: 10, Stride: 100, Call: workload.Fsync}
	for n, want := range map[int]string{
		1:  "byte 0x05 that no op wrote there",
		2:  "bytes 0x05 0x05 that no op wrote there",
		8:  "bytes" + strings.Repeat(" 0x05", 8) + " that no op wrote there",
		20: "bytes" + strings.Repeat(" 0x05", 8) + " that no op wrote there",
	} {
		st := tell(p, 3, 3).write(20, bytes.Repeat([]byte{5}, n)...).write(60, 6)
		if r := Judge(st.history, st.survivors); r.Stray == nil || r.Stray.Found != want {
			t.Errorf("%d bytes: %+v, want %s", n, r.Stray, want)
		}
	}
}

// FuzzJudge lets the fuzzer choose the case of TestJudgeAgreesWithSlowJudge.
func FuzzJudge(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		h := drawHistory(t, drawPlan(t))
		s := drawDamage(t, h)
		r, e := Judge(h, s), gather(h, s)
		for k, got := range append([]OpVerdict{r.Setup}, r.Ops...) {
			if want := slow(h, s, e, k); want.Class != got.Class || want.Missing != got.Missing {
				t.Fatalf("%+v, started %d: op %d is %+v, want %+v", h.Plan, h.Started, k, got, want)
			}
		}
	}))
}
