package blocklog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"
)

// On disk, little endian, a log is a header of 64 bytes (magic, version u32,
// zero u32, size of the drive i64, zeros, check u64) and then its events, each
// of 96 bytes, a write's Arrive event followed by its payload, padded to 8:
//
//	0 kind u8, op u8, flags u8 (1 FUA, 2 no effect, 4 through), damage u8, errno i32
//	8 request u64, 16 offset i64, 24 length i64, 32 time i64 (ns)
//	40 started u64, 48 acked u64, 56 place of the payload in the file i64
//	64 damage from u32, to u32 (bytes of the request), bit u16; 74 zeros
//	80 CRC-32C of the payload u64, 88 XXH64 of bytes 0 to 87
//
// When the log is closed the number of events is put into the header, at byte 24;
// until then it is 0.
const (
	fileMagic  = "PWRCUTLG"
	version    = 2
	headerSize = 64
	eventSize  = 96
	// MaxPayload bounds the payload of one write, in bytes (the NBD server's limit).
	MaxPayload = 32 << 20

	flagFUA      = 1
	flagNoEffect = 2
	flagThrough  = 4
	flagsKnown   = flagFUA | flagNoEffect | flagThrough

	sectorSize = 512
)

// ErrDamaged is wrapped by the errors of Load that are about the file's content.
var ErrDamaged = errors.New("block log is damaged")

// Log is a log that was read from a file. Payloads stay in the file.
type Log struct {
	Size   int64 // of the drive, in bytes
	Events []Event
	// Unit is what the drive writes whole, in bytes, and at multiples of which: its physical
	// sector. 0: a sector of 512 bytes. It is not in the file.
	Unit int64
	// Truncated tells that the file ends inside an event, as it does where the
	// harness died while it wrote.
	Truncated bool
	bytes     int64 // of the file, or of what is compressed in it
	end       int64 // where the last event ends, in bytes
	data      io.ReaderAt
	close     io.Closer
}

// ReadAt reads from the log file: payloads lie at Event.DataAt.
func (l *Log) ReadAt(p []byte, off int64) (int, error) { return l.data.ReadAt(p, off) }

// Payload reads the payload of a write's Arrive event.
func (l *Log) Payload(e Event) ([]byte, error) {
	b := make([]byte, e.Length)
	if _, err := l.data.ReadAt(b, e.DataAt); err != nil {
		return nil, fmt.Errorf("read payload of request %d: %w", e.Request, err)
	}
	return b, nil
}

// Close closes the file.
func (l *Log) Close() error {
	if l.close == nil {
		return nil
	}
	return l.close.Close()
}

// Open reads the log file at path, or where there is none the one that Compress has
// made of it, and checks every event and payload.
func Open(path string) (*Log, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("open block log: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		var l *Log
		if l, err = Load(f, info.Size()); err == nil {
			l.close = f
			return l, nil
		}
	}
	f.Close()
	return nil, fmt.Errorf("open block log %s: %w", f.Name(), err)
}

// openFile opens the log at path in either of its forms.
func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		if z, err := os.Open(path + Suffix); err == nil {
			return z, nil
		}
	}
	return f, err
}

// Load reads a log of that many bytes, compressed or not. Where an event is damaged
// it returns the log up to there, and a *Damage.
func Load(r io.ReaderAt, bytes int64) (*Log, error) {
	z, err := newSeekable(r, bytes)
	if err != nil {
		return nil, fmt.Errorf("read compressed log: %w: %w", err, ErrDamaged)
	}
	if z != nil {
		r, bytes = z, z.size
	}
	h := make([]byte, headerSize)
	if _, err := r.ReadAt(h, 0); err != nil {
		return nil, fmt.Errorf("read header: %w: %w", err, ErrDamaged)
	}
	le := binary.LittleEndian
	if string(h[:8]) != fileMagic || le.Uint64(h[56:]) != xxhash.Sum64(h[:56]) {
		return nil, fmt.Errorf("read header: not a block log: %w", ErrDamaged)
	}
	if v := le.Uint32(h[8:]); v != version {
		return nil, fmt.Errorf("read header: version %d, this powercut reads %d: %w", v, version, ErrDamaged)
	}
	l := &Log{Size: int64(le.Uint64(h[16:])), data: r, bytes: bytes, end: headerSize}
	if l.Size < 0 {
		return nil, fmt.Errorf("read header: drive of %d bytes: %w", l.Size, ErrDamaged)
	}
	// Each event takes eventSize bytes, whatever the header says.
	l.Events = make([]Event, 0, min(le.Uint64(h[24:]), uint64(bytes/eventSize)))
	if err := l.readEvents(); err != nil || z == nil || z.broken == nil {
		return l, err
	}
	// What is left of the file made sense: it does not go on, though the log did.
	l.Truncated = false
	return l, &Damage{Event: len(l.Events), Byte: l.end, What: z.broken}
}

