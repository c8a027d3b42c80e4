package workload

import "encoding/binary"

// primes are the moduli of the eight byte lanes of Stamp: the lane of a byte is
// its offset modulo 8. They are distinct primes, so that an aligned word of
// eight bytes names its op uniquely (Chinese remainder theorem), and a single
// byte does among 211 or more ops in a row. None is above 254, the number of
// values that Stamp leaves for ops from 1 on.
var primes = [8]uint64{251, 241, 239, 233, 229, 227, 223, 211}

// Stamp is the byte that op writes at offset off of the file. Each location has
// a base byte, a mix of the seed and the offset, from 1 to 255. Op 0 writes the
// base; op k ≥ 1 adds 1 + (k-1) mod the prime of the offset's lane, with
// end-around carry, that is modulo 255 with 255 standing for nought. Hence
//
//   - no stamp is ever 0, the byte of a hole or of a block that was never written;
//   - no op from 1 on has the stamp of op 0;
//   - two ops of one location differ in this byte unless their numbers are
//     congruent modulo that prime.
func Stamp(seed uint64, off int64, op int) byte {
	lane := off & 7
	sum := bases(seed, off>>3)>>(8*lane)&0xff + residue(op, lane)
	if sum > 0xff {
		sum -= 0xff
	}
	return byte(sum)
}

// Writers is the inverse of Stamp: the ops that write the byte v at offset off
// are first, first+step, first+2·step and so on. Step is 0 where op 0 is the
// only one, and first is -1 where no op writes v there.
func Writers(seed uint64, off int64, v byte) (first, step int) {
	lane := off & 7
	r := int(v) - int(bases(seed, off>>3)>>(8*lane)&0xff)
	if r < 0 {
		r += 0xff
	}
	switch prime := int(primes[lane]); {
	case v == 0 || r > prime:
		return -1, 0
	case r == 0:
		return 0, 0
	default:
		return r, prime
	}
}

// residue is what op adds to the base in a lane, from 0 to 251.
func residue(op int, lane int64) uint64 {
	if op == 0 {
		return 0
	}
	return 1 + uint64(op-1)%primes[lane]
}

// Fill sets buf to the stamps of op for the len(buf) bytes from offset off. It
// makes eight at a time: a guest under emulation fills whole files with it.
func Fill(buf []byte, seed uint64, off int64, op int) {
	var r uint64
	for lane := range int64(8) {
		r |= residue(op, lane) << (8 * lane)
	}
	word := off >> 3
	if skip := int(off & 7); skip != 0 {
		var head [8]byte
		binary.LittleEndian.PutUint64(head[:], carry(bases(seed, word), r))
		buf = buf[copy(buf, head[skip:]):]
		word++
	}
	for ; len(buf) >= 8; buf = buf[8:] {
		binary.LittleEndian.PutUint64(buf, carry(bases(seed, word), r))
		word++
	}
	if len(buf) > 0 {
		var tail [8]byte
		binary.LittleEndian.PutUint64(tail[:], carry(bases(seed, word), r))
		copy(buf, tail[:])
	}
}

// highs has the high bit of each of eight bytes.
const highs = 0x8080808080808080

// carry adds the eight bytes of a and b, each with end-around carry. The bytes
// of a are from 1 to 255 and those of b from 0 to 254; so are those of the sum
// from 1 to 255.
func carry(a, b uint64) uint64 {
	sum := a&^highs + b&^highs ^ (a^b)&highs // each byte modulo 256
	out := (a&b | (a|b)&^sum) & highs        // the bytes that overflowed
	return sum + out>>7                      // at most 254 there: no further carry
}

// bases returns the base bytes of the aligned word of eight bytes at offset
// 8·word, the first in the lowest bits: the finaliser of splitmix64 (Steele,
// Lea, Flood, "Fast splittable pseudorandom number generators", 2014), with 1
// in the place of 0.
func bases(seed uint64, word int64) uint64 {
	x := seed + uint64(word)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	x ^= x >> 31
	zero := ^(x&^highs + ^uint64(highs) | x) & highs // the high bit of each byte that is 0
	return x | zero>>7
}
