package crash

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
)

func TestStateText(t *testing.T) {
	for _, c := range []struct {
		text  string
		state State
	}{
		{"0", State{}},
		{"57", State{Cut: 57}},
		{"57 without 21", State{57, []Loss{{Request: 21}}}},
		{"57 without 21-24,26", State{57, []Loss{{Request: 21}, {Request: 22}, {Request: 23}, {Request: 24}, {Request: 26}}}},
		{"57 without 21,22[1],23-24", State{57, []Loss{{Request: 21}, {22, []int64{1}}, {Request: 23}, {Request: 24}}}},
		{"9 without 3[0-2,5]", State{9, []Loss{{3, []int64{0, 1, 2, 5}}}}},
	} {
		if got := c.state.String(); got != c.text {
			t.Errorf("%+v has the text %q, want %q", c.state, got, c.text)
		}
		if got, err := ParseState(c.text); err != nil || !got.Equal(c.state) {
			t.Errorf("%q is read as %+v, %v; want %+v", c.text, got, err, c.state)
		}
	}
}

func TestBadStateText(t *testing.T) {
	for _, text := range []string{
		"", "x", "-1", "57 ", "57 without", "57 without ", "57 without 0", "57 without 2,1", "57 without 2,2", "57 without 3-1",
		"57 without 1-2[3]", "57 without 1[", "57 without 1[]", "57 without 1[2", "57 without 1[3,2]", "57 without 1]", "57 without 1,", "57 without 1-9999999999",
		"99999999999",
	} {
		if s, err := ParseState(text); err == nil {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
}

// TestStateTextOfAny: what is written is read as the same.
func TestStateTextOfAny(t *testing.T) {
	ascending := func(t *rapid.T, label string, least int64) []int64 {
		list := rapid.SliceOfNDistinct(rapid.Int64Range(least, 40), 1, 12, rapid.ID).Draw(t, label)
		slices.Sort(list)
		return list
	}
	rapid.Check(t, func(t *rapid.T) {
		s := State{Cut: rapid.IntRange(0, 1000).Draw(t, "cut")}
		if rapid.Bool().Draw(t, "some") {
			for _, n := range ascending(t, "requests", 1) {
				m := Loss{Request: uint64(n)}
				if rapid.Bool().Draw(t, "in part") {
					m.Sectors = ascending(t, "sectors", 0)
				}
				s.Missing = append(s.Missing, m)
			}
		}
		if got, err := ParseState(s.String()); err != nil || !got.Equal(s) {
			t.Fatalf("%+v is written %q and read %+v, %v", s, s, got, err)
		}
	})
}

func FuzzParseState(f *testing.F) {
	f.Add("57 without 21-24,30[0-2,5]")
	f.Add("57")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseState(text)
		if err != nil {
			return
		}
		if again, err := ParseState(s.String()); err != nil || !again.Equal(s) {
			t.Fatalf("%q is read as %+v, and its text %q as %+v, %v", text, s, s.String(), again, err)
		}
	})
}

