package verdict

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// story is one run, told step by step: a plan, what the ledger says, and a file
// that starts as it would be without a crash and is then damaged.
type story struct {
	history   History
	survivors Survivors
}

// overwrite is a plan of ops of 600 bytes at stride 1000, ten to a round.
func overwrite(count int) workload.Plan {
	return workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 10_000, Count: count, Bytes: 600, Stride: 1000, Call: workload.Fsync, Seed: 5}
}

// ranged is overwrite(10) with a sync call for a range, which begins in op 3 at 2100
// and ends in op 5 at 4300.
func ranged(call workload.Call) workload.Plan {
	p := overwrite(10)
	p.Call, p.Sync = call, workload.Extent{Offset: 2100, Length: 2200}
	return p
}

// calling is overwrite(10) with another call, and whole sectors where it wants them.
func calling(call workload.Call) workload.Plan {
	p := overwrite(10)
	p.Call = call
	if call.Direct() {
		p.Size, p.Stride, p.Bytes = 10<<10, 1<<10, 512
	}
	return p
}

// inPlace has the story's drive hold nothing back.
func (st *story) inPlace() *story {
	st.history.InPlace = true
	return st
}

// erred has it answer a request with an error before the last n records.
func (st *story) erred(n int) *story {
	st.history.Doubtful = n
	return st
}

// byteAppend is a plan of ops that append one byte each.
func byteAppend(count int) workload.Plan {
	return workload.Plan{Kind: workload.Append, Path: "f", Count: count, Bytes: 1, Stride: 1, Call: workload.OSync, Seed: 6}
}

// tell begins a story: all ops of the plan up to started have begun, all up to
// acked have returned, and all of it is there.
func tell(p workload.Plan, started, acked int) *story {
	st := &story{history: History{Plan: p, Started: uint64(started)}}
	for k := 0; k <= acked; k++ {
		st.history.Records = append(st.history.Records, ledger.Record{Op: uint64(k), Synced: true})
	}
	st.survivors = Survivors{Exists: true, Size: p.SizeAfter(started), Data: make(Bytes, p.SizeAfter(started))}
	p.Content(started, 0, st.data())
	return st
}

// data is the file's content.
func (st *story) data() []byte { return bytesOf(st.survivors) }

// bytesOf is the content of survivors that are in memory.
func bytesOf(s Survivors) []byte {
	b, _ := s.Data.(Bytes)
	return b
}

// fail lets ops return an error.
func (st *story) fail(ops ...int) *story {
	for _, k := range ops {
		st.history.Records[k].Errno, st.history.Records[k].Synced = 5, false
	}
	return st
}

// rewind puts a part of the file back to what it was after op k.
func (st *story) rewind(k int, off, n int64) *story {
	st.history.Plan.Content(k, off, st.data()[off:off+n])
	return st
}

// write puts bytes into the file.
func (st *story) write(off int64, b ...byte) *story {
	copy(st.data()[off:], b)
	return st
}

// zero puts zeros into the file.
func (st *story) zero(off, n int64) *story { return st.write(off, make([]byte, n)...) }

// resize cuts the file, or lengthens it with zeros.
func (st *story) resize(n int64) *story {
	st.survivors.Size = n
	st.survivors.Data = Bytes(append(slices.Clone(st.data()), make([]byte, max(0, n-int64(len(st.data()))))...)[:n])
	return st
}

// remove takes the file away.
func (st *story) remove() *story {
	st.survivors = Survivors{}
	return st
}

// finding is an op that is neither kept nor early, in short.
type finding struct {
	Op       int
	Class    Class
	From, To int64 // Missing
	Found    string
}

// findings lists what is wrong or open in a result, op 0 first.
func findings(r Result) (list []finding) {
	for _, v := range append([]OpVerdict{r.Setup}, r.Ops...) {
		if v.Class != Kept && v.Class != Early {
			list = append(list, finding{v.Op, v.Class, v.Missing.Offset, v.Missing.End(), v.Found})
		}
	}
	return list
}

