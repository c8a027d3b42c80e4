package workload

// Content sets buf to what the file holds from offset off on after ops 0..k, in
// order and without a crash: the stamps of each byte's last writer, and zeros
// where nothing was written or the file has ended. The plan must be valid.
func (p Plan) Content(k int, off int64, buf []byte) {
	l := p.Layout()
	end := off + int64(len(buf))
	for at := off; at < end; {
		op, next := l.run(at, k, end)
		part := buf[at-off : next-off]
		if op > 0 || p.Kind == Overwrite {
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
