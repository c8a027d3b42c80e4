package trace

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/workload"
	"powercut/harness/blocklog"
)

// anyPlan draws a valid plan of a small file.
func anyPlan(t *rapid.T) workload.Plan {
	p := workload.Plan{
		Kind:  rapid.SampledFrom([]workload.Kind{workload.Overwrite, workload.Append}).Draw(t, "kind"),
		Path:  "file",
		Count: rapid.IntRange(1, 40).Draw(t, "count"),
		Bytes: rapid.SampledFrom([]int64{8, 100, 511, 512, 513, 1024, 5000}).Draw(t, "bytes"),
		Call:  workload.Fsync, Seed: rapid.Uint64().Draw(t, "seed"),
	}
	p.Stride = p.Bytes
	if rapid.Bool().Draw(t, "gaps") {
		p.Stride += rapid.Int64Range(0, 1000).Draw(t, "gap")
	}
	if p.Kind == workload.Overwrite {
		p.Size = p.Stride * rapid.Int64Range(1, 8).Draw(t, "slots")
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestContents looks up each sector of the file after each op: it is found in
// its latest version.
func TestContents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		c := newContents(p)
		file := newStory(nil, p)
		last := make([]int, len(file.file)/sector) // op that wrote into the sector
		for k := 0; k <= p.Count; k++ {
			if k > 0 {
				file.begin()
				from, to := file.extent()
				for s := from; s < to; s++ {
					last[s] = k
				}
			}
			c.advance(uint64(k))
			for s := range last {
				content := file.file[s*sector:][:sector]
				v := c.at(c.look(content), int32(s))
				if bytes.Equal(content, make([]byte, sector)) {
					if v != 0 {
						t.Fatalf("op %d: the empty sector %d is found", k, s)
					}
					continue
				}
				if v == 0 || int(c.versions[v].op) != last[s] {
					t.Fatalf("op %d: sector %d is version %d (%+v), want that of op %d", k, s, v, c.versions[v], last[s])
				}
			}
		}
	})
}

// TestSingleBytes appends and overwrites by single bytes, where many sectors have
// the same content. Each op writes its block and flushes: nobody may be accused,
// and each block is traced to its op.
func TestSingleBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := appends(1, 300, rapid.Uint64().Draw(t, "seed"))
		p.Stride = rapid.SampledFrom([]int64{1, 7, 512, 4096}).Draw(t, "stride")
		if rapid.Bool().Draw(t, "overwrite") {
			p.Kind, p.Size = workload.Overwrite, p.Stride*rapid.SampledFrom([]int64{1, 3, 100}).Draw(t, "slots")
		}
		if err := p.Validate(); err != nil {
			t.Skip(err)
		}
		s := newStory(nil, p)
		s.tell("data").reply(1, 0)
		s.tell("flush").reply(2, 0)
		s.tell("ack")
		for range p.Count {
			s.tell("begin block").reply(uint64(len(s.arrived)), 0)
			s.tell("flush").reply(uint64(len(s.arrived)), 0)
			s.tell("ack")
		}
		tr, err := Read(s.input())
		if err != nil {
			t.Fatal(err)
		}
		if u := tr.Unsafe(); len(u) > 0 {
			t.Fatalf("op %d is accused: %s", u[0].Op, u[0].Why)
		}
		for _, r := range tr.Requests[2:] {
			if r.Op == blocklog.Write && !slices.Contains(r.Ops, r.During) {
				t.Fatalf("%v: ops %v", r, r.Ops)
			}
		}
	})
}

// TestCoverAgainstDrive compares Cover with a drive that keeps a note at each
// byte of which op wrote it, on its media and in each write of its cache.
func TestCoverAgainstDrive(t *testing.T) {
	durable, volatile := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := newDrive(anyPlan(t))
		t.Repeat(map[string]func(*rapid.T){
			"op":          d.next,
			"data":        d.data,
			"block":       d.any,
			"stale":       d.stale,
			"flush":       d.flush,
			"reply":       d.reply,
			"reply again": d.reply, // answers are as frequent as requests
		})
		tr, err := Read(d.input())
		if err != nil {
			t.Fatal(err)
		}
		for op, want := range d.verdicts {
			c, ok := tr.Cover(op)
			if !ok || c.Durable != want {
				t.Fatalf("op %d: cover %v %v (%s), the drive says %v\n%s", op, ok, c.Durable, c.Why, want, lines(tr))
			}
			if want {
				durable++
			} else {
				volatile++
			}
		}
	})
	if durable == 0 || volatile == 0 {
		t.Errorf("%d ops were durable and %d not: the property is not tested", durable, volatile)
	}
}

