package logwrites

import (
	"errors"
	"fmt"
	"io"

	"powercut/harness/blocklog"
)

// Imported says what an import found.
type Imported struct {
	SectorSize int64      `json:"sector_size"` // bytes
	Entries    int        `json:"entries"`     // that were read
	Requests   uint64     `json:"requests"`    // that were made of them
	Marks      []Position `json:"marks"`
	// Damage says where and how the log stops making sense; empty: nowhere.
	Damage string `json:"damage,omitempty"`
	// Unread is the number of bytes after the last entry that the log counts. What
	// QEMU wrote after the guest's last flush lies there.
	Unread int64 `json:"unread_bytes,omitempty"`
}

// Import turns a log into a block log. Each entry becomes a request that is
// answered before the next one arrives; a flush with data becomes two, a write of
// more than blocklog.MaxPayload several. Such a log has no times, and says nothing
// of what was in flight.
//
// A write is taken to be covered by the flush that stands after it. In a log of the
// kernel it always is. QEMU logs each request when it completes, so a write that
// completed while a flush was under way is counted as covered, which on a bus with
// one command in flight (ide) does not occur.
//
// Where the log is damaged, what comes before is imported, and the error is a
// *Damage; the returned Imported is complete in either case.
func Import(w *blocklog.Writer, r *Reader) (*Imported, error) {
	m := &importer{w: w, r: r, found: &Imported{SectorSize: r.SectorSize, Marks: []Position{}}}
	for {
		e, err := r.Next()
		if err == io.EOF {
			m.found.Unread = r.Rest()
			return m.found, nil
		}
		var d *Damage
		if errors.As(err, &d) {
			m.found.Damage = d.Error()
			return m.found, err
		}
		if err == nil {
			err = m.entry(e)
		}
		if err != nil {
			return nil, fmt.Errorf("import log: %w", err)
		}
		m.found.Entries++
	}
}

type importer struct {
	w     *blocklog.Writer
	r     *Reader
	found *Imported
}

func (m *importer) entry(e Entry) error {
	if e.Flags&Mark != 0 {
		m.found.Marks = append(m.found.Marks, Position{e.Text, m.w.Events()})
		return nil
	}
	if e.Flags&Flush != 0 {
		if err := m.request(blocklog.Event{Op: blocklog.Flush}, nil); err != nil {
			return err
		}
	}
	fua := e.Flags&FUA != 0
	if e.Flags&Discard != 0 {
		return m.request(blocklog.Event{Op: blocklog.Trim, FUA: fua, Offset: e.Offset, Length: e.Length}, nil)
	}
	for done := int64(0); done < e.Length; {
		data := make([]byte, min(e.Length-done, blocklog.MaxPayload))
		if _, err := m.r.ReadAt(data, e.DataAt+done); err != nil {
			return fmt.Errorf("read data of entry %d: %w", e.Number, err)
		}
		write := blocklog.Event{Op: blocklog.Write, FUA: fua, Offset: e.Offset + done, Length: int64(len(data))}
		if err := m.request(write, data); err != nil {
			return err
		}
		done += int64(len(data))
	}
	return nil
}

// request logs a request, and that it was answered.
func (m *importer) request(e blocklog.Event, payload []byte) error {
	m.found.Requests++
	e.Kind, e.Request = blocklog.Arrive, m.found.Requests
	if err := m.w.Append(&e, payload); err != nil {
		return err
	}
	e.Kind = blocklog.Reply
	return m.w.Append(&e, nil)
}