// TestBuildRefuses: what is missing must have been volatile, and there.
func TestBuildRefuses(t *testing.T) {
	l := record(t, t.TempDir(), "w0", "f", "w1", "e2")
	defer l.Close()
	for text, want := range map[string]string{
		"8 without 1":    "request 1 is no volatile write at position 8",
		"8 without 2":    "request 2 is no volatile write",
		"8 without 4":    "request 4 is no volatile write",
		"4 without 3":    "request 3 is no volatile write at position 4",
		"8 without 3[1]": "request 3 has 1 sectors, and no sector 1",
		"9":              "the cut is at 9, the log has 8 events",
	} {
		s, err := ParseState(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewBuilder(base, l).Build(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// someLog records steps that do all that a drive can.
func someLog(t *rapid.T, most int) *blocklog.Log {
	steps := rapid.SliceOfN(rapid.SampledFrom([]string{
		"w0", "w1", "w2", "w7", "w0>", "w1>", "<?", "W0", "W2>", "f", "f>", "F", "l", "l>", "r", "r>", "R", "e1", "t0", "t1>", "m3", "m5>", "z2", "a", "a", "d?",
	}), 1, most).Draw(t, "steps")
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := record(t, dir, possible(steps)...)
	t.Cleanup(func() { l.Close() })
	return l
}

// possible makes steps of which each is possible: "<?" answers what is open, if any
// is, and "d?" is a destage of the last plain write that was not destaged.
func possible(steps []string) (out []string) {
	n, open, last := 0, 0, 0
	for _, s := range steps {
		switch {
		case s == "<?":
			if open > 0 {
				out, open = append(out, "<"), open-1
			}
			continue
		case s == "d?":
			if last > 0 && last <= 9 {
				out, last = append(out, fmt.Sprintf("d%d", last)), 0
			}
			continue
		case s != "a":
			n++
		}
		if strings.HasSuffix(s, ">") {
			open++
		} else if s[0] == 'w' {
			last = n
		}
		out = append(out, s)
	}
	return out
}

// volatileAt says by the words of the fault model, and not by those of timeline,
// which requests are volatile at a cut.
func volatileAt(l *blocklog.Log, cut int) map[uint64]bool {
	out := map[uint64]bool{}
	for i, a := range l.Events[:cut] {
		if a.Kind != blocklog.Arrive || a.Errno != 0 || a.Op == blocklog.Read || a.Op == blocklog.Flush {
			continue
		}
		out[a.Request] = !durableAt(l, cut, i)
	}
	return out
}

func durableAt(l *blocklog.Log, cut, arrive int) bool {
	a := l.Events[arrive]
	answered := -1
	for i, e := range l.Events[:cut] {
		switch {
		case e.Request == a.Request && e.Kind == blocklog.Reply && e.Errno == 0:
			answered = i
			if (e.FUA || e.Through) && !e.NoEffect {
				return true
			}
		case e.Request == a.Request && e.Kind == blocklog.Destage:
			return true
		}
	}
	for i, f := range l.Events[:cut] {
		if answered < 0 || f.Op != blocklog.Flush || f.Kind != blocklog.Arrive || i < answered {
			continue
		}
		if f.Length > 0 && (a.Offset < f.Offset || a.Offset+a.Length > f.Offset+f.Length) {
			continue // of the other disk
		}
		for _, r := range l.Events[i:cut] {
			if r.Kind == blocklog.Reply && r.Request == f.Request && r.Errno == 0 && !r.NoEffect {
				return true
			}
		}
	}
	return false
}

// contentOf builds a state byte by byte. It fails where the fault model does not
// allow the state.
func contentOf(t fataler, l *blocklog.Log, s State) string {
	volatile := volatileAt(l, s.Cut)
	missing := map[uint64]Loss{}
	for _, m := range s.Missing {
		if !volatile[m.Request] {
			t.Fatal(fmt.Sprintf("state %q lacks a request that is not volatile", s))
		}
		missing[m.Request] = m
	}
	out := bytes.Repeat([]byte("0"), size/disk.SectorSize)
	for _, e := range l.Events[:s.Cut] {
		if _, ok := volatile[e.Request]; !ok || e.Kind != blocklog.Arrive {
			continue
		}
		m, some := missing[e.Request]
		for i := range e.Length / disk.SectorSize {
			at := i * disk.SectorSize
			if some && (len(m.Sectors) == 0 || slices.Contains(m.Sectors, i)) || e.Spoil.Kind != 0 && at >= e.Spoil.From && at < e.Spoil.To {
				continue
			}
			out[e.Offset/disk.SectorSize+i] = '0'
			if e.Op == blocklog.Write {
				out[e.Offset/disk.SectorSize+i] += byte(e.Request)
			}
		}
	}
	return string(out)
}

// TestStates: each state that States gives is allowed and is given once; built one
// after the other, anew, or byte by byte its content is the same; hashes differ where
// content does, over all sectors and over any of them; and all of it follows from the
// seed.
func TestStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := someLog(t, 16)
		seed := rapid.Uint64().Draw(t, "seed")
		end := rapid.IntRange(0, len(l.Events)).Draw(t, "end")
		going, err := NewHasher(base, l, end)
		if err != nil {
			t.Fatal(err)
		}
		one := NewBuilder(base, l)
		part := going.Changed(2*disk.SectorSize, 3*disk.SectorSize)
		selections := []*Selection{going.Select(part)}
		texts := map[string]bool{}
		hashes, parts := map[string]uint64{}, map[string]uint64{}
		var order []string
		for s := range States(l, end, seed) {
			if s.Cut > end || texts[s.String()] {
				t.Fatalf("state %q is beyond %d, or was given before", s, end)
			}
			texts[s.String()] = true
			order = append(order, s.String())
			want := contentOf(t, l, s)
			for _, b := range []*Builder{one, NewBuilder(base, l)} {
				im, err := b.Build(s)
				if err != nil {
					t.Fatal(err)
				}
				if got := content(t, im); got != want {
					t.Fatalf("state %q has the content %s, want %s", s, got, want)
				}
			}
			h, err := going.Hash(s)
			if err != nil {
				t.Fatal(err)
			}
			agree(t, hashes, want, h)
			agree(t, parts, want[2:5], going.HashOf(nil, part))
			agree(t, parts, want[2:5], going.HashOf(going.Snapshot(), part))
			if len(selections) < 4 { // made at another state it is the same
				selections = append(selections, going.Select(part))
			}
			for _, s := range selections {
				agree(t, parts, want[2:5], going.Selected(s))
			}
		}
		again := order[:0:0]
		for s := range States(l, end, seed) {
			again = append(again, s.String())
		}
		if !slices.Equal(order, again) {
			t.Fatal("the order is another the second time")
		}
	})
}

// agree demands that hashes are equal where, and only where, contents are.
func agree(t *rapid.T, hashes map[string]uint64, content string, h uint64) {
	for c, known := range hashes {
		if (c == content) != (known == h) {
			t.Fatalf("contents %s and %s have hashes %x and %x", c, content, known, h)
		}
	}
	hashes[content] = h
}

// TestStatesAreAll: where few writes are volatile, no subset of them is left out, at
// any position; and at each position of a longer log one of each kind is there.
func TestStatesAreAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := someLog(t, 14)
		given := map[string]bool{}
		for s := range States(l, len(l.Events), 1) {
			given[s.String()] = true
		}
		for cut := range len(l.Events) + 1 {
			var open []uint64
			for request, volatile := range volatileAt(l, cut) {
				if volatile {
					open = append(open, request)
				}
			}
			slices.Sort(open)
			for _, s := range expected(cut, open) {
				if !given[s.String()] {
					t.Fatalf("state %q was not given", s)
				}
			}
		}
	})
}

