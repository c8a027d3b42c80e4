package trace

import (
	"bytes"
	"slices"
	"testing"

	"powercut/guest/workload"
)

// TestSameContent keeps one version a sector of the same content, the newest first.
func TestSameContent(t *testing.T) {
	c := newContents(appends(1, 100, 1))
	one, two := bytes.Repeat([]byte{1}, sector), bytes.Repeat([]byte{2}, sector)
	c.insert(one, 3, 1)
	if v := c.look(one); c.alone(v) != v || c.look(two) != 0 {
		t.Errorf("one version: %d, other content: %d", v, c.look(two))
	}
	c.insert(one, 4, 2)
	c.insert(one, 5, 3)
	c.insert(one, 4, 9)
	head := c.look(one)
	if v := c.versions[head]; v.sector != 4 || v.op != 9 || c.alone(head) != 0 {
		t.Errorf("newest is %+v", v)
	}
	for s, op := range map[int32]int32{3: 1, 4: 9, 5: 3} {
		if v := c.versions[c.at(head, s)]; v.sector != s || v.op != op {
			t.Errorf("sector %d: %+v", s, v)
		}
	}
	if c.at(head, 6) != 0 || len(c.versions) != 4 {
		t.Errorf("versions %+v", c.versions)
	}
}

// twins returns two sectors of a file that grows by a byte a sector whose
// contents are equal and whose neighbours' are not.
func twins(t *testing.T, p workload.Plan) (a, b int64) {
	for b := int64(2); b < int64(p.Count); b++ {
		for a := int64(1); a < b-1; a++ {
			same := func(d int64) bool {
				return workload.Stamp(p.Seed, (a+d)*sector, int(a+d)+1) == workload.Stamp(p.Seed, (b+d)*sector, int(b+d)+1)
			}
			if same(0) && !same(-1) && !same(1) {
				return a, b
			}
		}
	}
	t.Fatal("no two sectors are alike")
	return 0, 0
}

// TestAmbiguity writes a sector that looks like a newer one, as op n+1 is the one
// that writes sector n.
func TestAmbiguity(t *testing.T) {
	p := appends(1, 200, 3)
	p.Stride = sector
	a, b := twins(t, p)
	s := newStory(t, p).tell("ack")
	for range a + 1 {
		s.begin()
	}
	s.sectors(a, a+1, false, false) // the twin is still to come
	for range b + 1 - a {
		s.begin()
	}
	elsewhere := func(from, to int64) { s.write(64<<20, s.file[from*sector:to*sector], false, false) }
	s.sectors(a, a+1, false, false) // at home
	elsewhere(a, a+1)               // the newest, for want of a better answer
	elsewhere(a-1, a+1)             // after a neighbour
	elsewhere(a, a+2)               // before one
	wantOps := [][]int{{int(a) + 1}, {int(a) + 1}, {int(b) + 1}, {int(a), int(a) + 1}, {int(a) + 1, int(a) + 2}}
	for i, r := range s.read().Requests {
		if !slices.Equal(r.Ops, wantOps[i]) {
			t.Errorf("request %d: ops %v, want %v", i+1, r.Ops, wantOps[i])
		}
	}
}

func TestOpsText(t *testing.T) {
	for want, ops := range map[string][]int{
		"op 7":                 {7},
		"ops 7-8":              {7, 8},
		"ops 0, 4, 9-11":       {0, 4, 9, 10, 11},
		"ops …, 4-5, 7, 9, 11": {0, 2, 4, 5, 7, 9, 11},
		"ops 2, 4, 6, 8":       {2, 4, 6, 8},
	} {
		if got := opsText(ops); got != want {
			t.Errorf("%v: %q, want %q", ops, got, want)
		}
	}
}
