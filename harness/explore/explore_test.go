package explore

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/nbd"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

func plan() workload.Plan {
	return workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 10000, Count: 60, Bytes: 300, Stride: 500, Call: workload.Fsync, Seed: 7}
}

// digests are those of a file's blocks.
func digests(file []byte) (out []uint64) {
	for len(file) > 0 {
		n := min(blockSize, len(file))
		out, file = append(out, workload.Digest(file[:n])), file[n:]
	}
	return out
}

// TestContents: whatever a file holds, it is known once what nobody can derive was
// fetched, and comes back byte for byte; what it held after some op, and zeros, are never fetched.
func TestContents(t *testing.T) {
	p := plan()
	rapid.Check(t, func(t *rapid.T) {
		c := newContents(p, p.Count)
		file := make([]byte, rapid.IntRange(0, int(p.Size)).Draw(t, "size"))
		k := rapid.IntRange(0, p.Count).Draw(t, "op")
		p.Content(k, 0, file)
		sizes := int64(len(file))
		if rapid.Bool().Draw(t, "zeros") {
			clear(file[:len(file)/blockSize*blockSize])
		}
		if f, unknown := c.file(digests(file), sizes); len(unknown) > 0 || !f.planned() {
			t.Fatalf("after op %d blocks %v are to be fetched", k, unknown)
		}
		if len(file) > 0 && rapid.Bool().Draw(t, "spoil") {
			file[rapid.IntRange(0, len(file)-1).Draw(t, "where")] ^= 0x5a
			copy(file[len(file)/2:], file) // of what is foreign some is there twice
		}
		d := digests(file)
		first, unknown := c.file(d, sizes)
		for _, b := range unknown {
			c.add(file[b*blockSize:][:length(b, sizes)])
		}
		f, again := c.file(d, sizes)
		if len(again) > 0 || !slices.Equal(f.rows, first.rows) {
			t.Fatalf("blocks %v are still unknown, rows %v, and before %v", again, f.rows, first.rows)
		}
		if got := all(c.view(f)); !bytes.Equal(got, file) {
			t.Fatal("another file came back")
		}
		from := rapid.IntRange(0, len(file)).Draw(t, "from")
		to := rapid.IntRange(from, len(file)).Draw(t, "to")
		if v := c.view(f); from < to && !bytes.Equal(v.Range(int64(from), int64(to)), file[from:to]) {
			t.Fatalf("other bytes from %d up to %d", from, to)
		}
	})
}

// all is the whole of a file.
func all(v *view) (b []byte) {
	for from := int64(0); from < v.Size(); from += verdict.MaxRange {
		b = append(b, v.Range(from, min(v.Size(), from+verdict.MaxRange))...)
	}
	return b
}

// TestFile: a file that is put together of parts of others is that which is made at once.
func TestFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string, n int) (f file, list []int) {
			f.size = int64(n) * blockSize
			for i := range n {
				list = append(list, rapid.IntRange(0, 2).Draw(t, label))
				f.add(row{First: int64(i), Op: list[i]})
			}
			return f, list
		}
		n := rapid.IntRange(1, 20).Draw(t, "blocks")
		a, as := draw("one", n)
		b, bs := draw("other", n)
		from := rapid.IntRange(0, n).Draw(t, "from")
		to := rapid.IntRange(from, n).Draw(t, "to")
		got, want := file{size: a.size}, file{size: a.size}
		got.addFrom(a, 0, int64(from))
		got.addFrom(b, int64(from), int64(to))
		got.addFrom(a, int64(to), int64(n))
		for i, op := range slices.Concat(as[:from], bs[from:to], as[to:]) {
			want.add(row{First: int64(i), Op: op})
		}
		if !slices.Equal(got.rows, want.rows) {
			t.Fatalf("%v up to %d, then %v up to %d: %v, want %v", a.rows, from, b.rows, to, got.rows, want.rows)
		}
	})
}

