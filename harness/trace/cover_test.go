package trace

import (
	"slices"
	"strings"
	"testing"

	"powercut/guest/workload"
)

// TestWhy has one story for each answer that a cover can give on op 1.
func TestWhy(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  string // after the ack of op 0
		set     func(*Input)
		durable bool
		writes  []uint64
		why     string
	}{
		{
			name: "flush", script: "begin data /1 flush /2 ack flush", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, flush 2 covered it at position 3)",
		},
		{
			name: "flush not at the cut", script: "begin data /1 flush /2 ack", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, flush 2 covered it at position 3)",
		},
		{
			name: "later flush answered first", script: "begin data /1 flush flush /3 ack /2", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, flush 3 covered it at position 4)",
		},
		{
			name: "fua", script: "begin data:fua /1 ack flush", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it with FUA)",
		},
		{
			name: "second write covered", script: "begin data data:fua /2 /1 ack", durable: true, writes: []uint64{1, 2},
			why: "its data was durable at the ack (request 2 carried it with FUA)",
		},
		{
			name: "no write", script: "begin flush /1 ack flush",
			why: "no write carried its data, before the ack or after it",
		},
		{
			name: "write too late", script: "begin flush /1 ack data /2",
			why: "no write carried its data before the ack; the first that did, request 2, arrived after it, at position 2",
		},
		{
			name: "unanswered", script: "begin data ack /1", writes: []uint64{1},
			why: "request 1 carried its data, but had not been answered at the ack",
		},
		{
			name: "failed", script: "begin data:fua /1:5 ack", writes: []uint64{1},
			why: "request 1 carried its data before the ack, and failed with errno 5",
		},
		{
			name: "no flush in the run", script: "begin data /1 ack begin data /2", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 2): the drive received no flush in the whole run",
		},
		{
			name: "not advertised", script: "begin data /1 ack begin data /2", writes: []uint64{1},
			set: func(in *Input) { in.CacheAdvertised = false },
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 2): the drive never advertised a cache, so no flush could reach it",
		},
		{
			name: "flush after the ack", script: "begin data /1 ack flush /2", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 2): no flush reached the drive between its answer and the ack",
		},
		{
			name: "flush ignored", script: "begin data /1 flush:ignored /2 ack flush", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 4): flush 2 reached the drive, which ignored it (fault)",
		},
		{
			name: "flush failed", script: "begin data /1 flush /2:5 ack flush", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 4): flush 2 reached the drive, and failed with errno 5",
		},
		{
			name: "flush unanswered", script: "begin data /1 flush ack /2", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 3): flush 2 arrived after it at position 2, but had not been answered at the ack",
		},
		{
			name: "flush too early", script: "begin data flush /1 /2 ack flush", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 2, yet it was volatile at the ack (position 4): flush 2 arrived before the write was answered, at position 1, so did not cover it",
		},
		{
			name: "fua ignored", script: "begin data:fua:ignored /1 ack", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 2): it asked for FUA, which the drive ignored (fault), and the drive received no flush in the whole run",
		},
		{
			name: "written back before the ack", script: "begin data /1 ~1 ack flush", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, and the drive wrote it back by itself at position 2)",
		},
		{
			name: "written back after a flush", script: "begin data /1 flush /2 ~1 ack", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, flush 2 covered it at position 3)",
		},
		{
			name: "written back after the ack", script: "begin data /1 flush:ignored /2 ack ~1", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 4): flush 2 reached the drive, which ignored it (fault); the drive wrote it back by itself after that, at position 4",
		},
		{
			name: "torn", script: "begin torn /1 flush /2 ack flush", writes: []uint64{1},
			why: "request 1 carried its data, and bytes 0 to 512 of the request never reached the drive, which answered it all the same (fault)",
		},
		{
			name: "rotten", script: "begin rotten /1 flush /2 ack flush", writes: []uint64{1},
			why: "request 1 carried its data, and the drive stored it with bit 7 of the sector flipped (fault)",
		},
		{
			name: "torn, and then whole", script: "begin torn /1 data /2 flush /3 ack", durable: true, writes: []uint64{1, 2},
			why: "its data was durable at the ack (request 2 carried it, flush 3 covered it at position 5)",
		},
		{
			name: "to fail, without an answer", script: "begin failing ack", writes: []uint64{1},
			why: "request 1 carried its data, but had not been answered at the ack",
		},
		{
			name: "failing", script: "begin failing /1:5 flush /2 ack", writes: []uint64{1},
			why: "request 1 carried its data before the ack, and failed with errno 5",
		},
		{
			name: "through", script: "begin through /1 ack flush", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, to a drive that holds nothing back)",
		},
		{
			name: "through, ignored", script: "begin through:ignored /1 ack", writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 2): the drive, which has no cache, held it back (fault), and the drive received no flush in the whole run",
		},
		{
			name: "flush of its disk", script: "begin data /1 flush:first /2 ack", set: twoDisks, durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, flush 2 covered it at position 3)",
		},
		{
			name: "flush of both", script: "begin data /1 flush:second /2 flush:first /3 ack", set: twoDisks, durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, flush 3 covered it at position 5)",
		},
		{
			name: "flush of the other disk", script: "begin data /1 flush:second /2 ack", set: twoDisks, writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 4): no flush reached the file system's disk between its answer and the ack; flush 2 was for the journal's disk",
		},
		{
			name: "flush of its disk ignored, and of the other not", script: "begin data /1 flush:second /2 flush:first:ignored /3 ack", set: twoDisks, writes: []uint64{1},
			why: "request 1 carried its data and was answered at position 1, yet it was volatile at the ack (position 6): flush 3 reached the file system's disk, which ignored it (fault)",
		},
		{
			name: "fua ignored, then a flush", script: "begin data:fua:ignored /1 flush /2 ack", durable: true, writes: []uint64{1},
			why: "its data was durable at the ack (request 1 carried it, flush 2 covered it at position 3)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := newStory(t, overwrites()).tell("ack " + c.script).input()
			if c.set != nil {
				c.set(&in)
			}
			tr := readInput(t, in)
			got, ok := tr.Cover(1)
			if !ok {
				t.Fatal("op 1 has no cover")
			}
			if got.Durable != c.durable || !slices.Equal(got.Writes, c.writes) {
				t.Errorf("durable %v by %v, want %v by %v", got.Durable, got.Writes, c.durable, c.writes)
			}
			if got.Why != c.why {
				t.Errorf("why:\n%s\nwant:\n%s", got.Why, c.why)
			}
			unsafe := slices.ContainsFunc(tr.Unsafe(), func(u Cover) bool { return u.Op == 1 })
			if unsafe == c.durable {
				t.Errorf("listed as unsafe: %v", unsafe)
			}
		})
	}
}

