package workload

import (
	"testing"

	"pgregory.net/rapid"
)

// covers tells whether op k writes the byte at off.
func covers(p Plan, k int, off int64) bool {
	e := p.Op(k)
	return e.Offset <= off && off < e.End()
}

func TestLayoutFindsWriters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		l := p.Layout()
		off := rapid.Int64Range(0, p.SizeAfter(p.Count)+5).Draw(t, "off")
		from := rapid.IntRange(1, p.Count).Draw(t, "from")
		every := rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 20), rapid.Just(211)).Draw(t, "every")
		to := rapid.IntRange(from, p.Count).Draw(t, "to")
		last, first := 0, 0
		for k := from; k > 0 && last == 0; k -= every {
			if covers(p, k, off) {
				last = k
			}
		}
		for k := from; k <= to && first == 0; k += every {
			if covers(p, k, off) {
				first = k
			}
		}
		if got := l.Last(off, from, every); got != last {
			t.Fatalf("%+v: last of %d, %d, … at %d is %d, want %d", p, from, from-every, off, got, last)
		}
		if got := l.First(off, from, every, to); got != first {
			t.Fatalf("%+v: first of %d, %d, …, %d at %d is %d, want %d", p, from, from+every, to, off, got, first)
		}
	})
}

func TestNearestIsTheNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		every := rapid.IntRange(1, 30).Draw(t, "every")
		got := p.Layout().Nearest(every)
		for k := 1; k <= p.Count; k++ {
			for d := every; k+d <= p.Count; d += every {
				a, b := p.Op(k), p.Op(k+d)
				if a.Offset < b.End() && b.Offset < a.End() && (got == 0 || got > d) {
					t.Fatalf("%+v: ops %d and %d share bytes, but the nearest multiple of %d is %d", p, k, k+d, every, got)
				}
			}
		}
		if p.Kind == Overwrite && p.Bytes <= p.Layout().grid && got > 0 && p.Op(1) != p.Op(1+got) {
			t.Fatalf("%+v: ops 1 and %d share no byte", p, 1+got)
		}
	})
}

func TestShiftIsTheDistanceOfOpsThatOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		k := rapid.IntRange(1, p.Count).Draw(t, "k")
		for d := 1; k+d <= p.Count && p.Kind == Overwrite; d++ {
			a, b := p.Op(k), p.Op(k+d)
			overlap := a.Offset < b.End() && b.Offset < a.End()
			shift := p.Layout().shift(d)
			if overlap && shift != b.Offset-a.Offset || !overlap && shift < p.Bytes {
				t.Fatalf("%+v: op %d begins %d bytes after op %d, not %d", p, k+d, b.Offset-a.Offset, k, shift)
			}
		}
	})
}

// TestStampsOfValidPlansDiffer is the rule of Generations, by exhaustion: in a
// valid plan, each two writes of one location that are near each other differ in
// a byte of every sector that they share.
func TestStampsOfValidPlansDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		for k := 1; k <= p.Count; k++ {
			for before := k - 211; before > 0; before-- {
				if !congruent(k - before) {
					continue
				}
				a, b := p.Op(before), p.Op(k)
				first, last := max(a.Offset, b.Offset), min(a.End(), b.End())-1
				if first > last || !confused(p, before, k, first, last) {
					continue
				}
				if n := min(writes(p, before, k, first), writes(p, before, k, last)); n < Generations {
					t.Fatalf("%+v: ops %d and %d, %d generations apart, write the same bytes to a sector", p, before, k, n)
				}
			}
		}
	})
}

// congruent tells whether d is a multiple of any prime of Stamp.
func congruent(d int) bool {
	for _, prime := range primes {
		if d%int(prime) == 0 {
			return true
		}
	}
	return false
}

// writes counts the ops from after op a up to op b that write the byte at off.
func writes(p Plan, a, b int, off int64) (n int) {
	for k := a + 1; k <= b; k++ {
		if covers(p, k, off) {
			n++
		}
	}
	return n
}

// confused tells whether two ops write the same bytes to all of a sector that
// they share from offset first to offset last.
func confused(p Plan, a, b int, first, last int64) bool {
	differ := map[int64]bool{}
	for off := first; off <= last; off++ {
		differ[off/sector] = differ[off/sector] || Stamp(p.Seed, off, a) != Stamp(p.Seed, off, b)
	}
	for _, d := range differ {
		if !d {
			return true
		}
	}
	return false
}

func TestLeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.Int64Range(1, 200).Draw(t, "m")
		start, step := rapid.Int64Range(0, m-1).Draw(t, "start"), rapid.Int64Range(0, m-1).Draw(t, "step")
		low := rapid.Int64Range(0, m-1).Draw(t, "low")
		high := rapid.Int64Range(low, m-1).Draw(t, "high")
		want := int64(-1)
		for i := m - 1; i >= 0; i-- {
			if at := (start + i*step) % m; low <= at && at <= high {
				want = i
			}
		}
		if got := leap(start, step, m, low, high); got != want {
			t.Fatalf("leap(%d, %d, %d, %d, %d) = %d, want %d", start, step, m, low, high, got, want)
		}
	})
}
