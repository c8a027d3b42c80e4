package disk

import (
	"fmt"
	"io"

	"powercut/harness/blocklog"
)

// SectorSize is the unit that the media writes whole or not at all, in bytes.
const SectorSize = 512

// pageSectors is the number of sectors that share an entry of Media's table: a
// page of 4096 bytes, the block size of most file systems.
const pageSectors = 8

// ref says where a sector's bytes are.
type ref int64

const (
	inBase ref = 0  // in the base image, at the sector's own offset
	zeros  ref = -1 // nowhere: the sector reads as zeros
	// any other value is a place in data, in bytes
)

// Media is the content of a drive: a base image, and on top of it the sectors
// that were written since. It holds no bytes of its own, only where they lie in
// the block log, so that its cost is some 1.5 % of what was written.
//
// Media is for one goroutine at a time.
type Media struct {
	size  int64
	base  io.ReaderAt
	data  io.ReaderAt
	pages map[int64]*[pageSectors]ref
}

// NewMedia returns a drive of size bytes, a multiple of SectorSize, whose content
// is that of base. Payloads of later writes are found in data.
func NewMedia(size int64, base, data io.ReaderAt) *Media {
	return &Media{size: size, base: base, data: data, pages: map[int64]*[pageSectors]ref{}}
}

// Size is the size in bytes.
func (m *Media) Size() int64 { return m.size }

// Write says that length bytes at offset, both multiples of SectorSize, are now
// those at dataAt of data.
func (m *Media) Write(offset, length, dataAt int64) {
	first := offset / SectorSize
	for i := range length / SectorSize {
		*m.slot(first + i) = ref(dataAt + i*SectorSize)
	}
}

// Zero says that length bytes at offset now read as zeros.
func (m *Media) Zero(offset, length int64) {
	first := offset / SectorSize
	for i := range length / SectorSize {
		*m.slot(first + i) = zeros
	}
}

// Apply brings length bytes, from at on, of a write, trim or write of zeroes onto
// the media, but for what of it never reached the drive. All are multiples of
// SectorSize; e is the request's Arrive.
func (m *Media) Apply(e blocklog.Event, at, length int64) {
	if e.Op != blocklog.Write {
		m.Zero(e.Offset+at, length)
		return
	}
	end := at + length
	if d := e.Spoil; d.Kind == blocklog.Torn {
		if before := min(end, d.From); before > at {
			m.Write(e.Offset+at, before-at, e.DataAt+at)
		}
		at = max(at, min(d.To, end))
	}
	m.Write(e.Offset+at, end-at, e.DataAt+at)
}

// Changed is the number of bytes in pages that were written, an upper bound of
// what differs from the base.
func (m *Media) Changed() int64 { return int64(len(m.pages)) * pageSectors * SectorSize }

func (m *Media) slot(sector int64) *ref {
	p := m.pages[sector/pageSectors]
	if p == nil {
		p = new([pageSectors]ref)
		m.pages[sector/pageSectors] = p
	}
	return &p[sector%pageSectors]
}

func (m *Media) at(sector int64) ref {
	if p := m.pages[sector/pageSectors]; p != nil {
		return p[sector%pageSectors]
	}
	return inBase
}

// ReadAt implements io.ReaderAt.
func (m *Media) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read media: offset %d is negative", off)
	}
	want := len(p)
	if off >= m.size {
		return 0, io.EOF
	}
	p = p[:min(int64(want), m.size-off)]
	for done := 0; done < len(p); {
		r, n := m.run(off+int64(done), len(p)-done)
		if err := m.readRun(r, p[done:done+n], off+int64(done)); err != nil {
			return done, err
		}
		done += n
	}
	if len(p) < want {
		return len(p), io.EOF
	}
	return want, nil
}

// run returns where the byte at off is, and how many bytes from it on, at most
// limit, follow it there.
func (m *Media) run(off int64, limit int) (ref, int) {
	sector := off / SectorSize
	first := m.at(sector)
	n := int(SectorSize - off%SectorSize)
	for n < limit {
		sector++
		if m.at(sector) != follows(first, sector-off/SectorSize) {
			break
		}
		n += SectorSize
	}
	if first > 0 {
		first += ref(off % SectorSize)
	}
	return first, min(n, limit)
}

// follows is the ref of the n-th sector after one with ref r, where both are part
// of one run.
func follows(r ref, n int64) ref {
	if r <= 0 {
		return r
	}
	return r + ref(n*SectorSize)
}

func (m *Media) readRun(r ref, p []byte, off int64) error {
	var err error
	switch {
	case r == zeros:
		clear(p)
	case r == inBase:
		err = readFull(m.base, p, off)
	default:
		err = readFull(m.data, p, int64(r))
	}
	if err != nil {
		return fmt.Errorf("read media at %d: %w", off, err)
	}
	return nil
}

func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