func (l *Log) readEvents() error {
	r := &eventReader{
		in: bufio.NewReaderSize(io.NewSectionReader(l.data, headerSize, l.bytes-headerSize), 64<<10), at: headerSize,
		size: l.Size, open: map[uint64]Event{}, sum: crc32.New(castagnoli),
	}
	for r.at < l.bytes {
		at := r.at
		e, err := r.read()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			l.Truncated = true
			return nil
		}
		if err != nil {
			return &Damage{Event: len(l.Events), Byte: at, What: err}
		}
		l.Events = append(l.Events, e)
		l.end = r.at
	}
	return nil
}

// eventReader checks events as it reads them.
type eventReader struct {
	in   *bufio.Reader
	at   int64            // the place of in, in the log
	size int64            // of the drive
	sum  hash.Hash32      // of payloads
	open map[uint64]Event // arrived and not replied
	// kept holds, by request from 1, the kind of a change that was answered and not
	// destaged: what a Destage may be about. 0 is any other request.
	kept  []Op
	time  time.Duration
	acked uint64
}

// read returns the next event. One that the file does not hold to its end gives
// io.ErrUnexpectedEOF.
func (r *eventReader) read() (Event, error) {
	var b [eventSize]byte
	if err := r.fill(b[:]); err != nil {
		return Event{}, err
	}
	e, sum, err := decode(b[:])
	if err != nil {
		return Event{}, err
	}
	if err := r.check(e); err != nil {
		return Event{}, err
	}
	if e.Kind != Arrive || e.Op != Write {
		if e.DataAt != 0 {
			return Event{}, fmt.Errorf("payload is said to be at %d, and there is none", e.DataAt)
		}
	} else {
		if e.DataAt != r.at {
			return Event{}, fmt.Errorf("payload is said to be at %d, and is at %d", e.DataAt, r.at)
		}
		if err := r.checkPayload(e, sum); err != nil {
			return Event{}, err
		}
	}
	r.note(e)
	return e, nil
}

