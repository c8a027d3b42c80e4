package logwrites

import (
	"encoding/binary"
	"fmt"
	"io"
)

// File is what a log is written to. *os.File is one.
type File interface {
	io.WriterAt
	Truncate(size int64) error
}

// Writer writes a log. Its super block comes last, with Close: a file that was not
// finished is no log.
type Writer struct {
	file    File
	sector  int64 // bytes
	at      int64
	entries uint64
	head    []byte
}

// NewWriter begins a log in an empty file. Offsets and lengths of its entries are
// multiples of the sector size.
func NewWriter(f File, sectorSize int) (*Writer, error) {
	if !validSectorSize(int64(sectorSize)) {
		return nil, fmt.Errorf("begin log: sectors of %d bytes; allowed: a power of two from %d to %d", sectorSize, MinSectorSize, MaxSectorSize)
	}
	return &Writer{file: f, sector: int64(sectorSize), at: int64(sectorSize), head: make([]byte, sectorSize)}, nil
}

// Entries is the number of entries so far.
func (w *Writer) Entries() uint64 { return w.entries }

// MaxText is the length of the longest mark, in bytes: a zero follows it.
func (w *Writer) MaxText() int { return int(w.sector) - headerSize - 1 }

// Write adds a write of data at an offset of the drive. The flags are FUA and
// Metadata, or none.
func (w *Writer) Write(offset int64, data []byte, flags Flags) error {
	if err := w.entry(offset, int64(len(data)), flags&(FUA|Metadata), ""); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(data, w.at); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	w.at += int64(len(data))
	return nil
}

// Zeroes adds a write of zeros. They are a hole in the file.
func (w *Writer) Zeroes(offset, length int64, flags Flags) error {
	err := w.entry(offset, length, flags&(FUA|Metadata), "")
	w.at += length
	return err
}

// Discard adds a discard.
func (w *Writer) Discard(offset, length int64, flags Flags) error {
	return w.entry(offset, length, flags&FUA|Discard, "")
}

// Flush adds a flush.
func (w *Writer) Flush() error { return w.entry(0, 0, Flush, "") }

// Mark adds a mark. A text of more than MaxText bytes is cut.
func (w *Writer) Mark(text string) error {
	return w.entry(0, 0, Mark, text[:min(len(text), w.MaxText())])
}

func (w *Writer) entry(offset, length int64, flags Flags, text string) error {
	if offset < 0 || length < 0 || offset%w.sector != 0 || length%w.sector != 0 || flags&(Flush|Mark) == 0 && length == 0 {
		return fmt.Errorf("write log: extent %d+%d is not in whole sectors of %d bytes", offset, length, w.sector)
	}
	clear(w.head)
	le := binary.LittleEndian
	le.PutUint64(w.head, uint64(offset/w.sector))
	le.PutUint64(w.head[8:], uint64(length/w.sector))
	le.PutUint64(w.head[16:], uint64(flags))
	le.PutUint64(w.head[24:], uint64(len(text)))
	copy(w.head[headerSize:], text)
	if _, err := w.file.WriteAt(w.head, w.at); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	w.at += w.sector
	w.entries++
	return nil
}

// Close completes the log. It does not close the file.
func (w *Writer) Close() error {
	clear(w.head)
	le := binary.LittleEndian
	le.PutUint64(w.head, Magic)
	le.PutUint64(w.head[8:], Version)
	le.PutUint64(w.head[16:], w.entries)
	le.PutUint32(w.head[24:], uint32(w.sector))
	err := w.file.Truncate(w.at) // a hole at the end is a part of it
	if err == nil {
		_, err = w.file.WriteAt(w.head, 0)
	}
	if err != nil {
		return fmt.Errorf("complete log: %w", err)
	}
	return nil
}