// TestLargeFile: of a file of a GiB in which one block is not as it should be, next to nothing
// is kept, and its judge finds the one byte that is wrong, without the file in memory.
func TestLargeFile(t *testing.T) {
	const at, most = 700_000_001, 8 << 20
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 1 << 30, Count: 50, Bytes: 1, Stride: 512, Allocate: workload.Sparse, Call: workload.Fsync, Seed: 7}
	c := newContents(p, p.Count)
	told, buf := make([]uint64, p.Size/blockSize), make([]byte, blockSize)
	for i := range told {
		told[i] = zeroDigest
		if block := int64(i); len(c.writers[block]) > 0 || block == at/blockSize {
			p.Content(p.Count, block*blockSize, buf)
			if block == at/blockSize {
				buf[at%blockSize] = 0x5a
			}
			told[i] = workload.Digest(buf)
		}
	}
	h := verdict.History{Plan: p, Started: uint64(p.Count)}
	for k := range p.Count + 1 {
		h.Records = append(h.Records, ledger.Record{Op: uint64(k), Synced: true})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, unknown := c.file(told, p.Size)
	if want := []int64{at / blockSize}; !slices.Equal(unknown, want) || len(f.rows) > 12 {
		t.Fatalf("blocks %v are to be fetched, want %v; rows %v", unknown, want, f.rows)
	}
	block := make([]byte, blockSize)
	block[at%blockSize] = 0x5a
	c.add(block)
	o := &outcome{exists: true, size: p.Size, file: f}
	r := verdict.Judge(h, o.survivors(c))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("%d bytes of memory were taken, at most %d are for a file of any size", took, most)
	}
	if r.Stray == nil || r.Stray.Extent != (workload.Extent{Offset: at, Length: 1}) || r.Counts.Kept != p.Count {
		t.Errorf("stray %+v, counts %+v", r.Stray, r.Counts)
	}
}

// TestTally: it counts as a map does.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got, want := tally{}, map[int64]int{}
		places := rapid.SampledFrom([]int64{0, 1, 2, 5, tallied - 1, tallied, tallied + 1, 3*tallied - 1, 3 * tallied})
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			from := places.Draw(t, "from")
			to := max(from, places.Draw(t, "to"))
			if rapid.IntRange(0, 4).Draw(t, "forget") == 0 {
				got.forget(from, to)
				maps.DeleteFunc(want, func(s int64, _ int) bool { return from <= s && s < to })
			} else {
				got.count(from)
				want[from]++
			}
			every, once := true, true
			for s := from; s < to; s++ {
				every, once = every && want[s] > 0, once && want[s] == 1
			}
			if got.all(from, to, false) != every || got.all(from, to, true) != once {
				t.Fatalf("from %d up to %d: all were read: %v, once: %v; want %v, %v", from, to, got.all(from, to, false), got.all(from, to, true), every, once)
			}
		}
		var sectors []int64
		for from, to := range got.rows() {
			for ; from < to; from++ {
				sectors = append(sectors, from)
			}
		}
		if !slices.Equal(sectors, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("sectors %v, want %v", sectors, want)
		}
	})
}

// TestDrive: reads see what was written since the state was put in, and else the state;
// only sectors of the state itself count as read.
func TestDrive(t *testing.T) {
	const size = 16 * 512
	rapid.Check(t, func(t *rapid.T) {
		model := make([]byte, size)
		for i := range model {
			model[i] = byte(rand.Uint32())
		}
		d := newDrive(size)
		d.put(bytes.NewReader(bytes.Clone(model)))
		read, written := map[int64]int{}, map[int64]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			from := rapid.Int64Range(0, 15).Draw(t, "from")
			n := rapid.Int64Range(1, 16-from).Draw(t, "sectors")
			r := &nbd.Request{
				Command: rapid.SampledFrom([]nbd.Command{nbd.Read, nbd.Write, nbd.Trim, nbd.Flush}).Draw(t, "command"),
				Offset:  from * 512, Length: int(n * 512), Data: bytes.Repeat([]byte{byte(n)}, int(n*512)),
			}
			answered := false
			d.Submit(r, func(err error) { answered = err == nil })
			if !answered {
				t.Fatal("no answer")
			}
			part := model[from*512 : (from+n)*512]
			for s := from; s < from+n; s++ {
				switch {
				case r.Command == nbd.Read && !written[s]:
					read[s]++
				case r.Command == nbd.Write || r.Command == nbd.Trim:
					written[s] = true
				}
			}
			switch r.Command {
			case nbd.Write:
				copy(part, r.Data)
			case nbd.Trim:
				clear(part)
			case nbd.Read:
				if !bytes.Equal(part, r.Data) {
					t.Fatalf("read at %d: other bytes", from)
				}
			}
		}
		got, err := d.seen()
		if err != nil {
			t.Fatal(err)
		}
		for s := range int64(16) {
			if got.all(s, s+1, false) != (read[s] > 0) || got.all(s, s+1, true) != (read[s] == 1) {
				t.Fatalf("sector %d was read %d times, and that is not what was seen", s, read[s])
			}
		}
		d.Close()
		d.Submit(&nbd.Request{Command: nbd.Flush}, func(error) { t.Fatal("a closed drive answers") })
	})
}

