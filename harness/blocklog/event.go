// Package blocklog is the record of everything that a drive was asked and
// answered, in exact order, with the payload of every write.
//
// A log is a sequence of events. Each request gives an Arrive event and, unless
// the power was cut first, a Reply event. A drive that writes its cache back by
// itself adds a Destage event for each write that became durable in that way. The
// position of an event is its index; a cut at position n means that the events
// before n happened and no other.
//
// A log tells what the drive did, not what it should have done: what a fault took
// away, spoilt or failed stands in the event (NoEffect, Spoil, Errno).
package blocklog

import "time"

// Op is what the drive was asked to do.
type Op uint8

// The requests of a drive.
const (
	Read Op = 1 + iota
	Write
	Flush
	Trim
	Zeroes
)

func (o Op) String() string {
	switch o {
	case Read:
		return "read"
	case Write:
		return "write"
	case Flush:
		return "flush"
	case Trim:
		return "trim"
	case Zeroes:
		return "zeroes"
	}
	return "unknown"
}

// Kind tells the events of a request apart.
type Kind uint8

// Arrive is logged when a request has come in and before anything is done for
// it; Reply just before its answer is sent; Destage when a write, trim or write of
// zeroes that was answered without an error became durable because the drive wrote
// it back by itself. A Destage carries no extent: that of its request holds.
const (
	Arrive Kind = 1 + iota
	Reply
	Destage
)

// SpoilKind is what a fault did to a write on its way to the media.
type SpoilKind uint8

// The kinds of spoil.
const (
	Torn SpoilKind = 1 + iota // the part never reached the drive
	Rot                       // one bit of each sector of the part was stored flipped
)

// Spoil is what a fault did to a part of a write, of which the drive itself knows
// nothing. The zero value is none.
type Spoil struct {
	Kind     SpoilKind
	From, To int64 // the part, in bytes from the start of the request: whole sectors
	Bit      int   // Rot: which bit of each sector, from 0 to 4095; bit 8n is the lowest of byte n
}

// Durable tells that a write, zeroes or trim is on the media when it is answered.
func (e Event) Durable() bool { return (e.FUA || e.Through) && !e.NoEffect }

// Flushes tells whether a flush with this extent is for that part of the drive too.
func (e Event) Flushes(offset, length int64) bool {
	return e.Length == 0 || e.Offset <= offset && offset+length <= e.Offset+e.Length
}

// Flip flips what Rot flips in the payload of its write, and is its own inverse.
func (d Spoil) Flip(payload []byte) {
	if d.Kind != Rot {
		return
	}
	for at := d.From; at < d.To; at += sectorSize {
		payload[at+int64(d.Bit/8)] ^= 1 << (d.Bit % 8)
	}
}

// Event is one line of the log.
type Event struct {
	Kind     Kind
	Request  uint64 // number of the request, from 1, in order of arrival
	Op       Op
	FUA      bool // the request asked to be durable before its reply (Force Unit Access)
	Through  bool // the drive held nothing back: its write cache was off
	NoEffect bool // a fault took the effect of the flush, or of FUA and Through, away
	// Offset and Length are in bytes. Those of a flush say which part of the drive it is
	// for: one disk of several (see Flushes). Length 0: all of it.
	Offset, Length int64
	// Errno is 0 or the error that was answered; of an Arrive, that a fault has in
	// store: such a request is never carried out, whether or not it was answered.
	Errno int32
	Spoil Spoil         // Arrive of a write: what did not reach the media as it was sent
	Time  time.Duration // since the log was begun
	// Started and Acked are the ledger's two counts at this event: the op that
	// had begun last, and the number of records published.
	// An op counted in Acked happened before this event.
	Started, Acked uint64
	// DataAt is where the payload of a write lies in the log file, in bytes from
	// its start; 0 where there is none. With a Spoil of Rot it is what was stored,
	// not what was sent; with Torn it is all that was sent.
	DataAt int64
}
