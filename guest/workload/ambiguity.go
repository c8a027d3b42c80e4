package workload

import "fmt"

// Generations is how far back a plan's stamps must tell one op from another.
//
// A single byte has 254 values for ops, so two ops of one location whose numbers
// are congruent modulo the prime of its lane write the same byte there. Were the
// earlier one the next older content, the loss of the later one could not be
// seen. Hence Validate refuses a plan in which two ops that share bytes and are
// fewer than Generations writes of that location apart would agree on all the
// bytes which they share in some sector: then nothing a drive can lose or keep
// would tell them apart. Ops that share eight bytes in a sector never agree on
// all of them, and ops that go round the file a number of times agree only where
// the round is a multiple of a prime, or after 211 rounds or more.
//
// Further back equal stamps are allowed, and it is for the judge to accuse
// nobody as long as one reading of a byte is innocent. What can be missed then
// is a location that went back by an exact multiple of 211 to 251 generations, in a
// plan of fewer than eight bytes a sector.
const Generations = 128

// sector is the unit in which a drive keeps or loses what was written, in bytes.
const sector = 512

// validStamps refuses a plan in which stamps would hide the loss of an op.
func (p Plan) validStamps() error {
	if p.Kind == Append {
		return nil // ops that overlap are neighbours: all of the nearest 210 differ
	}
	l := p.Layout()
	for _, prime := range primes {
		for d := int(prime); d < p.Count; d += int(prime) {
			if !l.alike(d) || l.generations(d) >= Generations {
				continue
			}
			return fmt.Errorf("size: ops %d apart write the same stamps at one location, so that a loss could not be seen; choose a size for which the ops of one round, now %d, are no multiple of %d",
				d, l.slots, prime)
		}
	}
	return nil
}

// shift is how many bytes op 1+d begins after op 1, and op k+d after op k where
// they overlap. It is never the other way round: op 1 begins at 0, so op 1+d
// would not fit before the file's end.
func (l Layout) shift(d int) int64 {
	return int64(d) % l.slots * l.step % l.slots * l.grid
}

// alike tells whether two ops that are d apart can share bytes of a sector
// without any that tells them apart.
func (l Layout) alike(d int) bool {
	shared := l.bytes - l.shift(d)
	if shared <= 0 {
		return false
	}
	every, _ := euclid(l.grid, sector)
	for start := int64(0); start < sector; start += every {
		end := start + shared
		if same(d, start, min(end, sector)) || end > sector && end%sector != 0 && same(d, 0, end%sector) {
			return true
		}
	}
	return false
}

// same tells whether ops that are d apart have equal stamps in each of the bytes
// from offset from up to to.
func same(d int, from, to int64) bool {
	if to-from >= int64(len(primes)) {
		return false // d is below their product
	}
	for off := from; off < to; off++ {
		if uint64(d)%primes[off&7] != 0 {
			return false
		}
	}
	return true
}

// generations counts the writes from after op k up to op k+d at the first byte
// that both write, but no further than Generations. That byte has the fewest: an
// op that writes it writes those after it too, up to the end of op k.
func (l Layout) generations(d int) (n int) {
	first := l.shift(d)
	for i := 1; i <= d && n < Generations; i++ {
		if l.shift(i) <= first {
			n++
		}
	}
	return n
}