// fill reads a piece of the file that is all there, or io.ErrUnexpectedEOF.
func (r *eventReader) fill(b []byte) error {
	n, err := io.ReadFull(r.in, b)
	r.at += int64(n)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkPayload passes over a payload and holds it against its check sum.
func (r *eventReader) checkPayload(e Event, sum uint64) error {
	r.sum.Reset()
	n, err := io.CopyN(r.sum, r.in, e.Length)
	r.at += n
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	var b [8]byte
	if err := r.fill(b[:padding(int(e.Length))]); err != nil {
		return err
	}
	if uint64(r.sum.Sum32()) != sum {
		return errors.New("check sum of the payload does not match")
	}
	return nil
}

// check holds an event against those before it.
func (r *eventReader) check(e Event) error {
	switch {
	case e.Kind < Arrive || e.Kind > Destage:
		return fmt.Errorf("kind %d is unknown", e.Kind)
	case e.Op < Read || e.Op > Zeroes:
		return fmt.Errorf("request kind %d is unknown", e.Op)
	case e.Offset < 0 || e.Length < 0 || e.Offset > r.size || e.Length > r.size-e.Offset:
		return fmt.Errorf("extent %d+%d lies outside the drive of %d bytes", e.Offset, e.Length, r.size)
	case e.Op == Write && e.Kind != Destage && (e.Length == 0 || e.Length > MaxPayload):
		return fmt.Errorf("write of %d bytes", e.Length)
	case e.Errno < 0:
		return fmt.Errorf("errno %d", e.Errno)
	case e.Time < r.time:
		return fmt.Errorf("time runs backwards, from %v to %v", r.time, e.Time)
	case e.Acked < r.acked:
		return fmt.Errorf("ledger runs backwards, from %d to %d", r.acked, e.Acked)
	case e.Kind == Arrive && e.Request != uint64(len(r.kept))+1:
		return fmt.Errorf("request %d arrives after request %d", e.Request, len(r.kept))
	}
	if err := e.checkSpoil(); err != nil {
		return err
	}
	switch e.Kind {
	case Reply:
		return r.checkReply(e)
	case Destage:
		return r.checkDestage(e)
	}
	return nil
}

// checkSpoil demands that damage is that of a write, and a part of it.
func (e Event) checkSpoil() error {
	d := e.Spoil
	switch {
	case d == Spoil{}:
		return nil
	case e.Kind != Arrive || e.Op != Write:
		return errors.New("damage to what is no write")
	case d.Kind != Torn && d.Kind != Rot:
		return fmt.Errorf("damage of kind %d is unknown", d.Kind)
	case d.From >= d.To || d.To > e.Length || d.From%sectorSize != 0 || d.To%sectorSize != 0:
		return fmt.Errorf("damage to bytes %d to %d of a write of %d", d.From, d.To, e.Length)
	case d.Bit >= 8*sectorSize || d.Kind == Torn && d.Bit != 0:
		return fmt.Errorf("damage to bit %d of a sector", d.Bit)
	}
	return nil
}

func (r *eventReader) checkReply(e Event) error {
	a, open := r.open[e.Request]
	switch {
	case !open:
		return fmt.Errorf("reply to request %d, which is not open", e.Request)
	case a.Op != e.Op || a.Offset != e.Offset || a.Length != e.Length || a.FUA != e.FUA || a.Through != e.Through || a.NoEffect != e.NoEffect:
		return fmt.Errorf("reply to request %d does not match it", e.Request)
	case a.Errno != 0 && a.Errno != e.Errno:
		return fmt.Errorf("reply to request %d has errno %d, it was to fail with %d", e.Request, e.Errno, a.Errno)
	}
	return nil
}

func (r *eventReader) checkDestage(e Event) error {
	if e.Request == 0 || e.Request > uint64(len(r.kept)) || r.kept[e.Request-1] != e.Op {
		return fmt.Errorf("request %d (%v) is destaged, and is no change that was answered and not destaged before", e.Request, e.Op)
	}
	if e.FUA || e.Through || e.NoEffect || e.Errno != 0 || e.Offset != 0 || e.Length != 0 {
		return fmt.Errorf("request %d is destaged with what only a request has", e.Request)
	}
	return nil
}

func (r *eventReader) note(e Event) {
	r.time, r.acked = e.Time, e.Acked
	switch e.Kind {
	case Arrive:
		r.kept = append(r.kept, 0)
		r.open[e.Request] = e
	case Reply:
		delete(r.open, e.Request)
		if e.Errno == 0 && e.Op != Read && e.Op != Flush {
			r.kept[e.Request-1] = e.Op
		}
	case Destage:
		r.kept[e.Request-1] = 0
	}
}

func decode(b []byte) (e Event, sum uint64, err error) {
	le := binary.LittleEndian
	if le.Uint64(b[88:]) != xxhash.Sum64(b[:88]) {
		return Event{}, 0, errors.New("check sum does not match")
	}
	if b[2]&^flagsKnown != 0 || [6]byte(b[74:80]) != [6]byte{} {
		return Event{}, 0, errors.New("it says things that this powercut does not know")
	}
	return Event{
		Kind: Kind(b[0]), Op: Op(b[1]), FUA: b[2]&flagFUA != 0, NoEffect: b[2]&flagNoEffect != 0, Through: b[2]&flagThrough != 0,
		Errno: int32(le.Uint32(b[4:])), Request: le.Uint64(b[8:]),
		Offset: int64(le.Uint64(b[16:])), Length: int64(le.Uint64(b[24:])),
		Time:    time.Duration(le.Uint64(b[32:])),
		Started: le.Uint64(b[40:]), Acked: le.Uint64(b[48:]), DataAt: int64(le.Uint64(b[56:])),
		Spoil: Spoil{
			Kind: SpoilKind(b[3]), From: int64(le.Uint32(b[64:])), To: int64(le.Uint32(b[68:])), Bit: int(le.Uint16(b[72:])),
		},
	}, le.Uint64(b[80:]), nil
}
