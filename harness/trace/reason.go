package trace

// Reason says in a few fixed words why the data of an acknowledged op was durable
// at its ack, or not. Unlike Cover.Why it names no request, so that ops can be
// grouped by it; its text stands in reports as it is.
type Reason string

// The reasons why the data of an op was not durable at its ack.
const (
	NoWrite         Reason = "no write before the ack"                   // no request carried the data
	WriteUnanswered Reason = "write unanswered at the ack"               // a request carried it, and was in flight
	WriteFailed     Reason = "write failed"                              // … and was answered with an error
	WriteTorn       Reason = "write torn by the drive"                   // … and this part of it never reached the media, a fault
	WriteRotten     Reason = "write rotten on the media"                 // … and this part of it was stored with a bit flipped, a fault
	NoFlush         Reason = "no flush before the ack"                   // it was answered, and no flush came between its answer and the ack
	OtherDisk       Reason = "no flush of its disk before the ack"       // … but one of the drive's other disk
	FlushEarly      Reason = "flush came before the write was answered"  // one came, too early to cover it
	FlushUnanswered Reason = "flush unanswered at the ack"               // one came in time, and was in flight
	FlushFailed     Reason = "flush failed"                              // … and was answered with an error
	FlushIgnored    Reason = "flush ignored by the drive"                // … and had no effect, a fault
	FUAIgnored      Reason = "FUA ignored by the drive"                  // the write asked for FUA in vain, a fault, and no flush made up for it
	Unadvertised    Reason = "cache never advertised: no flush can come" // a fault: the guest had nothing to flush
	Dropped         Reason = "flushes dropped by QEMU (cache=unsafe)"    // whatever the guest sent, nothing came
)

// The reasons where it was durable. Of an op that is lost all the same
// Cover.LostReason says more than DataDurable.
const (
	NoData           Reason = "no data" // the op wrote nothing
	DataDurable      Reason = "data durable"
	MetadataVolatile Reason = "data durable; metadata not"        // a journal write made during the op, or where there was none one of other metadata, was volatile at the ack
	MetadataSpoilt   Reason = "data durable; metadata spoilt"     // a fault kept a part of such a write from being stored as it was
	MetadataDurable  Reason = "data durable; metadata too"        // each of these was durable
	NoMetadata       Reason = "data durable; no metadata written" // no such write was made during the op
	Replayed         Reason = "data durable; replayed over"       // as the two before, and the journal has a copy of a block of the data
)

// Unknown stands for every reason where there is no log to find one in.
const Unknown Reason = "unknown: no block log"

// LostReasons lists all that Cover.LostReason can return for an op with data.
func LostReasons() []Reason {
	return []Reason{
		NoWrite, WriteUnanswered, WriteFailed, WriteTorn, WriteRotten, NoFlush, OtherDisk, FlushEarly, FlushUnanswered, FlushFailed, FlushIgnored,
		FUAIgnored, Unadvertised, Dropped, MetadataVolatile, MetadataSpoilt, MetadataDurable, NoMetadata, Replayed,
	}
}

// LostReason says why the op, found to be lost, is. Cover.Lost says it in full.
func (c Cover) LostReason() Reason {
	if !c.Durable {
		return c.Reason
	}
	switch _, made, open := c.tables(); {
	case c.Replayed > 0 && len(open) == 0 && len(c.Spoilt) == 0:
		return Replayed
	case len(made) == 0:
		return NoMetadata
	case len(c.Spoilt) > 0:
		return MetadataSpoilt
	case len(open) == 0:
		return MetadataDurable
	}
	return MetadataVolatile
}
