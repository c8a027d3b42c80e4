package shrink

import (
	"bytes"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/nbd"
)

const size = 16 * disk.SectorSize

var base = bytes.NewReader(make([]byte, size))

// anyLog lets a real drive serve requests, and returns its log.
func anyLog(t *rapid.T) *blocklog.Log {
	dir, err := os.MkdirTemp("", "shrink")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "log")
	w, err := blocklog.Create(path, size)
	if err != nil {
		t.Fatal(err)
	}
	d := disk.New(disk.Config{Base: base, Size: size, Log: w, WriteCache: true, Counts: func() (uint64, uint64) { return 1, 0 }})
	for range rapid.IntRange(1, 40).Draw(t, "requests") {
		r := &nbd.Request{Command: rapid.SampledFrom([]nbd.Command{nbd.Write, nbd.Write, nbd.Write, nbd.Write, nbd.Trim, nbd.Flush}).Draw(t, "command")}
		if r.Command != nbd.Flush {
			sector := rapid.IntRange(0, size/disk.SectorSize-1).Draw(t, "sector")
			r.Offset, r.Length = int64(sector)*disk.SectorSize, disk.SectorSize*rapid.IntRange(1, size/disk.SectorSize-sector).Draw(t, "sectors")
			r.FUA = rapid.IntRange(0, 4).Draw(t, "FUA") == 0
		}
		if r.Command == nbd.Write {
			r.Data = make([]byte, r.Length)
		}
		d.Submit(r, func(error) {})
	}
	d.Close()
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

// anyState draws a state of the log, by any policy, at any cut.
func anyState(t *rapid.T, l *blocklog.Log) crash.State {
	policy := rapid.SampledFrom([]crash.Policy{crash.Lose, crash.Random, crash.Random}).Draw(t, "policy")
	s, err := crash.Choose(l, rapid.IntRange(0, len(l.Events)).Draw(t, "cut"), policy, rapid.Uint64().Draw(t, "seed"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// anyTest draws a notion of failing that the state meets: that some of what it lacks
// is missing after some position, as real failures have it, or one without any order.
func anyTest(t *rapid.T, s crash.State) Test {
	if rapid.Bool().Draw(t, "unordered") {
		salt, odds := rapid.Byte().Draw(t, "salt"), rapid.Uint64Range(1, 5).Draw(t, "odds")
		return func(c crash.State) (bool, error) {
			h := fnv.New64a()
			h.Write(append([]byte(c.String()), salt))
			return c.Equal(s) || h.Sum64()>>20%odds == 0, nil
		}
	}
	var needed []crash.Loss
	for _, m := range s.Missing {
		if rapid.IntRange(0, 2).Draw(t, "needed") == 0 {
			needed = append(needed, m)
		}
	}
	from := rapid.IntRange(0, s.Cut).Draw(t, "from")
	return func(c crash.State) (bool, error) {
		for _, m := range needed {
			if !slices.ContainsFunc(c.Missing, func(o crash.Loss) bool { return o.Request == m.Request && lacks(o, m.Sectors) }) {
				return false, nil
			}
		}
		return c.Cut >= from, nil
	}
}

// lacks tells whether the first of those sectors is missing; of none, anything.
func lacks(m crash.Loss, sectors []int64) bool {
	return len(m.Sectors) == 0 || len(sectors) > 0 && slices.Contains(m.Sectors, sectors[0])
}

// oneStepSmaller lists the states that Result.Minimal speaks of.
func oneStepSmaller(l *blocklog.Log, s crash.State) (out []crash.State) {
	arrived := map[uint64]int{}
	for i, e := range l.Events {
		if e.Kind == blocklog.Arrive {
			arrived[e.Request] = i
		}
	}
	if s.Cut > 0 {
		earlier := crash.State{Cut: s.Cut - 1}
		for _, m := range s.Missing {
			if arrived[m.Request] < earlier.Cut {
				earlier.Missing = append(earlier.Missing, m)
			}
		}
		out = append(out, earlier)
	}
	for i, m := range s.Missing {
		out = append(out, crash.State{Cut: s.Cut, Missing: slices.Delete(slices.Clone(s.Missing), i, i+1)})
		for j := 0; j < len(m.Sectors) && len(m.Sectors) > 1; j++ {
			c := crash.State{Cut: s.Cut, Missing: slices.Clone(s.Missing)}
			c.Missing[i] = crash.Loss{Request: m.Request, Sectors: slices.Delete(slices.Clone(m.Sectors), j, j+1)}
			out = append(out, c)
		}
	}
	return out
}

// TestMinimal: whatever failing means, what comes out fails, and nothing that is one
// step smaller does; each state on the way is one that the log allows, is asked once, and
// is no larger than the first.
func TestMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLog(t)
		first := anyState(t, l)
		test := anyTest(t, first)
		asked := map[string]bool{}
		r, err := Shrink(l, first, 1_000_000, func(s crash.State) (bool, error) {
			if asked[s.String()] {
				t.Fatalf("asked twice for %s", s)
			}
			asked[s.String()] = true
			if _, err := crash.NewBuilder(base, l).Build(s); err != nil {
				t.Fatalf("asked for a state that is none: %v", err)
			}
			if s.Cut > first.Cut || len(s.Missing) > len(first.Missing) {
				t.Fatalf("%s grew to %s", first, s)
			}
			return test(s)
		})
		if err != nil {
			t.Fatal(err)
		}
		if failing, _ := test(r.State); !failing || !r.Minimal || r.Tests != len(asked) {
			t.Fatalf("%s: %+v after %d tests, fails %v", first, r, len(asked), failing)
		}
		for _, s := range oneStepSmaller(l, r.State) {
			if failing, _ := test(s); failing {
				t.Fatalf("%s was shrunk to %s, yet %s fails too", first, r.State, s)
			}
		}
	})
}