// twoDisks says that the drive is two.
func twoDisks(in *Input) { in.JournalAt = second }

// TestAckPosition wants the first event that counts the op, or else the cut.
func TestAckPosition(t *testing.T) {
	tr := newStory(t, overwrites()).tell("data /1 flush /2 ack begin data /3 ack read begin data /5 ack").read()
	var got [][3]int64
	for _, c := range tr.Covers {
		got = append(got, [3]int64{int64(c.Op), int64(c.AckAt), c.AckTime.Milliseconds()})
	}
	if want := [][3]int64{{0, 4, 4}, {1, 6, 6}, {2, 9, 8}}; !slices.Equal(got, want) {
		t.Errorf("op, position and time of the acks: %v, want %v", got, want)
	}
}

// TestOnlyAcked wants no cover for ops that failed, never ended or never synced.
func TestOnlyAcked(t *testing.T) {
	s := newStory(t, overwrites()).tell("ack begin data /1 fail begin data /2 ack begin data /3 ack begin data")
	s.records[2].Synced = false
	tr := s.read()
	var got []int
	for _, c := range tr.Covers {
		got = append(got, c.Op)
	}
	if want := []int{0, 3}; !slices.Equal(got, want) {
		t.Errorf("covers of %v, want %v", got, want)
	}
	if _, ok := tr.Cover(2); ok {
		t.Error("op 2 has a cover")
	}
}

// TestFirstContent judges op 0 by the whole file, and keeps it out of Unsafe.
func TestFirstContent(t *testing.T) {
	half := newStory(t, overwrites())
	half.sectors(0, 32, false, false)
	half.tell("/1 flush /2")
	half.sectors(32, 64, false, false)
	tr := half.tell("/3 ack").read()
	c, _ := tr.Cover(0)
	want := "request 3 carried the part of its data from offset 16384 and was answered at position 5, yet it was volatile at the ack (position 6): " +
		"flush 2 arrived before the write was answered, at position 2, so did not cover it"
	if c.Durable || c.Why != want {
		t.Errorf("cover of op 0: %v %s", c.Durable, c.Why)
	}
	if len(tr.Unsafe()) != 0 {
		t.Errorf("unsafe: %v", tr.Unsafe())
	}
	large := overwrites()
	large.Size = 3*chunk + 5*sector
	if c, _ := newStory(t, large).tell("data /1 flush /2 ack").read().Cover(0); !c.Durable {
		t.Errorf("cover of op 0 of a large file: %s", c.Why)
	}
	empty, _ := newStory(t, appends(100, 3, 1)).tell("ack").read().Cover(0)
	if !empty.Durable || empty.Why != "the op has no data" {
		t.Errorf("cover of an empty file: %+v", empty)
	}
}

// TestParts has an op of two sectors of which only the first was flushed.
func TestParts(t *testing.T) {
	p := overwrites()
	p.Bytes, p.Stride = 2*sector, 2*sector
	c, _ := newStory(t, p).tell("ack begin head:fua /1 ack").read().Cover(1)
	if c.Durable || c.Why != "no write carried the part of its data from offset 512, before the ack or after it" {
		t.Errorf("cover: %v %s", c.Durable, c.Why)
	}
}

