package explore

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/nbd"
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
// fetched, and comes back byte for byte; what it held after some op is never fetched.
func TestContents(t *testing.T) {
	p := plan()
	rapid.Check(t, func(t *rapid.T) {
		c := newContents(p, p.Count)
		file := make([]byte, rapid.IntRange(0, int(p.Size)).Draw(t, "size"))
		k := rapid.IntRange(0, p.Count).Draw(t, "op")
		p.Content(k, 0, file)
		sizes := int64(len(file))
		if sizes == p.Size {
			if got := c.missing(digests(file), sizes); len(got) > 0 {
				t.Fatalf("after op %d blocks %v are to be fetched", k, got)
			}
		}
		if len(file) > 0 && rapid.Bool().Draw(t, "spoil") {
			file[rapid.IntRange(0, len(file)-1).Draw(t, "where")] ^= 0x5a
		}
		d := digests(file)
		for _, b := range c.missing(d, sizes) {
			c.add(file[b*blockSize:][:length(b, sizes)])
		}
		if again := c.missing(d, sizes); len(again) > 0 {
			t.Fatalf("blocks %v are still unknown", again)
		}
		if got := c.bytes(d, sizes); !bytes.Equal(got, file) {
			t.Fatal("another file came back")
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
		got, _, err := d.seen()
		if err != nil || len(got) != len(read) {
			t.Fatalf("read %v, %v; want %v", got, err, read)
		}
		for s := range read {
			if got[s] != read[s] {
				t.Fatalf("sector %d was read %d times, want %d", s, got[s], read[s])
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
	if _, err := OpenStore(path, "this", true); err == nil || !strings.Contains(err.Error(), "nothing to resume") {
		t.Errorf("resume of nothing: %v", err)
	}
	s, err := OpenStore(path, "this", false)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3) {
		o := &outcome{recovery: verdict.Recovery{Class: verdict.Recovered}, exists: true, digests: []uint64{n}}
		o.needed, o.hash = []int32{1, 2, 3, 7}, n
		o.plain = []plain{{block: 0, length: 600, places: []int64{5, 4}, sectors: []int32{5, 4}, held: 9}}
		if err := s.add(n, o); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(path, "this", true)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if len(again.old) != 2 || again.old[1].Digests[0] != 1 || !again.old[1].Exists {
		t.Errorf("kept: %+v", again.old)
	}
	o := again.old[1].outcome(func(offset, _ int64) []int32 { return []int32{int32(offset / 512)} })
	p := o.plain[0]
	if o.hash != 1 || !slices.Equal(o.needed, []int32{1, 2, 3, 7}) || p.held != 9 || p.length != 600 || !slices.Equal(p.places, []int64{5, 4}) || !slices.Equal(p.sectors, []int32{5, 4}) {
		t.Errorf("kept: %+v", o)
	}
	if _, err := OpenStore(path, "another", true); err == nil || !strings.Contains(err.Error(), "of another recording") {
		t.Errorf("resume of another subject: %v", err)
	}
}
