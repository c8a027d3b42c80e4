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

// groupPages is the number of pages that share an entry of the map, so that a long
// write costs few of them.
const groupPages = 32

// ref says where a sector's bytes are; or, in Media's table of pages, where those of a
// page are, all in one piece.
type ref int64

const (
	inBase ref = 0  // in the base image, at the sector's own offset
	zeros  ref = -1 // nowhere: the sector reads as zeros
	// scattered is an entry of the table of pages alone: the page's sectors lie in
	// several places.
	scattered ref = -2
	// any other value is a place in data, in bytes
)

// Media is the content of a drive: a base image, and on top of it the sectors
// that were written since. It holds no bytes of its own, only where they lie in
// the block log, so that its cost is some 1 % of what was changed, whatever the
// size of the drive and however often that was changed.
//
// Media is for one goroutine at a time.
type Media struct {
	size   int64
	base   io.ReaderAt
	data   io.ReaderAt
	groups map[int64]*[groupPages]ref  // by the number of a group
	parts  map[int64]*[pageSectors]ref // by the number of a page: those that are scattered
}

// NewMedia returns a drive of size bytes, a multiple of SectorSize, whose content
// is that of base. Payloads of later writes are found in data.
func NewMedia(size int64, base, data io.ReaderAt) *Media {
	return &Media{size: size, base: base, data: data, groups: map[int64]*[groupPages]ref{}, parts: map[int64]*[pageSectors]ref{}}
}

// Size is the size in bytes.
func (m *Media) Size() int64 { return m.size }

// Write says that length bytes at offset, both multiples of SectorSize, are now
// those at dataAt of data.
func (m *Media) Write(offset, length, dataAt int64) { m.set(offset, length, ref(dataAt)) }

// Zero says that length bytes at offset now read as zeros.
func (m *Media) Zero(offset, length int64) { m.set(offset, length, zeros) }

// set says where length bytes at offset are: from r on, or nowhere.
func (m *Media) set(offset, length int64, r ref) {
	sector, end := offset/SectorSize, (offset+length)/SectorSize
	for from := sector; sector < end; {
		page, first := sector/pageSectors, sector%pageSectors
		n := min(pageSectors-first, end-sector)
		here := follows(r, sector-from)
		if n == pageSectors {
			entry := m.entry(page)
			if *entry == scattered {
				delete(m.parts, page)
			}
			*entry = here
		} else {
			parts := m.scatter(page)
			for i := range n {
				parts[first+i] = follows(here, i)
			}
		}
		sector += n
	}
}

// entry is a page's in the table, to be changed.
func (m *Media) entry(page int64) *ref {
	g := m.groups[page/groupPages]
	if g == nil {
		g = new([groupPages]ref)
		m.groups[page/groupPages] = g
	}
	return &g[page%groupPages]
}

// page is a page's entry in the table.
func (m *Media) page(n int64) ref {
	if g := m.groups[n/groupPages]; g != nil {
		return g[n%groupPages]
	}
	return inBase
}

// scatter returns the table of a page whose sectors lie in several places.
func (m *Media) scatter(page int64) *[pageSectors]ref {
	entry := m.entry(page)
	whole := *entry
	if whole == scattered {
		return m.parts[page]
	}
	parts := new([pageSectors]ref)
	for i := range parts {
		parts[i] = follows(whole, int64(i))
	}
	*entry, m.parts[page] = scattered, parts
	return parts
}

// Apply brings length bytes, from at on, of a write, trim or write of zeroes onto
// the media, but for what of it never reached the drive. All are multiples of
// SectorSize; e is the request's Arrive.
func (m *Media) Apply(e *blocklog.Event, at, length int64) {
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

func (m *Media) at(sector int64) ref {
	page := m.page(sector / pageSectors)
	if page == scattered {
		return m.parts[sector/pageSectors][sector%pageSectors]
	}
	return follows(page, sector%pageSectors)
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