// oneSector is a plan in which each op rewrites the same sector.
func oneSector() workload.Plan {
	p := overwrites()
	p.Size = sector
	return p
}

// TestNewerContent lets a sector that was written for op 2 cover op 1 too, whose
// bytes it supersedes.
func TestNewerContent(t *testing.T) {
	s := newStory(t, oneSector()).tell("ack begin data /1 begin data:fua /2 ack ack flush")
	for op, writes := range map[int][]uint64{1: {1, 2}, 2: {2}} {
		if c, _ := s.read().Cover(op); !c.Durable || !slices.Equal(c.Writes, writes) {
			t.Errorf("op %d: %+v", op, c)
		}
	}
}

// TestOlderContent has the content of op 1 written again while op 2 runs, which
// does not cover op 2.
func TestOlderContent(t *testing.T) {
	s := newStory(t, oneSector()).tell("ack begin ack")
	stale := slices.Clone(s.file[:sector])
	s.tell("begin")
	s.write(home, stale, true, false)
	c, _ := s.tell("/1 ack flush").read().Cover(2)
	if c.Durable || len(c.Writes) > 0 || c.Why != "no write carried its data, before the ack or after it" {
		t.Errorf("cover of op 2: %+v", c)
	}
}

// TestLag has a ledger that tells of each op when the next one has begun.
func TestLag(t *testing.T) {
	in := newStory(t, overwrites()).tell("ack begin data:fua /1 ack begin data:fua /2 ack").input()
	for i := range in.Events {
		in.Events[i].Started--
	}
	if u := readInput(t, in).Unsafe(); len(u) != 2 {
		t.Errorf("without lag: %v", u)
	}
	in.Lag = 1
	if u := readInput(t, in).Unsafe(); len(u) != 0 {
		t.Errorf("with lag: %v", u)
	}
}

// TestDataInJournal is data=journal: the journal carries the op.
func TestDataInJournal(t *testing.T) {
	s := newStory(t, overwrites()).tell("ack begin")
	s.write(8<<20, append(descriptor(1), s.file[:4096]...), false, false)
	tr := s.tell("/1 commit /2 flush /3 ack flush").read()
	r := tr.Requests[0]
	if r.Class != Journal || r.Detail != "descriptor+1; ops 0-1" || !slices.Equal(r.Ops, []int{0, 1}) {
		t.Errorf("request: %v, ops %v", r, r.Ops)
	}
	if c, _ := tr.Cover(1); !c.Durable || !slices.Equal(c.Writes, []uint64{1}) {
		t.Errorf("cover: %+v", c)
	}
}

func TestLost(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"begin data /1 flush /2 ack", "no journal or metadata write was made during the op"},
		{"begin data:fua /1 journal commit:fua /2 /3 ack", "of the journal writes made during the op (requests 2, 3) these were still volatile at the ack: request 2"},
		{"begin data journal commit /1 /2 /3 flush /4 ack", "of the journal writes made during the op (requests 2, 3) all were durable at the ack"},
		{"begin data:fua /1 meta /2 ack flush", "of the metadata writes made during the op (request 2) these were still volatile at the ack: request 2"},
		{"begin data:fua /1 meta:fua ack /2", "of the metadata writes made during the op (request 2) these were still volatile at the ack: request 2"},
	} {
		v, _ := newStory(t, overwrites()).tell("ack " + c.script).read().Cover(1)
		why, meta, ok := strings.Cut(v.Lost(), "; what is missing is metadata: ")
		if !ok || why != v.Why || meta != c.want {
			t.Errorf("%s: %s", c.script, v.Lost())
		}
	}
	for _, c := range []struct{ script, want string }{
		{"begin data journal /1 /2 flush:first /3 ack", "request 2; no flush reached the journal's disk between its answer and the ack; flush 3 was for the file system's disk"},
		{"begin data journal /1 /2 flush:first /3 flush:second:ignored /4 ack", "request 2; flush 4 reached the journal's disk, which ignored it (fault)"},
		{"begin data journal /1 flush:first /3 ack", "request 2"},
	} {
		in := newStory(t, overwrites()).tell("ack " + c.script).input()
		twoDisks(&in)
		v, _ := readInput(t, in).Cover(1)
		if _, got, _ := strings.Cut(v.Lost(), "these were still volatile at the ack: "); got != c.want {
			t.Errorf("%s: %s", c.script, v.Lost())
		}
	}
	v, _ := newStory(t, overwrites()).tell("ack begin data /1 ack").read().Cover(1)
	if v.Lost() != v.Why {
		t.Errorf("volatile data: %s", v.Lost())
	}
}

func TestNumberText(t *testing.T) {
	if got := numberText([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); got != "requests 1, 2, 3, 4, 5, 6, 7, 8, and 2 more" {
		t.Error(got)
	}
}
