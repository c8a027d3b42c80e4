package vmlinux

import "encoding/binary"

// branchHistory remembers, for the x86 filter, which of the last bytes looked
// like call or jump opcodes that were left alone.
//
// After slide, seen holds one bit for each of the three bytes before the current
// one, the nearest lowest.
type branchHistory struct{ seen uint32 }

// slide moves the history on to a byte n bytes after the one it stands at.
func (h *branchHistory) slide(n int) {
	if n > 3 {
		h.seen = 0
		return
	}
	h.seen = h.seen << (n - 1) & 7
}

// skip notes that the current byte is an opcode that was left alone.
func (h *branchHistory) skip() { h.seen = h.seen<<1 | 1 }

// farthest returns which byte of an operand, counted from its top, the oldest
// opcode in the history has covered.
func (h *branchHistory) farthest() int {
	switch {
	case h.seen == 0:
		return 0
	case h.seen == 1:
		return 1
	case h.seen <= 3:
		return 2
	}
	return 3
}

// doubtful reports whether the history forbids a conversion: the encoder
// converts after at most two skipped opcodes, and not in all patterns.
func (h *branchHistory) doubtful() bool {
	switch h.seen {
	case 0, 1, 2, 4:
		return false
	}
	return true
}

// decodeX86 undoes, in place, the x86 branch filter of the xz format: the
// 32-bit operands of call (E8) and jump (E9) had been made absolute, so that
// equal targets compress well. An operand is one only if its top byte is 00 or
// FF, and the bytes of opcodes that were passed over make it less likely.
func decodeX86(buf []byte) {
	var h branchHistory
	last := -1 // where the history stands
	for i := 0; i+5 <= len(buf); i++ {
		if buf[i]&0xfe != 0xe8 {
			continue
		}
		h.slide(i - last)
		last = i
		if h.seen != 0 && (h.doubtful() || isSign(buf[i+4-h.farthest()])) || !isSign(buf[i+4]) {
			h.skip()
			continue
		}
		operand := buf[i+1 : i+5]
		binary.LittleEndian.PutUint32(operand, relative(binary.LittleEndian.Uint32(operand), uint32(i+5), &h))
		h.seen = 0
		i += 4
		last = i
	}
}

// relative turns the absolute target back into an offset from next, the address
// of the instruction after it. Where a passed-over opcode overlaps the operand
// and the covered byte of the offset looks like an operand's top, the encoder
// had inverted it and added once more. Once is enough: the second subtraction
// yields the inverse of target in that byte, which decodeX86 has found not to
// look like one.
func relative(target, next uint32, h *branchHistory) uint32 {
	offset := target - next
	if h.seen != 0 {
		shift := 8 * h.farthest()
		if isSign(byte(offset >> (24 - shift))) {
			offset = (offset ^ (1<<(32-shift) - 1)) - next
		}
	}
	offset &= 0x01ffffff
	if offset&0x01000000 != 0 {
		offset |= 0xff000000
	}
	return offset
}

// isSign reports whether b can be the top byte of a near operand.
func isSign(b byte) bool { return b == 0x00 || b == 0xff }