func TestStories(t *testing.T) {
	const before = "the content from before op 1"
	// a byte that no op of the overwrite plan writes at 2003: it has 255 - 223 - 1 of them
	alien := foreignByte(t, overwrite(30), 2003)
	for name, c := range map[string]struct {
		story  *story
		want   []finding
		size   string
		counts Counts // where not nought
	}{
		"all is well": {
			story: tell(overwrite(10), 10, 10), counts: Counts{Ops: 10, Acked: 10, Kept: 10},
		},
		"three rounds, all is well": {
			story: tell(overwrite(30), 30, 30), counts: Counts{Ops: 30, Acked: 30, Kept: 30},
		},
		"the op in flight is there": {
			story: tell(overwrite(10), 10, 9), counts: Counts{Ops: 10, Acked: 9, Kept: 9, Early: 1},
		},
		"the op in flight is not there": {
			story: tell(overwrite(10), 10, 9).rewind(9, 9000, 600),
			want:  []finding{{10, Absent, 9000, 9600, before}},
		},
		"the op in flight is torn": {
			story: tell(overwrite(10), 10, 9).rewind(9, 9216, 384),
			want:  []finding{{10, Torn, 9216, 9600, before}},
		},
		"torn in the middle": {
			story: tell(overwrite(20), 20, 19).rewind(19, 9100, 10).rewind(19, 9300, 10),
			want:  []finding{{20, Torn, 9100, 9310, "the content of op 10"}},
		},
		"an acked op is gone": {
			story:  tell(overwrite(10), 10, 10).rewind(3, 3000, 600),
			want:   []finding{{4, Lost, 3000, 3600, before}},
			counts: Counts{Ops: 10, Acked: 10, Kept: 9, Lost: 1},
		},
		"one byte of it is gone": {
			story: tell(overwrite(10), 10, 10).rewind(3, 3599, 1),
			want:  []finding{{4, Lost, 3599, 3600, before}},
		},
		"two rounds back: the op before is lost too": {
			story: tell(overwrite(30), 30, 30).rewind(4, 3000, 600),
			want: []finding{
				{14, Lost, 3000, 3600, "the content of op 4"},
				{24, Lost, 3000, 3600, "the content of op 4"},
			},
		},
		"the last round is lost where it was acked only": {
			story: tell(overwrite(30), 30, 22).rewind(22, 0, 10_000).rewind(11, 1000, 600),
			want: []finding{
				{12, Lost, 1000, 1600, "the content of op 2"},
				{22, Lost, 1000, 1600, "the content of op 2"},
				{23, Absent, 2000, 2600, "the content of op 13"},
				{24, Absent, 3000, 3600, "the content of op 14"},
				{25, Absent, 4000, 4600, "the content of op 15"},
				{26, Absent, 5000, 5600, "the content of op 16"},
				{27, Absent, 6000, 6600, "the content of op 17"},
				{28, Absent, 7000, 7600, "the content of op 18"},
				{29, Absent, 8000, 8600, "the content of op 19"},
				{30, Absent, 9000, 9600, "the content of op 20"},
			},
		},
		"nothing but what was synced is promised": {
			story: tell(ranged(workload.FsyncRangeData), 10, 10).rewind(0, 0, 10_000),
			want: []finding{
				{1, Unpromised, 0, 600, before},
				{2, Unpromised, 1000, 1600, before},
				{3, Lost, 2100, 2600, before},
				{4, Lost, 3000, 3600, before},
				{5, Lost, 4000, 4300, before},
				{6, Unpromised, 5000, 5600, before},
				{7, Unpromised, 6000, 6600, before},
				{8, Unpromised, 7000, 7600, before},
				{9, Unpromised, 8000, 8600, before},
				{10, Unpromised, 9000, 9600, before},
			},
			counts: Counts{Ops: 10, Acked: 10, Lost: 3, Unpromised: 7},
		},
		"the bytes of an op before the range are not promised, those in it are": {
			story: tell(ranged(workload.Msync), 10, 10).rewind(0, 2000, 100).rewind(0, 4299, 301),
			want:  []finding{{3, Unpromised, 2000, 2100, before}, {5, Lost, 4299, 4300, before}},
		},
		"foreign bytes are nobody's, in the range or not": {
			story: tell(ranged(workload.FsyncRangeFile), 10, 10).write(2003, alien),
			want:  []finding{{3, Foreign, 2003, 2004, quoteOf(alien)}},
		},
		"sync_file_range promises nothing where the drive has a cache": {
			story:  tell(calling(workload.SyncFileRange), 10, 10).rewind(3, 3000, 600),
			want:   []finding{{4, Unpromised, 3000, 3600, before}},
			counts: Counts{Ops: 10, Acked: 10, Kept: 9, Unpromised: 1},
		},
		"and an overwrite where it has none": {
			story: tell(calling(workload.SyncFileRange), 10, 10).inPlace().rewind(3, 3000, 600),
			want:  []finding{{4, Lost, 3000, 3600, before}},
		},
		"O_DIRECT alone is no better": {
			story: tell(calling(workload.Direct), 10, 10).rewind(3, 3072, 512),
			want:  []finding{{4, Unpromised, 3072, 3584, before}},
		},
		"and no worse": {
			story: tell(calling(workload.Direct), 10, 10).inPlace().rewind(3, 3072, 512),
			want:  []finding{{4, Lost, 3072, 3584, before}},
		},
		"an fsync of the directory is none of the file": {
			story: tell(calling(workload.FsyncDir), 10, 10).inPlace().rewind(3, 3000, 600),
			want:  []finding{{4, Unpromised, 3000, 3600, before}},
		},
		"sync promises": {
			story: tell(calling(workload.Sync), 10, 10).rewind(3, 3000, 600),
			want:  []finding{{4, Lost, 3000, 3600, before}},
		},
		"but has no way to tell of an error": {
			story: tell(calling(workload.Sync), 10, 10).erred(7).rewind(3, 3000, 600),
			want:  []finding{{4, Unpromised, 3000, 3600, before}},
		},
		"what it promised before is lost": {
			story: tell(calling(workload.Sync), 10, 10).erred(6).rewind(3, 3000, 600),
			want:  []finding{{4, Lost, 3000, 3600, before}},
		},
		"syncfs has": {
			story: tell(calling(workload.Syncfs), 10, 10).erred(11).rewind(3, 3000, 600),
			want:  []finding{{4, Lost, 3000, 3600, before}},
		},
		"zeros where an op was": {
			story: tell(overwrite(10), 10, 10).zero(4000, 100),
			want:  []finding{{0, Lost, 4000, 4100, "zeros"}, {5, Lost, 4000, 4100, "zeros"}},
		},
		"zeros where only the first content was": {
			story: tell(overwrite(10), 10, 10).zero(4700, 100),
			want:  []finding{{0, Lost, 4700, 4800, "zeros"}},
		},
		"zeros below an op in flight accuse the first content": {
			story: tell(overwrite(10), 10, 9).zero(9000, 600),
			want:  []finding{{0, Lost, 9000, 9600, "zeros"}, {10, Absent, 9000, 9600, "zeros"}},
		},
		"a foreign byte in an op": {
			story:  tell(overwrite(10), 10, 10).write(2003, alien),
			want:   []finding{{3, Foreign, 2003, 2004, quoteOf(alien)}},
			counts: Counts{Ops: 10, Acked: 10, Kept: 9, Foreign: 1},
		},
		"a foreign byte in an op in flight": {
			story: tell(overwrite(3), 3, 2).write(2003, alien),
			want:  []finding{{3, Foreign, 2003, 2004, quoteOf(alien)}},
		},
		"the stamp of an op that has not begun": {
			story: tell(overwrite(30), 12, 12).write(2003, workload.Stamp(5, 2003, 13)),
			want:  []finding{{3, Foreign, 2003, 2004, quoteOf(workload.Stamp(5, 2003, 13))}},
		},
		"the stamp of another location's op": {
			story: tell(overwrite(30), 30, 30).write(2003, workload.Stamp(5, 2003, 24)),
			want: []finding{
				{3, Foreign, 2003, 2004, quoteOf(workload.Stamp(5, 2003, 24))},
				{13, Foreign, 2003, 2004, quoteOf(workload.Stamp(5, 2003, 24))},
				{23, Foreign, 2003, 2004, quoteOf(workload.Stamp(5, 2003, 24))},
			},
		},
		"a stamp where no op writes is the first content's trouble": {
			story: tell(overwrite(30), 30, 30).write(2603, workload.Stamp(5, 2603, 3)),
			want:  []finding{{0, Foreign, 2603, 2604, quoteOf(workload.Stamp(5, 2603, 3))}},
		},
		"too short": {
			story: tell(overwrite(10), 10, 10).resize(8192),
			want: []finding{
				{0, Lost, 8192, 10_000, "the file ends at 8192"},
				{9, Lost, 8192, 8600, "the file ends at 8192"},
				{10, Lost, 9000, 9600, "the file ends at 8192"},
			},
			size: "8192 bytes, but 10000 were acknowledged",
		},
		"too long": {
			story: tell(overwrite(10), 10, 10).resize(10_001),
			size:  "10001 bytes, but no op that had begun makes it larger than 10000",
		},
		"missing": {
			story: tell(overwrite(2), 2, 1).remove(),
			want: []finding{
				{0, Lost, 0, 10_000, "the file is missing"},
				{1, Lost, 0, 600, "the file is missing"},
				{2, Absent, 1000, 1600, "the file is missing"},
			},
		},
		"failed ops are promised nothing, also after a later success": {
			story:  tell(overwrite(10), 10, 10).fail(4, 6).rewind(3, 3000, 600).rewind(5, 5512, 88),
			want:   []finding{{4, Absent, 3000, 3600, before}, {6, Torn, 5512, 5600, before}},
			counts: Counts{Ops: 10, Acked: 8, Kept: 8, Absent: 1, Torn: 1, Failed: 2},
		},
		"a failed op may be there": {
			story:  tell(overwrite(10), 10, 10).fail(4),
			counts: Counts{Ops: 10, Acked: 9, Kept: 9, Early: 1, Failed: 1},
		},
		"a failed op does not excuse an older one": {
			story: tell(overwrite(20), 20, 20).fail(14).rewind(0, 3000, 600),
			want:  []finding{{4, Lost, 3000, 3600, before}, {14, Absent, 3000, 3600, before}},
		},
		"a failed op's content does not excuse a newer one": {
			story: tell(overwrite(30), 30, 30).fail(14).rewind(14, 3000, 600),
			want:  []finding{{24, Lost, 3000, 3600, "the content of op 14"}},
		},
		"records end early": {
			story:  tell(overwrite(10), 7, 4).rewind(4, 4000, 6000),
			want:   []finding{{5, Absent, 4000, 4600, before}, {6, Absent, 5000, 5600, before}, {7, Absent, 6000, 6600, before}},
			counts: Counts{Ops: 7, Acked: 4, Kept: 4, Absent: 3},
		},
		"nothing is recorded": {
			story: unrecorded(tell(overwrite(10), 0, 0)).zero(0, 512).resize(4096),
			want:  []finding{{0, Torn, 0, 10_000, "the file ends at 4096"}},
		},
		"nothing is recorded nor there": {
			story: unrecorded(tell(overwrite(10), 0, 0)).remove(),
			want:  []finding{{0, Absent, 0, 10_000, "the file is missing"}},
		},
		"unsynced first content of zeros": {
			story: unrecorded(tell(overwrite(10), 0, 0)).zero(0, 10_000),
			want:  []finding{{0, Absent, 0, 10_000, "zeros"}},
		},
		"append, all is well": {
			story: tell(byteAppend(900), 900, 900), counts: Counts{Ops: 900, Acked: 900, Kept: 900},
		},
		"append of one byte is gone": {
			story: tell(byteAppend(900), 900, 900).zero(251, 1),
			want:  []finding{{252, Lost, 251, 252, "zeros"}},
		},
		"append is cut": {
			story: tell(byteAppend(900), 900, 898).resize(897),
			want: []finding{
				{898, Lost, 897, 898, "the file ends at 897"},
				{899, Absent, 898, 899, "the file ends at 897"},
				{900, Absent, 899, 900, "the file ends at 897"},
			},
			size: "897 bytes, but 898 were acknowledged",
		},
		"append grew, and its data did not get there": {
			story: tell(byteAppend(900), 900, 898).zero(898, 2),
			want:  []finding{{899, Absent, 898, 899, "zeros"}, {900, Absent, 899, 900, "zeros"}},
		},
		"append has grown too far": {
			story: tell(byteAppend(900), 600, 600).resize(601),
			size:  "601 bytes, but no op that had begun makes it larger than 600",
		},
		"append is missing": {
			story: tell(byteAppend(9), 1, 1).remove(),
			want:  []finding{{0, Lost, 0, 0, "the file is missing"}, {1, Lost, 0, 1, "the file is missing"}},
		},
		"append, nothing but creation": {
			story: tell(byteAppend(9), 0, 0), counts: Counts{},
		},
		"append, created and gone": {
			story: tell(byteAppend(9), 0, 0).remove(),
			want:  []finding{{0, Lost, 0, 0, "the file is missing"}},
		},
		"append, never created": {
			story: unrecorded(tell(byteAppend(9), 0, 0)).remove(),
			want:  []finding{{0, Absent, 0, 0, "the file is missing"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.story.history.Plan.Validate(); err != nil {
				t.Fatal(err)
			}
			r := Judge(c.story.history, c.story.survivors)
			if diff := cmp.Diff(c.want, findings(r)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if r.Size != c.size || r.Stray != nil {
				t.Errorf("size %q, want %q; stray %v", r.Size, c.size, r.Stray)
			}
			if c.counts != (Counts{}) && c.counts != r.Counts {
				t.Errorf("counts %+v, want %+v", r.Counts, c.counts)
			}
			broken := c.size != "" || slices.ContainsFunc(c.want, func(f finding) bool { return f.Class == Lost || f.Class == Foreign })
			if r.Broken() != broken {
				t.Errorf("broken is %v, want %v", r.Broken(), broken)
			}
		})
	}
}

// unrecorded takes all records away.
func unrecorded(st *story) *story {
	st.history.Records = nil
	return st
}

// foreignByte returns a byte that no op of the plan can write at off.
func foreignByte(t *testing.T, p workload.Plan, off int64) byte {
	t.Helper()
	for v := byte(255); v > 0; v-- {
		if first, _ := workload.Writers(p.Seed, off, v); first < 0 {
			return v
		}
	}
	t.Fatalf("all bytes can be written at %d", off)
	return 0
}

func quoteOf(b byte) string {
	const digits = "0123456789abcdef"
	return "byte 0x" + string(digits[b>>4]) + string(digits[b&15]) + " that no op wrote there"
}

func TestNoneAcknowledgesNothing(t *testing.T) {
	p := overwrite(10)
	p.Call = workload.None
	r := Judge(tell(p, 10, 10).rewind(0, 0, 10_000).history, tell(p, 10, 10).rewind(0, 0, 10_000).survivors)
	if r.Counts.Acked != 0 || r.Counts.Absent != 10 || r.Broken() {
		t.Errorf("without a sync call all may be lost: %+v", r.Counts)
	}
	// The first content was synced all the same.
	st := tell(p, 10, 10).resize(5000)
	if r := Judge(st.history, st.survivors); r.Setup.Class != Lost || !r.Broken() {
		t.Errorf("setup is %s, want lost", r.Setup.Class)
	}
}

func TestHolesOfAppend(t *testing.T) {
	p := workload.Plan{Kind: workload.Append, Path: "f", Count: 50, Bytes: 100, Stride: 1000, Call: workload.Fsync, Seed: 2}
	st := tell(p, 50, 50).write(1100, 7, 8, 9).write(3999, 1)
	r := Judge(st.history, st.survivors)
	want := &Stray{Extent: workload.Extent{Offset: 1100, Length: 2900}, Found: "bytes 0x07 0x08 0x09 that no op wrote there"}
	if diff := cmp.Diff(want, r.Stray); diff != "" || !r.Broken() || r.Counts.Kept != 50 {
		t.Errorf("broken %v, %+v, stray (-want +got):\n%s", r.Broken(), r.Counts, diff)
	}
	// Op 31 has not begun: its place is a hole beyond the end, and its stamp is foreign even there.
	st = tell(p, 30, 30).resize(29_100)
	st.data()[29_099] = workload.Stamp(2, 29_099, 31)
	if r := Judge(st.history, st.survivors); r.Ops[29].Class != Foreign {
		t.Errorf("op 30 is %s, want foreign", r.Ops[29].Class)
	}
}

func TestOverlappingOps(t *testing.T) {
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 4096, Count: 20, Bytes: 300, Stride: 100, Call: workload.Fsync, Seed: 4}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		story *story
		want  []finding
	}{
		"one op back where only the last covers": {
			tell(p, 20, 20).rewind(19, 2100, 100),
			[]finding{{20, Lost, 2100, 2200, "the content from before op 1"}},
		},
		"one op back where two others cover": {
			tell(p, 20, 20).rewind(19, 1900, 100),
			[]finding{{20, Lost, 1900, 2000, "the content of op 19"}},
		},
		"two ops back": {
			tell(p, 20, 20).rewind(18, 1900, 100),
			[]finding{{19, Lost, 1900, 2000, "the content of op 18"}, {20, Lost, 1900, 2000, "the content of op 18"}},
		},
		"a later op does not stand for bytes that it does not cover": {
			tell(p, 20, 20).rewind(0, 0, 100),
			[]finding{{1, Lost, 0, 100, "the content from before op 1"}},
		},
		"unacked in the middle of acked ones": {
			tell(p, 20, 20).fail(19).rewind(18, 1900, 100),
			[]finding{{19, Torn, 1900, 2000, "the content of op 18"}, {20, Lost, 1900, 2000, "the content of op 18"}},
		},
		"an op whose other bytes a later op holds is absent": {
			tell(p, 20, 20).fail(19).write(1800, before(p, 18, 1800, 100)...),
			[]finding{{19, Absent, 1800, 1900, "the content of op 18"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, findings(Judge(c.story.history, c.story.survivors))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// before returns a part of the plan's file as it is after op k.
func before(p workload.Plan, k int, off, n int64) []byte {
	b := make([]byte, n)
	p.Content(k, off, b)
	return b
}

// TestEqualStamps has 600 ops write one byte: op 1 and op 252 write the same one.
func TestEqualStamps(t *testing.T) {
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 1, Count: 600, Bytes: 1, Call: workload.ODsync, Seed: 4}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	st := tell(p, 600, 600)
	r := Judge(st.history, st.survivors)
	// It is read as op 600, and might be op 349 or op 98.
	if r.Broken() || r.Counts.Kept != 600 || r.Counts.Ambiguous != 600-98 {
		t.Errorf("all well: %+v", r.Counts)
	}
	st.write(0, workload.Stamp(4, 0, 599))
	r = Judge(st.history, st.survivors)
	if r.Counts.Lost != 1 || r.Ops[599].Class != Lost || r.Ops[599].Found != "the content of op 599" {
		t.Errorf("one generation back: %+v, %+v", r.Counts, r.Ops[599])
	}
	// Op 200's stamp is op 451's too, which is the innocent reading for ops 201 to 451.
	st.write(0, workload.Stamp(4, 0, 200))
	if r = Judge(st.history, st.survivors); r.Counts.Lost != 600-451 || r.Counts.Ambiguous != 451-200 {
		t.Errorf("four hundred back: %+v", r.Counts)
	}
	st.write(0, workload.Stamp(4, 0, 0))
	if r = Judge(st.history, st.survivors); r.Counts.Lost != 600 || r.Counts.Ambiguous != 0 {
		t.Errorf("back to the start: %+v", r.Counts)
	}
}

// TestSizeOfStatAndOfData has stat(2) and read(2) disagree.
func TestSizeOfStatAndOfData(t *testing.T) {
	st := tell(overwrite(10), 10, 10)
	st.survivors.Data = Bytes(st.data()[:9_700])
	r := Judge(st.history, st.survivors)
	if r.Size != "10000 bytes, but only 9700 of them could be read" || r.Setup.Class != Lost {
		t.Errorf("short data: %q, setup %s", r.Size, r.Setup.Class)
	}
	st = tell(overwrite(10), 10, 10)
	st.survivors.Size = 9_700
	if r = Judge(st.history, st.survivors); r.Size != "9700 bytes, but 10000 were acknowledged" || r.Setup.Class != Lost {
		t.Errorf("long data: %q, setup %s", r.Size, r.Setup.Class)
	}
	// A file that is far too large need not be read to its end.
	st = tell(overwrite(10), 10, 10)
	st.survivors.Size = 1 << 50
	if r = Judge(st.history, st.survivors); r.Size == "" || r.Setup.Class != Kept || r.Counts.Kept != 10 {
		t.Errorf("huge: %q, setup %s, %+v", r.Size, r.Setup.Class, r.Counts)
	}
}

// TestOddLedgers are records that a sound ledger does not hold: they must not
// upset the judge.
func TestOddLedgers(t *testing.T) {
	st := tell(overwrite(10), 10, 10)
	st.history.Records = append(st.history.Records, ledger.Record{Op: 11, Synced: true}, ledger.Record{Op: 1 << 63, Synced: true})
	st.history.Started = 1 << 62
	if r := Judge(st.history, st.survivors); r.Counts.Ops != 10 || r.Broken() {
		t.Errorf("ops beyond the plan: %+v", r.Counts)
	}
	// A sync that succeeded after a write that failed is no promise.
	st = tell(overwrite(10), 10, 10).rewind(0, 0, 600)
	st.history.Records[1].Errno = 28
	if r := Judge(st.history, st.survivors); r.Ops[0].Class != Absent || r.Counts.Failed != 1 || r.Broken() {
		t.Errorf("synced and failed: op 1 is %s, %+v", r.Ops[0].Class, r.Counts)
	}
	// The count of started ops was read before the last record.
	st = tell(overwrite(10), 10, 6)
	st.history.Started = 5
	if r := Judge(st.history, st.survivors); r.Counts.Ops != 6 || r.Counts.Acked != 6 {
		t.Errorf("started lags: %+v", r.Counts)
	}
}
