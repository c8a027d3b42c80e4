package blocklog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Writer appends events to a log file. Its methods are for one goroutine at a
// time: the drive calls them under its lock.
//
// An event is in the log, exactly where it belongs, when Append has returned: nothing
// that happens to the guest takes it away. It is with the kernel at the latest when
// Settle or Close has returned, and within a quarter of a second otherwise. So the log outlives a
// guest that is killed entirely, and a harness that is killed, of whose run nobody is
// told anything, up to a prefix. What cannot be written fails the next Append, or
// Settle, and so the run before anything is said of it.
type Writer struct {
	file   *os.File
	size   int64 // of the drive
	begun  time.Time
	events int
	tail   *tail
}

// Create begins a log for a drive of that many bytes.
func Create(path string, size int64) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create block log: %w", err)
	}
	w := &Writer{file: f, size: size, begun: time.Now()}
	if err := w.writeHeader(); err != nil {
		f.Close()
		return nil, fmt.Errorf("create block log: %w", err)
	}
	w.tail = newTail(f, headerSize)
	return w, nil
}

func (w *Writer) writeHeader() error {
	h := make([]byte, headerSize)
	copy(h, fileMagic)
	binary.LittleEndian.PutUint32(h[8:], version)
	binary.LittleEndian.PutUint64(h[16:], uint64(w.size))
	binary.LittleEndian.PutUint64(h[24:], uint64(w.events))
	binary.LittleEndian.PutUint64(h[56:], xxhash.Sum64(h[:56]))
	_, err := w.file.WriteAt(h, 0)
	return err
}

// Now is the time since the log was begun.
func (w *Writer) Now() time.Duration { return time.Since(w.begun) }

// Events is the number of events so far: the position of the next one.
func (w *Writer) Events() int { return w.events }

// Append adds an event and, for a write's Arrive, its payload; it sets e.DataAt.
func (w *Writer) Append(e *Event, payload []byte) error { return w.add(e, payload, nil) }

// Take is Append without a copy: the payload must stay as it is until done is called,
// which happens from another goroutine, and never if the log cannot be written.
func (w *Writer) Take(e *Event, payload []byte, done func()) error { return w.add(e, payload, done) }

func (w *Writer) add(e *Event, payload []byte, done func()) error {
	if len(payload) > 0 && int64(len(payload)) != e.Length {
		return fmt.Errorf("append to block log: request %d of %d bytes has a payload of %d", e.Request, e.Length, len(payload))
	}
	if err := w.tail.append(e, payload, done); err != nil {
		return fmt.Errorf("append to block log: %w", err)
	}
	w.events++
	return nil
}

// Settle brings all events that wait in memory to the kernel.
func (w *Writer) Settle() error {
	if err := w.tail.settle(); err != nil {
		return fmt.Errorf("write block log: %w", err)
	}
	return nil
}

// ReadAt reads back from the log: payloads lie at Event.DataAt.
func (w *Writer) ReadAt(p []byte, off int64) (int, error) { return w.tail.ReadAt(p, off) }

// Close completes the log and closes the file.
func (w *Writer) Close() error {
	err := w.Settle()
	w.tail.close()
	if err == nil {
		err = w.writeHeader()
	}
	return errors.Join(err, w.file.Close())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func padding(n int) int { return -n & 7 }

// encode makes the bytes of an event, but for its check sums.
func encode(b []byte, e *Event) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = byte(e.Kind), byte(e.Op), 0, byte(e.Spoil.Kind)
	if e.FUA {
		b[2] |= flagFUA
	}
	if e.NoEffect {
		b[2] |= flagNoEffect
	}
	if e.Through {
		b[2] |= flagThrough
	}
	le.PutUint32(b[4:], uint32(e.Errno))
	le.PutUint64(b[8:], e.Request)
	le.PutUint64(b[16:], uint64(e.Offset))
	le.PutUint64(b[24:], uint64(e.Length))
	le.PutUint64(b[32:], uint64(e.Time))
	le.PutUint64(b[40:], e.Started)
	le.PutUint64(b[48:], e.Acked)
	le.PutUint64(b[56:], uint64(e.DataAt))
	le.PutUint32(b[64:], uint32(e.Spoil.From))
	le.PutUint32(b[68:], uint32(e.Spoil.To))
	le.PutUint16(b[72:], uint16(e.Spoil.Bit))
	clear(b[74:])
}

// seal completes an event with check sums: that of its payload, CRC-32C, which the
// processor computes, and 0 of none; and its own.
func seal(event []byte, payload uint32) {
	le := binary.LittleEndian
	le.PutUint64(event[80:], uint64(payload))
	le.PutUint64(event[88:], xxhash.Sum64(event[:88]))
}