// drive tells a story at random and works out what its media must hold.
type drive struct {
	*story
	ops      []int  // of each byte of the page cache: the op that wrote it
	old      []byte // page cache and ops of an earlier time
	oldOps   []int
	media    []int // of each byte of the file: the newest op known to be durable
	pending  []uint64
	held     map[uint64]held // writes by number
	flushed  map[uint64][]uint64
	verdicts map[int]bool // per acked op: its data was durable
}

// held is a write: what it holds, and whether it is in the cache.
type held struct {
	from     int64 // byte of the file
	ops      []int
	answered bool
}

func newDrive(p workload.Plan) *drive {
	s := newStory(nil, p)
	return &drive{
		story: s, ops: make([]int, len(s.file)), media: slices.Repeat([]int{-1}, len(s.file)),
		held: map[uint64]held{}, flushed: map[uint64][]uint64{}, verdicts: map[int]bool{},
	}
}

// next acks the op that runs, and begins another.
func (d *drive) next(t *rapid.T) {
	op := int(d.started)
	if len(d.records) > op {
		t.Skip("all ops are over")
	}
	from, to := d.bytes()
	covered := true
	for _, have := range d.media[from:to] {
		covered = covered && have >= op
	}
	d.record(0)
	d.verdicts[op] = covered
	if op < d.plan.Count {
		if rapid.Bool().Draw(t, "remember") {
			d.old, d.oldOps = slices.Clone(d.file), slices.Clone(d.ops)
		}
		d.begin()
		from, to := d.bytes()
		for i := from; i < to; i++ {
			d.ops[i] = op + 1
		}
	}
}

// bytes is the range that the running op wrote.
func (d *drive) bytes() (from, to int64) {
	if d.started == 0 {
		return 0, d.plan.SizeAfter(0)
	}
	e := d.plan.Op(int(d.started))
	return e.Offset, e.End()
}

// data writes what the running op wrote.
func (d *drive) data(t *rapid.T) {
	from, to := d.extent()
	if from == to {
		t.Skip("no data")
	}
	d.put(t, from, to)
}

// any writes any sectors.
func (d *drive) any(t *rapid.T) {
	n := int64(len(d.file) / sector)
	from := rapid.Int64Range(0, n-1).Draw(t, "from")
	d.put(t, from, rapid.Int64Range(from+1, n).Draw(t, "to"))
}

// stale writes sectors as they were before.
func (d *drive) stale(t *rapid.T) {
	if d.old == nil {
		t.Skip("nothing remembered")
	}
	file, ops := d.file, d.ops
	d.file, d.ops = d.old, d.oldOps
	d.any(t)
	d.file, d.ops = file, ops
}

func (d *drive) put(t *rapid.T, from, to int64) {
	fua := rapid.Bool().Draw(t, "fua")
	n := d.sectors(from, to, fua, fua && rapid.Bool().Draw(t, "ignored"))
	d.pending = append(d.pending, n)
	d.held[n] = held{from: from * sector, ops: slices.Clone(d.ops[from*sector : to*sector])}
}

// flush arrives, and will cover what has been answered by now, of one disk or of both: the
// file reaches from one into the other.
func (d *drive) flush(t *rapid.T) {
	from, to := int64(0), int64(len(d.file))
	middle := to / 2 / sector * sector
	e := blocklog.Event{Op: blocklog.Flush, NoEffect: rapid.IntRange(0, 3).Draw(t, "ignored") == 0}
	switch rapid.IntRange(0, 3).Draw(t, "disk") {
	case 0:
		to, e.Length = middle, home+middle
	case 1:
		from, e.Offset, e.Length = middle, home+middle, to
	}
	n := d.arrive(e)
	d.pending = append(d.pending, n)
	for w, h := range d.held {
		if h.answered && from <= h.from && h.from+int64(len(h.ops)) <= to {
			d.flushed[n] = append(d.flushed[n], w)
		}
	}
}

// reply answers any request.
func (d *drive) reply(t *rapid.T) {
	if len(d.pending) == 0 {
		t.Skip("nothing to answer")
	}
	i := rapid.IntRange(0, len(d.pending)-1).Draw(t, "which")
	n := d.pending[i]
	d.pending = slices.Delete(d.pending, i, i+1)
	errno := rapid.SampledFrom([]int32{0, 0, 0, 5}).Draw(t, "errno")
	d.story.reply(n, errno)
	e := d.arrived[n-1]
	switch {
	case errno != 0:
	case e.Op == blocklog.Write:
		h := d.held[n]
		h.answered = true
		d.held[n] = h
		if e.FUA && !e.NoEffect {
			d.destage(n)
		}
	case !e.NoEffect:
		for _, w := range d.flushed[n] {
			d.destage(w)
		}
	}
}

// destage makes a write durable.
func (d *drive) destage(n uint64) {
	h := d.held[n]
	for i, op := range h.ops {
		at := h.from + int64(i)
		d.media[at] = max(d.media[at], op)
	}
}
