package workload

// Layout answers which ops of a plan write a given byte, by arithmetic: no
// table of ops is needed, and each answer takes logarithmic time.
//
// Every op begins at a multiple of the grid: at one of the slots 0, 1, 2, … of
// which slot i lies at offset i·grid. From op to op the slot advances by step
// modulo slots, so that op k+slots begins where op k does. Step and slots have
// no common factor, and so each slot has its turn once in slots ops.
type Layout struct {
	bytes   int64 // of one op
	grid    int64
	slots   int64
	step    int64 // below slots
	inverse int64 // step·inverse ≡ 1 modulo slots: op 1 + i·inverse mod slots is the first at slot i
}

// Layout works out the plan's layout. The plan must be valid.
func (p Plan) Layout() Layout {
	if p.Kind == Append {
		n := int64(p.Count)
		return Layout{bytes: p.Bytes, grid: p.Stride, slots: n, step: 1 % n, inverse: 1 % n}
	}
	grid, _ := euclid(p.Stride, p.Size)
	slots := p.Size / grid
	step := p.Stride / grid % slots
	_, inverse := euclid(step, slots)
	return Layout{bytes: p.Bytes, grid: grid, slots: slots, step: step, inverse: modulo(inverse, slots)}
}

// Round is the number of ops after which offsets repeat.
func (l Layout) Round() int { return int(l.slots) }

// Last returns the last of the ops from, from-every, from-2·every, … that writes
// the byte at off, or 0 where none of those from 1 on does.
func (l Layout) Last(off int64, from, every int) int {
	if from < 1 {
		return 0
	}
	return max(0, from-every*l.hit(off, from, -int64(every)))
}

// First returns the first of the ops from, from+every, from+2·every, … that
// writes the byte at off, or 0 where none of those up to to does.
func (l Layout) First(off int64, from, every, to int) int {
	if k := from + every*l.hit(off, from, int64(every)); k <= to {
		return k
	}
	return 0
}

// Nearest is the least multiple d of every, above 0, for which two ops k and k+d
// of an endless plan share a byte; 0 where there is none.
func (l Layout) Nearest(every int) int {
	reach := (l.bytes - 1) / l.grid // in slots: ops that are no further apart overlap
	advance := modulo(int64(every)*l.step, l.slots)
	if 2*reach+1 >= l.slots {
		return every
	}
	t := leap(modulo(advance+reach, l.slots), advance, l.slots, 0, 2*reach)
	if t < 0 {
		return 0
	}
	return every * int(t+1)
}

// never is a number of ops that is beyond every plan, yet far from overflow when
// it is multiplied by a prime of Stamp.
const never = 1 << 40

// hit returns the least t ≥ 0 for which op from+t·every writes the byte at off,
// in a plan without beginning or end; never where there is none.
func (l Layout) hit(off int64, from int, every int64) int {
	low := int64(0)
	if off >= l.bytes {
		low = (off-l.bytes)/l.grid + 1
	}
	high := min(off/l.grid, l.slots-1)
	if low > high {
		return never
	}
	start := int64(from-1) % l.slots * l.step % l.slots
	t := leap(start, modulo(every%l.slots*l.step, l.slots), l.slots, low, high)
	if t < 0 {
		return never
	}
	return int(t)
}

// firstBeyond returns the first op that begins above off, 0 where none does.
func (l Layout) firstBeyond(off int64) int {
	low := off/l.grid + 1
	if low >= l.slots {
		return 0
	}
	if t := leap(0, l.step, l.slots, low, l.slots-1); t >= 0 {
		return int(t) + 1
	}
	return 0
}

// run returns the last of the ops 1..k that writes the byte at off, 0 where none
// does, and the offset up to which, but not beyond limit, that answer is the same.
func (l Layout) run(off int64, k int, limit int64) (op int, end int64) {
	op = l.Last(off, k, 1)
	end = limit
	if op > 0 {
		end = min(limit, int64(op-1)%l.slots*l.step%l.slots*l.grid+l.bytes)
	}
	slot := off/l.grid + 1
	if slot >= l.slots {
		return op, end
	}
	turn := slot * l.inverse % l.slots // of the ops, counted from 0
	for ; slot < l.slots && slot*l.grid < end; slot++ {
		// The slot's first op is enough: ops that overlap do not come round, for
		// the one at the last slot would not fit.
		if first := int(turn) + 1; op < first && first <= k {
			return op, slot * l.grid
		}
		if turn += l.inverse; turn >= l.slots {
			turn -= l.slots
		}
	}
	return op, end
}

// leap returns the least t ≥ 0 for which (start + t·step) mod m is in the range
// from low to high, both included and both below m; -1 where there is none. All
// are below 2³¹.
func leap(start, step, m, low, high int64) int64 {
	width := high - low
	low = modulo(low-start, m)
	if low == 0 || low+width >= m {
		return 0
	}
	return leapFromZero(step, m, low, low+width)
}

// leapFromZero is leap from 0 into a range that does not hold 0. Where no
// multiple of the step falls into the range before the first wrap, the wraps
// themselves are a smaller problem of the same form, as in Euclid's algorithm.
func leapFromZero(step, m, low, high int64) int64 {
	if step == 0 {
		return -1
	}
	if 2*step > m { // go the other way round
		step, low, high = m-step, m-high, m-low
	}
	if t := (low + step - 1) / step; t*step <= high {
		return t
	}
	wraps := leapFromZero(m%step, step, modulo(-high, step), modulo(-low, step))
	if wraps < 0 {
		return -1
	}
	return (low + m*wraps + step - 1) / step
}

// euclid returns the greatest common divisor of a and b, and an x with
// a·x ≡ divisor modulo b.
func euclid(a, b int64) (divisor, x int64) {
	x, y := int64(1), int64(0)
	for b != 0 {
		q := a / b
		a, b = b, a-q*b
		x, y = y, x-q*y
	}
	return a, x
}

// modulo is the remainder of a by m that is not negative.
func modulo(a, m int64) int64 {
	if a %= m; a < 0 {
		a += m
	}
	return a
}