// TestLimit: with any limit there is an end, at a state that fails.
func TestLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLog(t)
		first := anyState(t, l)
		test := anyTest(t, first)
		limit, tests := rapid.IntRange(1, 20).Draw(t, "limit"), 0
		r, err := Shrink(l, first, limit, func(s crash.State) (bool, error) { tests++; return test(s) })
		if err != nil {
			t.Fatal(err)
		}
		if failing, _ := test(r.State); !failing || tests > limit || r.Tests != tests {
			t.Fatalf("%+v after %d tests of %d, fails %v", r, tests, limit, failing)
		}
	})
}

// TestNeedle: one write of many, at one cut of many, is found in few tests.
func TestNeedle(t *testing.T) {
	const n = 2000
	l := &blocklog.Log{Size: size}
	s := crash.State{Cut: 2 * n}
	for i := range uint64(n) {
		e := blocklog.Event{Kind: blocklog.Arrive, Op: blocklog.Write, Request: i + 1, Length: disk.SectorSize}
		l.Events = append(l.Events, e)
		e.Kind = blocklog.Reply
		l.Events = append(l.Events, e)
		s.Missing = append(s.Missing, crash.Loss{Request: i + 1})
	}
	r, err := Shrink(l, s, 100, func(s crash.State) (bool, error) {
		return s.Cut >= 2500 && slices.ContainsFunc(s.Missing, func(m crash.Loss) bool { return m.Request == 777 }), nil
	})
	if err != nil || r.State.String() != "2500 without 777" || !r.Minimal {
		t.Errorf("got %+v, %v", r, err)
	}
	t.Logf("%d tests", r.Tests)
}

func TestErrors(t *testing.T) {
	l := &blocklog.Log{Size: size, Events: []blocklog.Event{{Kind: blocklog.Arrive, Op: blocklog.Write, Request: 1, Length: 512}}}
	s := crash.State{Cut: 1, Missing: []crash.Loss{{Request: 1}}}
	if _, err := Shrink(l, s, 10, func(crash.State) (bool, error) { return false, nil }); !errors.Is(err, ErrPasses) {
		t.Errorf("a state that passes: %v", err)
	}
	broken := errors.New("broken")
	r, err := Shrink(l, s, 10, func(c crash.State) (bool, error) {
		if c.Equal(s) {
			return true, nil
		}
		return false, broken
	})
	if !errors.Is(err, broken) || r.Minimal || !r.State.Equal(s) {
		t.Errorf("a test that breaks: %+v, %v", r, err)
	}
}
