package workload

import "encoding/binary"

// Content sets buf to what the file holds from offset off on after ops 0..k, in
// order and without a crash: the stamps of each byte's last writer, and zeros
// where nothing was written or the file has ended. The plan must be valid.
func (p Plan) Content(k int, off int64, buf []byte) {
	l := p.Layout()
	end := off + int64(len(buf))
	for at := off; at < end; {
		op, next := l.run(at, k, end)
		part := buf[at-off : next-off]
		if op > 0 || !p.Blank() {
			Fill(part, p.Seed, at, op)
		} else {
			clear(part)
		}
		at = next
	}
	if over := max(off, p.SizeAfter(k)); over < end {
		clear(buf[over-off:])
	}
}

// Digest is a hash of a block's bytes. It tells contents apart that came about by
// themselves; it would not withstand one who makes two alike.
func Digest(block []byte) uint64 {
	h := uint64(len(block)) * 0x9E3779B97F4A7C15
	for ; len(block) >= 8; block = block[8:] {
		h = (h ^ binary.LittleEndian.Uint64(block)) * 0x94D049BB133111EB
		h ^= h >> 29
	}
	for _, c := range block {
		h = (h ^ uint64(c)) * 0x94D049BB133111EB
		h ^= h >> 29
	}
	return h ^ h>>32
}
