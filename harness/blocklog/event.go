// Package blocklog is the record of everything that a drive was asked and
// answered, in exact order, with the payload of every write.
//
// A log is a sequence of events. Each request gives an Arrive event and, unless
// the power was cut first, a Reply event. The position of an event is its index;
// a cut at position n means that the events before n happened and no other.
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

// Kind tells the two events of a request apart.
type Kind uint8

// Arrive is logged when a request has come in and before anything is done for
// it; Reply just before its answer is sent.
const (
	Arrive Kind = 1 + iota
	Reply
)

// Durable tells that a write, zeroes or trim is on the media when it is answered.
func (e Event) Durable() bool { return (e.FUA || e.Through) && !e.NoEffect }

// Event is one line of the log.
type Event struct {
	Kind     Kind
	Request  uint64 // number of the request, from 1, in order of arrival
	Op       Op
	FUA      bool          // the request asked to be durable before its reply (Force Unit Access)
	Through  bool          // the drive held nothing back: its write cache was off
	NoEffect bool          // a fault took the effect of the flush, or of FUA and Through, away
	Offset   int64         // bytes; 0 for a flush
	Length   int64         // bytes; 0 for a flush
	Errno    int32         // Reply: 0 or the error that was answered
	Time     time.Duration // since the log was begun
	// Started and Acked are the ledger's two counts at this event: the op that
	// had begun last, and the number of records published.
	// An op counted in Acked happened before this event.
	Started, Acked uint64
	// DataAt is where the payload of a write lies in the log file, in bytes from
	// its start; 0 where there is none.
	DataAt int64
}
