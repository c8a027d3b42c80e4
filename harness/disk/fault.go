package disk

import "time"

// FaultKind says what a drive does wrong.
type FaultKind string

// The kinds of fault. What each does stands at its name in FAULT_MODEL.md, section 1.
const (
	FlushIgnored      FaultKind = "flush-ignored"      // a flush is answered and has no effect
	FlushLate         FaultKind = "flush-late"         // a flush is answered at once, and takes effect Delay later
	FUAIgnored        FaultKind = "fua-ignored"        // a FUA write, or any with the cache off, is answered while it is volatile
	CacheUnadvertised FaultKind = "cache-unadvertised" // the drive offers neither flush nor FUA, and has a cache all the same
	Failing           FaultKind = "eio"                // a request is not carried out, and is answered with EIO
	Stalling          FaultKind = "stall"              // from a request on nothing is answered for Delay
	Slow              FaultKind = "slow"               // a request is answered Delay later; others are not held up
	TornWrite         FaultKind = "torn"               // only a part of a write's sectors reaches the drive, which answers it all the same
	BitRot            FaultKind = "bit-rot"            // a write is stored with one bit of each sector flipped
	BoundedCache      FaultKind = "cache"              // the cache holds Size bytes; to hold more it writes its oldest back
	Destaging         FaultKind = "destage"            // what has been in the cache for Delay is written back
)

// Target names requests that a fault of several can be about.
type Target string

// The targets.
const (
	OnRead  Target = "read"
	OnWrite Target = "write" // writes of zeroes too
	OnFlush Target = "flush"
	OnTrim  Target = "trim"
	OnAny   Target = "any"
)

// Tries is how often a guest's driver sends a request that fails before it gives
// up, where it is an ATA or SCSI disk of Linux: once, and SD_MAX_RETRIES times more
// (drivers/scsi/sd.h).
const Tries = 6

// Fault is one thing that is wrong with a drive, or (BoundedCache, Destaging) a
// habit of its cache. Which fields mean something depends on Kind. Fault is
// comparable.
type Fault struct {
	Kind   FaultKind
	On     Target        // Failing, Stalling, Slow; and OnWrite with TornWrite
	Delay  time.Duration // FlushLate, Stalling, Slow, Destaging
	Size   int64         // BoundedCache, bytes
	Select Select        // none with CacheUnadvertised, BoundedCache and Destaging
}

// Select says which requests a fault hits: of those that it is about, those that
// arrive once op 1 has begun and that each field agrees to. The zero value is all.
type Select struct {
	// Nth is the number of the only request that is hit, and From that of the first
	// one; 0: no such condition. Counted, from 1, are the requests that the fault is
	// about and that Range and After agree to.
	Nth, From int
	// Range is where on the drive, in bytes: requests that overlap Offset, Length. A flush
	// of one disk of several overlaps that disk; one of all the drive has no place.
	// Length 0: anywhere. Of a request that BitRot hits only that part is spoilt.
	Offset, Length int64
	After          time.Duration // requests that arrive this long after op 1 was first seen to have begun
	Chance         float64       // the probability of a hit, from the drive's seed; 0: certain
	Once           bool          // only the first that all else agrees to
	// Tries is how often in a row, with Failing, a request fails that was hit: the
	// guest's driver repeats it. A repetition is a request of the same kind that
	// overlaps the first one; it is not counted as a request of its own. 0: Tries.
	Tries int
}

// about tells whether requests of that kind are what the fault is about.
func (f Fault) about(r asked) bool {
	switch f.Kind {
	case FlushIgnored, FlushLate:
		return r.on == OnFlush
	case FUAIgnored:
		return r.durable
	case TornWrite, BitRot:
		return r.payload
	case Failing, Stalling, Slow:
		return f.On == OnAny || f.On == r.on
	}
	return false
}