// expected are states that must be among those of a cut: all subsets of few writes;
// of more those that lack one, have one, or have a beginning.
func expected(cut int, open []uint64) (out []State) {
	lacking := func(in func(i int) bool) {
		s := State{Cut: cut}
		for i, n := range open {
			if in(i) {
				s.Missing = append(s.Missing, Loss{Request: n})
			}
		}
		out = append(out, s)
	}
	if len(open) <= small {
		for set := range 1 << len(open) {
			lacking(func(i int) bool { return set>>i&1 != 0 })
		}
		return out
	}
	for one := range open {
		lacking(func(i int) bool { return i == one })
		lacking(func(i int) bool { return i != one })
		lacking(func(i int) bool { return i >= one })
	}
	lacking(func(int) bool { return false })
	return out
}

// TestMostTellingFirst: first come the acks, each with all that is volatile lost, and
// those of a long log are spread over it.
func TestMostTellingFirst(t *testing.T) {
	var steps []string
	for range 20 {
		steps = append(steps, "w0", "a", "w1")
	}
	l := record(t, t.TempDir(), steps...)
	defer l.Close()
	acks, _, _ := places(l.Events)
	if len(acks) != 21 {
		t.Fatalf("%d places of acks, want 21", len(acks))
	}
	var first []int
	for s := range States(l, len(l.Events), 1) {
		if len(first) == len(acks) {
			break
		}
		if want, _ := Choose(l, s.Cut, Lose, 0); !s.Equal(want) {
			t.Fatalf("state %q is not the one that lacks all", s)
		}
		first = append(first, s.Cut)
	}
	if first[0] != acks[15] || first[1] != acks[7] {
		t.Errorf("the first cuts are %v of %v, want the 16th, then the 8th", first[:2], acks)
	}
	slices.Sort(first)
	if !slices.Equal(first, acks) {
		t.Errorf("the first cuts are %v, want the acks %v", first, acks)
	}
}

// TestSeedDecides: another seed draws other states at random.
func TestSeedDecides(t *testing.T) {
	l := record(t, t.TempDir(), "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7")
	defer l.Close()
	sets := map[string]bool{}
	for seed := range uint64(4) {
		var texts []string
		for s := range States(l, len(l.Events), seed) {
			texts = append(texts, s.String())
		}
		slices.Sort(texts)
		sets[strings.Join(texts, "\n")] = true
	}
	if len(sets) != 4 {
		t.Errorf("4 seeds give %d sets of states", len(sets))
	}
}

// TestUnit: a write is torn at multiples of what the drive writes whole, and at all of
// them, by Choose and by States; without a unit at each sector.
func TestUnit(t *testing.T) {
	for unit, want := range map[int64][]int64{
		0:    {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		4096: {4, 12}, // of a write that begins at byte 2048
	} {
		length := int64(6 << 10)
		if unit > 0 {
			length = 8 << 10
		}
		l := &blocklog.Log{Size: 1 << 20, Unit: unit, Events: []blocklog.Event{
			{Kind: blocklog.Arrive, Request: 1, Op: blocklog.Write, Offset: 2048, Length: length, DataAt: 1},
		}}
		edges := map[int64]bool{}
		look := func(s State) {
			for _, m := range s.Missing {
				m.kept(&l.Events[0], func(from, to int64) { edges[from], edges[to] = true, true })
			}
		}
		for seed := range uint64(200) {
			s, err := Choose(l, 1, Random, seed)
			if err != nil {
				t.Fatal(err)
			}
			look(s)
			for s := range States(l, 1, seed) {
				look(s)
			}
		}
		delete(edges, 0)
		delete(edges, length/disk.SectorSize)
		if got := slices.Sorted(maps.Keys(edges)); !slices.Equal(got, want) {
			t.Errorf("unit %d: torn at sectors %v, want %v", unit, got, want)
		}
	}
}