// twoWrites is a log in which sectors 0 and 1 are written, volatile.
func twoWrites(t *testing.T) *blocklog.Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	w, err := blocklog.Create(path, 8*512)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		e := blocklog.Event{Kind: blocklog.Arrive, Request: uint64(n + 1), Op: blocklog.Write, Offset: int64(n) * 512, Length: 512}
		for _, e.Kind = range []blocklog.Kind{blocklog.Arrive, blocklog.Reply} {
			var payload []byte
			if e.Kind == blocklog.Arrive {
				payload = bytes.Repeat([]byte{byte(n + 1)}, 512)
			}
			if err := w.Append(&e, payload); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := blocklog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestIndex: a state is pruned if, and only if, it agrees with a checked one on what
// was read of that.
// TestTrees: two finds are one where they differ in what no op has set.
func TestTrees(t *testing.T) {
	list, err := ops.Parse("utimes a 1000")
	if err != nil {
		t.Fatal(err)
	}
	x := newTrees([]ops.Op{list})
	find := func(own, dir, file int64, data string) *promise.Found {
		return &promise.Found{Tree: &inspect.Tree{Data: []byte(data), Objects: []inspect.Object{
			{Path: ".", Mtime: dir}, {Path: "lost+found", Mtime: own}, {Path: "a", Mtime: file},
		}}}
	}
	first := find(1, 2, 1000e9, "x")
	for i, c := range []struct {
		found *promise.Found
		same  bool
	}{{first, true}, {find(7, 8, 1000e9, "x"), true}, {find(1, 2, 0, "x"), false}, {find(1, 2, 1000e9, "y"), false}} {
		o := &outcome{}
		if x.keep(o, c.found); (o.tree == first) != c.same {
			t.Errorf("find %d: the same as the first: %t", i, !c.same)
		}
	}
}

func TestIndex(t *testing.T) {
	l := twoWrites(t)
	h, err := crash.NewHasher(bytes.NewReader(make([]byte, 8*512)), l, len(l.Events))
	if err != nil {
		t.Fatal(err)
	}
	hash := func(text string) uint64 {
		s, err := crash.ParseState(text)
		if err != nil {
			t.Fatal(err)
		}
		n, err := h.Hash(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	x := newIndex()
	content := hash("4 without 1")
	o := &outcome{needed: h.Changed(0, 512)} // sector 0 alone, which is as in the base
	o.finish()
	x.add(content, o, h, h.Snapshot())
	for text, want := range map[string]bool{"4 without 1": true, "4 without 1-2": true, "4": false, "4 without 2": false, "0": true} {
		hash(text)
		if got := x.pruned(h) == o; got != want {
			t.Errorf("state %q is pruned: %v, want %v", text, got, want)
		}
	}
}

// TestStore: what was kept is there again, a torn last line is not, and what is of
// another subject is refused.
func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept")
	s, err := OpenStore(path, "this", false, true) // an exploration that did not come so far
	if err != nil || len(s.old) != 0 {
		t.Fatalf("%v, %v", s, err)
	}
	needed, places := []crash.Row{{From: 1, To: 4}, {From: 7, To: 8}}, []workload.Extent{{Offset: 5 * 512, Length: 512}, {Offset: 4 * 512, Length: 512}}
	changed := func(offset, _ int64) []crash.Row {
		return []crash.Row{{From: int32(offset / 512), To: int32(offset/512) + 1}}
	}
	for n := range uint64(3) {
		o := &outcome{recovery: verdict.Recovery{Class: verdict.Recovered}, exists: true, size: 600, file: file{size: 600, rows: []row{{Op: int(n)}}}}
		o.needed, o.hash = needed, n
		o.plain = []plain{{block: 0, length: 600, places: places, sectors: sectorsOf(places, changed), held: 9}}
		if err := s.add(n, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.add(7, &outcome{file: file{rows: []row{{Op: fetched, digest: 8}}}}); err != nil { // is not kept
		t.Fatal(err)
	}
	s.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(path, "this", false, true)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if len(again.old) != 2 || !again.old[1].Exists {
		t.Errorf("kept: %+v", again.old)
	}
	o := again.old[1].outcome(1000, newTrees(nil), changed)
	p := o.plain[0]
	if o.hash != 1 || o.file.size != 600 || !slices.Equal(o.file.rows, []row{{Op: 1}}) || !slices.Equal(o.needed, needed) ||
		p.held != 9 || p.length != 600 || !slices.Equal(p.places, places) || !slices.Equal(p.sectors, sectorsOf(places, changed)) {
		t.Errorf("kept: %+v", o)
	}
	if _, err := OpenStore(path, "another", false, true); err == nil || !strings.Contains(err.Error(), "of another recording") {
		t.Errorf("resume of another subject: %v", err)
	}
	if _, err := OpenStore(path, "this", true, true); !errors.Is(err, ErrFsck) {
		t.Errorf("resume with a second opinion: %v", err)
	}
}
