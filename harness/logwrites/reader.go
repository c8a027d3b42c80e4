package logwrites

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Reader reads a log's entries in order. It takes nothing on trust: an entry that
// no writer of the format can have written ends it, with a *Damage.
type Reader struct {
	// Entries is their number by the super block. QEMU counts no entry after the
	// last flush, so a log that ended with its machine may hold more than it says.
	Entries    uint64
	SectorSize int64 // bytes
	// Drive bounds what entries may write to, in bytes; 0: nothing does.
	Drive int64

	log    io.ReaderAt
	size   int64
	next   int64 // where the next entry begins
	number int
	sector []byte // of the entry
}

// NewReader reads the super block of a log of size bytes. The error wraps ErrNotLog
// where it is none.
func NewReader(log io.ReaderAt, size int64) (*Reader, error) {
	var b [superSize]byte
	if size < superSize {
		return nil, fmt.Errorf("read super block: the file has %d bytes: %w", size, ErrNotLog)
	}
	if _, err := log.ReadAt(b[:], 0); err != nil {
		return nil, fmt.Errorf("read super block: %w", err)
	}
	le := binary.LittleEndian
	r := &Reader{Entries: le.Uint64(b[16:]), SectorSize: int64(le.Uint32(b[24:])), log: log, size: size}
	switch {
	case le.Uint64(b[:]) == 0:
		return nil, fmt.Errorf("read super block: it is empty, as QEMU leaves it where the guest never flushed: %w", ErrNotLog)
	case le.Uint64(b[:]) != Magic:
		return nil, fmt.Errorf("read super block: the magic number is 0x%x, want 0x%x: %w", le.Uint64(b[:]), uint64(Magic), ErrNotLog)
	case le.Uint64(b[8:]) != Version:
		return nil, fmt.Errorf("read super block: version %d, want %d: %w", le.Uint64(b[8:]), Version, ErrNotLog)
	case !validSectorSize(r.SectorSize):
		return nil, fmt.Errorf("read super block: sectors of %d bytes; allowed: a power of two from %d to %d: %w",
			r.SectorSize, MinSectorSize, MaxSectorSize, ErrNotLog)
	}
	r.next, r.sector = r.SectorSize, make([]byte, r.SectorSize)
	return r, nil
}

// Next returns the next entry. At the end of the log it returns io.EOF, and where
// the log stops making sense a *Damage; it is not to be called after either.
func (r *Reader) Next() (Entry, error) {
	if uint64(r.number) >= r.Entries {
		return Entry{}, io.EOF
	}
	if r.size-r.next < r.SectorSize {
		return Entry{}, r.damaged("the file ends at byte %d, with %d of %d entries", r.size, r.number, r.Entries)
	}
	if _, err := r.log.ReadAt(r.sector, r.next); err != nil {
		return Entry{}, fmt.Errorf("read entry %d: %w", r.number, err)
	}
	e, err := r.decode()
	if err != nil {
		return Entry{}, err
	}
	r.number++
	r.next += r.SectorSize
	if e.DataAt != 0 {
		r.next += e.Length
	}
	return e, nil
}

// Rest is the number of bytes after the last entry that Next returned. After io.EOF
// the log does not vouch for them.
func (r *Reader) Rest() int64 { return max(r.size-r.next, 0) }

// ReadAt reads from the log: data lie at Entry.DataAt.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) { return r.log.ReadAt(p, off) }

// decode makes an entry of the sector that was read.
func (r *Reader) decode() (Entry, error) {
	le := binary.LittleEndian
	first, count, flags, data := le.Uint64(r.sector), le.Uint64(r.sector[8:]), Flags(le.Uint64(r.sector[16:])), le.Uint64(r.sector[24:])
	e := Entry{Number: r.number, At: r.next, Flags: flags}
	limit := uint64(math.MaxInt64 / r.SectorSize)
	switch {
	case flags&^known != 0:
		return e, r.damaged("flags 0x%x are not of this format", uint64(flags))
	case flags == 0 && count == 0:
		return e, r.damaged("an entry without sectors and without flags: nothing was written here")
	case flags&Mark != 0:
		return r.mark(e, first, count, data)
	case flags&Discard != 0 && count == 0:
		return e, r.damaged("a discard of nothing")
	case flags&Flush == 0 && count == 0:
		return e, r.damaged("a write of nothing")
	case first > limit || count > limit-first:
		return e, r.damaged("sectors %d+%d lie beyond any drive", first, count)
	}
	e.Offset, e.Length = int64(first)*r.SectorSize, int64(count)*r.SectorSize
	return r.data(e, data)
}

// mark completes an entry with the flag Mark.
func (r *Reader) mark(e Entry, first, count, length uint64) (Entry, error) {
	switch {
	case e.Flags != Mark || first != 0 || count != 0:
		return e, r.damaged("a mark with sectors %d+%d and flags %v", first, count, e.Flags)
	case length > uint64(r.SectorSize-headerSize):
		return e, r.damaged("a mark of %d bytes, in a sector of %d", length, r.SectorSize)
	}
	e.Text = string(r.sector[headerSize : headerSize+length])
	return e, r.zeros(headerSize + int(length))
}

// data completes the entry of a write, discard or flush. Only the kernel's log of a
// DAX device gives a data length, of what the sectors hold.
func (r *Reader) data(e Entry, length uint64) (Entry, error) {
	end := e.Offset + e.Length
	switch {
	case length > uint64(e.Length):
		return e, r.damaged("a data length of %d bytes, in %d", length, e.Length)
	case r.Drive > 0 && end > r.Drive:
		return e, r.damaged("bytes %d+%d lie beyond the drive of %d bytes", e.Offset, e.Length, r.Drive)
	}
	if e.Flags&Discard == 0 && e.Length > 0 {
		e.DataAt = r.next + r.SectorSize
		if e.Length > r.size-e.DataAt {
			return e, r.damaged("the file ends at byte %d, within the entry's %d bytes of data", r.size, e.Length)
		}
	}
	return e, r.zeros(headerSize)
}

// zeros checks the end of an entry's sector.
func (r *Reader) zeros(from int) error {
	for i, b := range r.sector[from:] {
		if b != 0 {
			return r.damaged("byte %d of its sector is 0x%02x and should be zero", from+i, b)
		}
	}
	return nil
}

func (r *Reader) damaged(format string, args ...any) error {
	return &Damage{Entry: r.number, Byte: r.next, What: fmt.Sprintf(format, args...)}
}
