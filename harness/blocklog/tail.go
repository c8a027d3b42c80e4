package blocklog

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pieceSize is the room of a piece for events and the payloads that are copied, in
	// bytes; one payload may take more.
	pieceSize = 256 << 10
	// pieceLimit is how much a piece has at most together with payloads that it keeps,
	// but for one that alone is larger.
	pieceLimit = 2 << 20
	// maxWaiting bounds the bytes of all pieces, but for that of a payload which alone
	// is as large. A drive that is written to for long is as fast as the log's disk.
	maxWaiting = 64 << 20
	// eager is how much waits before it is written at once.
	eager = 56 << 20
	// What is less is written when nothing has been added for up to two ticks, and so
	// does not take a processor from a guest that is busy; or when patience is over.
	tick     = 10 * time.Millisecond
	patience = 20 // ticks

	// resident is how much of a log is left in the kernel's page cache behind what was
	// written last, in bytes. Older pages are let go, to be used again: to take pages
	// that were never used is several times as expensive on a virtual machine, whose
	// host has to find them first.
	resident = 256 << 20
	// stride is how much is let go at a time.
	stride = 4 << 20
)

// tail is the end of a log, of which the last part waits in memory until a goroutine
// of its own has written it. That makes check sums, too. A request thus costs no system
// call, and a copy of its payload, into memory that is used again, only where that is
// short.
type tail struct {
	file *os.File
	wake chan struct{} // holds a token: there is something to do at once
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	changed sync.Cond // on mu: written, err
	// pieces wait, oldest first and without gaps. Events go into the last one; the first
	// may be under way to the file.
	pieces  []*piece
	spare   []*piece // to be used again
	waiting int      // bytes of all pieces' room
	at      int64    // where the next event goes
	err     error    // the first failure to write; nothing is written after it
	closed  bool
	busy    bool // something was added since the last tick
}

func newTail(f *os.File, at int64) *tail {
	t := &tail{file: f, at: at, wake: make(chan struct{}, 1), done: make(chan struct{})}
	t.changed.L = &t.mu
	go t.run()
	return t
}

// append adds an event with its payload, whose place it puts into the event. It waits
// while too much waits in memory. The payload is copied, unless done is not nil: then it
// is kept, and done called when it is needed no more.
func (t *tail) append(e *Event, payload []byte, done func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	copied, kept := len(payload), 0
	if done != nil {
		copied, kept = kept, copied
	}
	pad := padding(len(payload))
	p := t.room(eventSize+copied+pad, kept)
	if t.err != nil {
		return t.err
	}
	e.DataAt = 0
	if len(payload) > 0 {
		e.DataAt = t.at + eventSize
	}
	p.add(e, payload, done)
	t.at += int64(eventSize + len(payload) + pad)
	t.waiting += kept
	t.busy = true
	if t.waiting >= eager {
		t.hurry()
	}
	return nil
}

// room returns the piece to which that many bytes can be copied, and a payload be added
// that is kept. The caller holds mu, which is given up while it waits.
func (t *tail) room(copied, kept int) *piece {
	if n := len(t.pieces); n > 0 {
		if p := t.pieces[n-1]; !p.full && p.takes(copied, kept) && t.waiting+kept <= maxWaiting {
			return p
		}
		t.pieces[n-1].full = true
	}
	size := max(copied, pieceSize)
	for t.waiting > 0 && t.waiting+size+kept > maxWaiting && t.err == nil {
		t.hurry()
		t.changed.Wait()
	}
	var p *piece
	if n := len(t.spare); n > 0 && size == pieceSize {
		p, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		p = &piece{arena: make([]byte, 0, size)}
	}
	p.at = t.at
	t.waiting += size
	t.pieces = append(t.pieces, p)
	return p
}

// hurry has the goroutine write at once.
func (t *tail) hurry() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// settle waits until all is with the kernel.
func (t *tail) settle() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pieces) > 0 && t.err == nil {
		t.hurry()
		t.changed.Wait()
	}
	return t.err
}

// close ends the goroutine. What waits is not written any more, and nothing is added.
func (t *tail) close() {
	t.mu.Lock()
	t.closed = true
	if t.err == nil {
		t.err = os.ErrClosed
	}
	t.mu.Unlock()
	t.hurry()
	<-t.done
}

// ReadAt implements io.ReaderAt, on what is in the file and what waits.
func (t *tail) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read block log: offset %d is negative", off)
	}
	want := len(p)
	t.mu.Lock()
	p = p[:min(int64(want), max(0, t.at-off))]
	inFile := t.at
	if len(t.pieces) > 0 {
		inFile = t.pieces[0].at
	}
	for _, w := range t.pieces {
		at := w.at
		for _, part := range w.parts {
			from, end := max(off, at), min(off+int64(len(p)), at+int64(len(part)))
			if from < end {
				copy(p[from-off:end-off], part[from-at:])
			}
			at += int64(len(part))
		}
	}
	t.mu.Unlock()
	old := p[:min(int64(len(p)), max(0, inFile-off))]
	if n, err := t.file.ReadAt(old, off); n < len(old) {
		return n, err
	}
	if len(p) < want {
		return len(p), io.EOF
	}
	return want, nil
}

