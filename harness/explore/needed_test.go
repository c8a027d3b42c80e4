package explore

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/crash"
	"powercut/harness/verdict"
)

// TestAhead: of a journal in two parts only what was read and not looked at is left out,
// and what a guest cannot have looked at is refused.
func TestAhead(t *testing.T) {
	j := journal{extents: []workload.Extent{{Offset: 4096, Length: 2048}, {Offset: 1024, Length: 2048}}, block: 1024}
	read := map[int64]int{0: 1, 5: 1, 20: 2} // neither is the journal's
	for s := int64(8); s < 12; s++ {         // blocks 0 and 1
		read[s] = 1
	}
	for s := int64(2); s < 6; s++ { // blocks 2 and 3
		read[s] = 1
	}
	got, err := j.ahead(read, []uint32{2})
	if want := []int64{4, 5, 10, 11}; err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("read ahead: %v, %v; want sectors %v", got, err, want)
	}
	if got, err := j.ahead(read, []uint32{1, 2, 3}); err != nil || len(got) > 0 {
		t.Errorf("nothing was read ahead: %v, %v", got, err)
	}
	if got, err := (journal{}).ahead(read, nil); err != nil || len(got) > 0 {
		t.Errorf("no journal: %v, %v", got, err)
	}
	delete(read, 4)
	for block, want := range map[uint32]string{2: "", 3: "never read it", 4: "no such block"} {
		_, err := j.ahead(read, []uint32{block})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("block %d: %v, want %q", block, err, want)
		}
	}
}

// TestBlind: where the guest does not know what it looked at, or says what cannot be, all
// that was read is needed, and the reason is told.
func TestBlind(t *testing.T) {
	for want, w := range map[string]*wire.Watched{
		"":              {Looked: []uint32{1}},
		"no kprobes":    {Blind: "no kprobes"},
		"no such block": {Looked: []uint32{9}},
	} {
		c := &checker{subject: &Subject{}, journal: journal{extents: []workload.Extent{{Offset: 4096, Length: 4096}}, block: 1024}}
		o := &outcome{recovery: verdict.Recovery{Class: verdict.Recovered}}
		read := map[int64]int{8: 1, 9: 1, 10: 1, 11: 1, 12: 1, 13: 1} // blocks 0, 1 and 2
		skip, err := c.unneeded(o, w, read, nil)
		if err != nil || (len(skip) == 2) != (want == "") || (o.blind == "") != (want == "") || !strings.Contains(o.blind, want) {
			t.Errorf("%+v: %v is not needed, blind: %q, %v", w, skip, o.blind, err)
		}
	}
}

// fileOf is a checker of a file of 600 bytes, which lies in sectors 0 and 1 of twoWrites.
func fileOf(t *testing.T) (*checker, *exploration, *crash.Hasher) {
	t.Helper()
	l := twoWrites(t)
	base := bytes.NewReader(make([]byte, 8*512))
	h, err := crash.NewHasher(base, l, len(l.Events))
	if err != nil {
		t.Fatal(err)
	}
	contents := newContents(plan(), 60)
	c := &checker{subject: &Subject{Mount: wire.Mount{Type: "ext4"}}, changed: h.Changed, contents: contents, builder: crash.NewBuilder(base, l)}
	return c, &exploration{hasher: h, contents: contents, builder: crash.NewBuilder(base, l)}, h
}

// TestPlain: a block of the file is plain only where each of its sectors was read once,
// lies where the file system says and has the digest that the guest told; then another
// state gets the same outcome but for its bytes.
func TestPlain(t *testing.T) {
	const size = 600
	state := crash.State{Cut: 4}
	held := append(bytes.Repeat([]byte{1}, 512), bytes.Repeat([]byte{2}, size-512)...)
	extents := []wire.Extent{{Logical: 0, Physical: 0, Length: 4096}}
	for name, test := range map[string]struct {
		kind    string
		extents []wire.Extent
		twice   bool
		foreign bool
		failed  bool
		plain   int
	}{
		"plain":                {extents: extents, plain: 1},
		"read twice":           {extents: extents, twice: true},
		"elsewhere":            {extents: []wire.Extent{{Logical: 0, Physical: 1024, Length: 4096}}},
		"nowhere":              {},
		"half of it":           {extents: []wire.Extent{{Logical: 0, Physical: 0, Length: 512}}},
		"other bytes":          {extents: extents, foreign: true},
		"checksums":            {kind: "btrfs", extents: extents},
		"failed to recover":    {extents: extents, failed: true},
		"not where a block is": {extents: []wire.Extent{{Logical: 0, Physical: 100, Length: 4096}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, e, h := fileOf(t)
			if test.kind != "" {
				c.subject.Mount.Type = test.kind
			}
			o := &outcome{recovery: verdict.Recovery{Class: verdict.Recovered}, exists: true, size: size, digests: digests(held)}
			if test.foreign {
				o.digests[0]++
			}
			if test.failed {
				o.recovery.Class = verdict.MountFailed
			}
			read := map[int64]int{0: 1, 1: 1, 5: 1}
			if test.twice {
				read[1] = 2
			}
			image, err := c.builder.Build(state)
			if err != nil {
				t.Fatal(err)
			}
			skip, err := c.unneeded(o, &wire.Watched{Extents: test.extents}, read, image.Media)
			if err != nil || len(o.plain) != test.plain || len(skip) != 2*test.plain {
				t.Fatalf("%d plain blocks, %v is not needed, %v", len(o.plain), skip, err)
			}
			if test.plain == 0 {
				return
			}
			x := newIndex()
			content, err := h.Hash(state)
			if err != nil {
				t.Fatal(err)
			}
			o.finish()
			x.add(content, o, h, h.Snapshot())
			for text, want := range map[string][]byte{
				"4":             held,
				"4 without 1":   append(make([]byte, 512), held[512:]...),
				"4 without 2":   append(bytes.Clone(held[:512]), make([]byte, size-512)...),
				"4 without 1-2": make([]byte, size),
			} {
				s, err := crash.ParseState(text)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if _, err := h.Hash(s); err != nil {
						t.Fatal(err)
					}
					got, err := e.fit(s, x.pruned(h))
					if err != nil {
						t.Fatal(err)
					}
					if left := e.contents.missing(got.digests, size); len(left) > 0 || !bytes.Equal(e.contents.bytes(got.digests, size), want) {
						t.Errorf("state %q: other bytes, or unknown blocks %v", text, left)
					}
					if (got.key == o.key) != (text == "4") {
						t.Errorf("state %q: outcome %x, that of the checked one is %x", text, got.key, o.key)
					}
				}
			}
		})
	}
}
