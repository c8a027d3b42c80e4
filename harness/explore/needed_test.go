package explore

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/verdict"
)

// TestAhead: of a journal in two parts only what was read and not looked at is left out,
// and what a guest cannot have looked at is refused.
func TestAhead(t *testing.T) {
	j := journal{extents: []workload.Extent{{Offset: 4096, Length: 2048}, {Offset: 1024, Length: 2048}}, block: 1024, first: 1}
	// Blocks 0 and 1 are sectors 8 to 11, blocks 2 and 3 are sectors 2 to 5; 0, 6 and 20 are
	// not the journal's.
	all := []int64{0, 2, 3, 4, 5, 6, 8, 9, 10, 11, 20}
	for name, test := range map[string]struct {
		journal journal
		read    []int64
		looked  []uint32
		left    []int64
		err     string
	}{
		"ahead":         {j, all, []uint32{2}, []int64{0, 2, 3, 6, 8, 9, 20}, ""},
		"nothing ahead": {j, all, []uint32{1, 2, 3}, all, ""},
		"no journal":    {journal{}, all, nil, all, ""},
		"never read":    {j, []int64{2, 3, 5, 8, 9}, []uint32{3}, []int64{2, 3, 5, 8, 9}, "never read it"},
		"half read":     {j, []int64{2, 3, 5, 8, 9}, []uint32{2}, []int64{2, 3, 8, 9}, ""},
		"beyond":        {j, all, []uint32{1, 4}, all, "no such block"},
	} {
		read := tally{}
		for _, s := range test.read {
			read.count(s)
		}
		err := test.journal.ahead(read, test.looked)
		var left []int64
		for from, to := range read.rows() {
			for ; from < to; from++ {
				left = append(left, from)
			}
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || !slices.Equal(left, test.left) {
			t.Errorf("%s: sectors %v, %v; want %v, %q", name, left, err, test.left, test.err)
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
		c := &checker{subject: &Subject{Call: &campaign.PastCall{Plan: plan()}}, journal: journal{extents: []workload.Extent{{Offset: 4096, Length: 4096}}, block: 1024, first: 1}}
		o := &outcome{recovery: verdict.Recovery{Class: verdict.Recovered}}
		read := tally{}
		for s := int64(8); s < 14; s++ { // blocks 0, 1 and 2
			read.count(s)
		}
		err := c.forget(o, nil, w, read, nil)
		if err != nil || read.all(12, 14, false) != (want != "") || !read.all(8, 12, false) || (o.blind == "") != (want == "") || !strings.Contains(o.blind, want) {
			t.Errorf("%+v: needed %v, blind: %q, %v", w, read, o.blind, err)
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
	c := &checker{subject: &Subject{Mount: wire.Mount{Type: "ext4"}, Call: &campaign.PastCall{Plan: plan()}}, changed: h.Changed, contents: contents, builder: crash.NewBuilder(base, l)}
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
			o := &outcome{recovery: verdict.Recovery{Class: verdict.Recovered}, exists: true, size: size}
			told := digests(held)
			if test.foreign {
				told[0]++
			}
			if test.failed {
				o.recovery.Class = verdict.MountFailed
			}
			read := tally{}
			for _, s := range []int64{0, 1, 5} {
				read.count(s)
			}
			if test.twice {
				read.count(1)
			}
			image, err := c.builder.Build(state)
			if err != nil {
				t.Fatal(err)
			}
			err = c.forget(o, told, &wire.Watched{Extents: test.extents}, read, image.Media)
			if err != nil || len(o.plain) != test.plain || read.all(0, 2, false) != (test.plain == 0) || !read.all(5, 6, false) {
				t.Fatalf("%d plain blocks, needed %v, %v", len(o.plain), read, err)
			}
			if test.plain == 0 {
				return
			}
			x := newIndex()
			content, err := h.Hash(state)
			if err != nil {
				t.Fatal(err)
			}
			o.file, _ = c.contents.file(told, size)
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
					if !bytes.Equal(all(e.contents.view(got.file)), want) {
						t.Errorf("state %q: other bytes", text)
					}
					if (got.key == o.key) != (text == "4") {
						t.Errorf("state %q: outcome %x, that of the checked one is %x", text, got.key, o.key)
					}
				}
			}
		})
	}
}

// TestPlains: of a file in many pieces just those blocks are plain whose sectors lie where the
// file system says, were read once and have the digest that was told; and they are read from
// where they lie.
func TestPlains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const sectors = 2048 // of the drive
		media := make([]byte, sectors*512)
		for s := range sectors {
			media[s*512], media[s*512+1] = byte(s), byte(s>>8)
		}
		// The file is laid out in pieces, with holes between some.
		var extents []wire.Extent
		size := int64(0)
		for range rapid.IntRange(1, 6).Draw(t, "pieces") {
			n := 512 * rapid.OneOf(rapid.Int64Range(1, 20), rapid.Just[int64](800)).Draw(t, "sectors")
			at := 512 * rapid.Int64Range(0, sectors-n/512).Draw(t, "at")
			if rapid.IntRange(0, 4).Draw(t, "hole") > 0 {
				extents = append(extents, wire.Extent{Logical: size, Physical: at, Length: n})
			}
			size += n
		}
		size -= rapid.Int64Range(0, 511).Draw(t, "short")
		place := func(sector int64) int64 { // of the file, on the drive
			for _, e := range extents {
				if off := sector * 512; e.Logical <= off && off < e.Logical+e.Length {
					return (e.Physical + off - e.Logical) / 512
				}
			}
			return -1
		}
		times := map[int64]int{}
		read := tally{}
		for s := int64(0); s*512 < size; s++ {
			if at := place(s); at >= 0 {
				times[at]++
				read.count(at)
			}
		}
		for _, s := range rapid.SliceOfN(rapid.Int64Range(0, sectors-1), 0, 3).Draw(t, "read again") {
			times[s]++
			read.count(s)
		}
		var told []uint64
		want := map[int64][]byte{}
		foreign := rapid.SliceOfN(rapid.Int64Range(0, blocks(size)-1), 0, 3).Draw(t, "foreign")
		for block := range blocks(size) {
			var b []byte
			whole, n := true, length(block, size)
			for s := block * 8; s*512 < block*blockSize+n; s++ {
				at := place(s)
				if whole = whole && at >= 0 && times[at] == 1; at >= 0 {
					b = append(b, media[at*512:][:512]...)
				}
			}
			d := uint64(1)
			if whole && !slices.Contains(foreign, block) {
				want[block] = b[:n]
				d = workload.Digest(b[:n])
			}
			told = append(told, d)
		}
		p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: size, Count: 1, Bytes: 1, Call: workload.Fsync}
		c := &checker{
			subject: &Subject{Call: &campaign.PastCall{Plan: p}}, contents: newContents(p, 1),
			changed: func(offset, length int64) []crash.Row {
				return []crash.Row{{From: int32(offset / 512), To: int32((offset + length) / 512)}}
			},
		}
		list, err := c.plains(told, size, extents, read, bytes.NewReader(media))
		if err != nil {
			t.Fatal(err)
		}
		next := int64(0)
		for _, p := range list {
			if p.block < next || p.end() > p.block+maxPlain {
				t.Fatalf("blocks from %d up to %d after %d", p.block, p.end(), next)
			}
			next = p.end()
			err := p.each(bytes.NewReader(media), func(block int64, b []byte) {
				if !bytes.Equal(b, want[block]) {
					t.Fatalf("block %d is not plain, or is not there", block)
				}
				delete(want, block)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(want) > 0 {
			t.Fatalf("%d blocks are plain as well", len(want))
		}
	})
}