// run writes pieces until the tail is closed.
func (t *tail) run() {
	defer close(t.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	c := pageCache{file: t.file}
	for ticks := 0; ; {
		select {
		case <-t.wake:
		case <-ticker.C:
			if ticks++; t.wasBusy() && ticks < patience {
				continue
			}
		}
		ticks = 0
		for p, ok := t.first(); ok; p, ok = t.first() {
			end := p.end()
			t.seal(p)
			t.written(p, p.write(t.file))
			c.letGo(end)
		}
		t.mu.Lock()
		closed := t.closed
		t.mu.Unlock()
		if closed {
			return
		}
	}
}

// wasBusy tells whether something was added since it was asked last.
func (t *tail) wasBusy() (busy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	busy, t.busy = t.busy, false
	return busy
}

// first returns the piece to be written next, to which nothing is added any more.
func (t *tail) first() (*piece, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pieces) == 0 || t.err != nil || t.closed {
		return nil, false
	}
	t.pieces[0].full = true
	return t.pieces[0], true
}

// seal completes a piece, to which nothing is added any more, with check sums. Only to
// put them in does it keep others from reading.
func (t *tail) seal(p *piece) {
	sums := make([]uint32, len(p.events))
	for i, r := range p.events {
		sums[i] = crc32.Checksum(r.payload, castagnoli)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range p.events {
		seal(r.event, sums[i])
	}
}

// written notes that the first piece is in the file, or that writing it failed.
func (t *tail) written(p *piece, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed.Broadcast()
	if err != nil {
		t.err = err
		return
	}
	t.pieces = slices.Delete(t.pieces, 0, 1)
	t.waiting -= cap(p.arena) + p.kept
	p.clear()
	if cap(p.arena) == pieceSize {
		t.spare = append(t.spare, p)
	}
}

// piece is a part of the log.
type piece struct {
	at     int64    // where it belongs in the file
	arena  []byte   // room for events, and for payloads that are copied
	parts  [][]byte // what it consists of, in order: of arena, and payloads that it keeps
	size   int      // bytes of all parts
	kept   int      // bytes of the payloads that it keeps
	events []record
	open   bool // the last part is the arena from run on
	run    int
	full   bool // nothing is added any more
}

// record is an event in a piece, with its payload.
type record struct {
	event, payload []byte
	done           func() // nil: the payload was copied
}

func (p *piece) end() int64 { return p.at + int64(p.size) }

// takes tells whether there is room for so many bytes that are copied and kept.
func (p *piece) takes(copied, kept int) bool {
	return len(p.arena)+copied <= cap(p.arena) && (kept == 0 || p.size+kept <= pieceLimit)
}

// add adds an event with its payload; there must be room.
func (p *piece) add(e *Event, payload []byte, done func()) {
	event := p.grow(eventSize)
	encode(event, e)
	if done == nil {
		into := p.grow(len(payload))
		copy(into, payload)
		payload = into
	} else {
		p.parts, p.open = append(p.parts, payload), false
		p.size += len(payload)
		p.kept += len(payload)
	}
	clear(p.grow(padding(len(payload))))
	p.events = append(p.events, record{event, payload, done})
}

// grow adds that many bytes of the arena.
func (p *piece) grow(n int) []byte {
	begin := len(p.arena)
	p.arena = p.arena[:begin+n]
	if !p.open && n > 0 {
		p.parts, p.run, p.open = append(p.parts, nil), begin, true
	}
	if p.open {
		p.parts[len(p.parts)-1] = p.arena[p.run:]
	}
	p.size += n
	return p.arena[begin:]
}

// write writes the piece.
func (p *piece) write(f *os.File) error {
	at := p.at
	for _, part := range p.parts {
		if _, err := f.WriteAt(part, at); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return nil
}

// clear lets go of what the piece has, so that it can be used again.
func (p *piece) clear() {
	for _, r := range p.events {
		if r.done != nil {
			r.done()
		}
	}
	clear(p.parts)
	clear(p.events)
	*p = piece{arena: p.arena[:0], parts: p.parts[:0], events: p.events[:0]}
}

// pageCache is the part of a file that is written from begin to end which the kernel
// keeps in memory.
type pageCache struct {
	file       *os.File
	sent, gone int64 // up to where the kernel was told to write to the disk, and to let go
}

// letGo lets go of what lies far behind the end of the file, and has the kernel write
// to the disk what soon will. It waits for neither: pages that the disk is late with
// are asked for again the next time. Who reads the log notices by its check sums if the
// disk has failed.
func (c *pageCache) letGo(end int64) {
	fd := int(c.file.Fd())
	for ; c.sent+stride <= end-resident/2; c.sent += stride {
		_ = unix.SyncFileRange(fd, c.sent, stride, unix.SYNC_FILE_RANGE_WRITE)
	}
	if c.gone+stride <= end-resident {
		c.gone = (end - resident) / stride * stride
		_ = unix.Fadvise(fd, 0, c.gone, unix.FADV_DONTNEED)
	}
}
