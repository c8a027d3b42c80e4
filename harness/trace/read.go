package trace

import (
	"fmt"
	"io"

	"powercut/guest/ledger"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
)

// Input is what a trace is read from.
type Input struct {
	Events  []blocklog.Event // up to the cut
	Payload io.ReaderAt      // holds the payload of a write at its DataAt
	Plan    workload.Plan    // the zero Plan where it is not known: then no write is Data
	Records []ledger.Record  // in order of publication, to the last one before the cut
	// Base is the formatted image that the guest mounted, its file system at
	// offset 0. Where it is nil, or holds no file system of the ext family, the
	// journal is told by the magic of its blocks alone.
	Base io.ReaderAt
	// JournalAt is where on the drive a second disk begins, which holds the journal, in
	// bytes; 0: there is none.
	JournalAt int64
	// CacheAdvertised: the drive told the guest's side that it has a cache to be
	// flushed. Where it did not, no flush can reach it.
	CacheAdvertised bool
	// Unsafe: QEMU drops the guest's flushes and FUA flags (its cache mode unsafe).
	Unsafe bool
	// Readers: others read from the drive while ops run, so that reads are on no op's
	// bill.
	Readers bool
	// Lag is the number of ops that may have begun before the log knew of it: 0
	// with a ledger in memory, whose counts are exact.
	Lag int
}

// threads is how many ops may run at the same time.
func (in Input) threads() int { return max(1, in.Plan.Threads) }

// disk names the disk that a place on the drive belongs to.
func (in Input) disk(offset int64) string {
	switch {
	case in.JournalAt == 0:
		return "the drive"
	case offset < in.JournalAt:
		return "the file system's disk"
	}
	return "the journal's disk"
}

func (in Input) lag() uint64 { return uint64(max(in.Lag, 0)) }

// Trace is a block log, understood.
type Trace struct {
	Requests []Request // Requests[i] has the number i+1
	Bill     Bill
	// Covers holds one entry for each acknowledged op, ascending, the creation of
	// the file (op 0) included.
	Covers []Cover
	// Journal is where the journal lies on the drive, in the order of its blocks;
	// empty where there is none, or it could not be told.
	Journal []workload.Extent
	// LogFrom is the first of these blocks that is one of the log: those before it are
	// superblocks.
	LogFrom int64
	// BlockSize of the file system in bytes, 0 where it could not be told.
	BlockSize int64
}

// MaxPayload is the length in bytes of the longest write that Read accepts, twice
// what an NBD client may send (32 MiB).
const MaxPayload = 64 << 20

// Read makes a trace of a log. It fails where the log contradicts itself (a reply
// to nothing, a request that is out of order), where a payload or the base image
// cannot be read, and where the plan is impossible.
func Read(in Input) (*Trace, error) {
	if err := in.Plan.Validate(); err != nil && in.Plan != (workload.Plan{}) {
		return nil, fmt.Errorf("check plan: %w", err)
	}
	lay, err := readLayout(in.Base, in.JournalAt)
	if err != nil {
		return nil, fmt.Errorf("read file system layout: %w", err)
	}
	t := &Trace{Journal: lay.journal, LogFrom: lay.logFrom, BlockSize: lay.blockSize}
	if t.Requests, err = join(in.Events, in.Records, in.threads()); err != nil {
		return nil, fmt.Errorf("join requests: %w", err)
	}
	found, err := classify(t.Requests, in, lay)
	if err != nil {
		return nil, fmt.Errorf("classify requests: %w", err)
	}
	t.Bill = bill(t.Requests, in)
	t.Covers = covers(t.Requests, found, in)
	return t, nil
}

// join gathers the events of each request. It fills all of Request but Class,
// Detail and Ops.
func join(events []blocklog.Event, records []ledger.Record, threads int) ([]Request, error) {
	done := finished(records)
	reqs := make([]Request, 0, len(events)/2+1)
	for i, e := range events {
		switch e.Kind {
		case blocklog.Arrive:
			if e.Request != uint64(len(reqs))+1 {
				return nil, fmt.Errorf("event %d: request %d arrives where %d is due", i, e.Request, len(reqs)+1)
			}
			r := arrived(e, i)
			r.During = during(e, done, threads)
			reqs = append(reqs, r)
		case blocklog.Reply:
			if e.Request == 0 || e.Request > uint64(len(reqs)) {
				return nil, fmt.Errorf("event %d: reply to request %d, which never arrived", i, e.Request)
			}
			r := &reqs[e.Request-1]
			if r.Reply >= 0 {
				return nil, fmt.Errorf("event %d: second reply to request %d", i, e.Request)
			}
			r.Reply, r.ReplyAt, r.Errno = i, e.Time, e.Errno
			r.NoEffect = r.NoEffect || e.NoEffect
		case blocklog.Destage:
			if e.Request == 0 || e.Request > uint64(len(reqs)) {
				return nil, fmt.Errorf("event %d: request %d is destaged, which never arrived", i, e.Request)
			}
			reqs[e.Request-1].Destage = i
		default:
			return nil, fmt.Errorf("event %d: unknown kind %d", i, e.Kind)
		}
	}
	return reqs, nil
}

func arrived(e blocklog.Event, at int) Request {
	return Request{
		Number: e.Request, Op: e.Op, FUA: e.FUA, NoEffect: e.NoEffect, Through: e.Through,
		Offset: e.Offset, Length: e.Length, Errno: e.Errno, Spoil: e.Spoil,
		Arrive: at, Reply: -1, Destage: -1, ArriveAt: e.Time,
	}
}

// finished maps each op that has a record to the count of published records from
// which on it is known to be over.
func finished(records []ledger.Record) map[uint64]uint64 {
	done := make(map[uint64]uint64, len(records))
	for i, r := range records {
		done[r.Op] = uint64(i) + 1
	}
	return done
}

// during tells which op was running at an event: the one that had begun last of
// those whose record was not yet there. Ops that run at the same time are fewer
// than the threads apart.
func during(e blocklog.Event, done map[uint64]uint64, threads int) int {
	for op := e.Started; ; op-- {
		if n, ok := done[op]; !ok || e.Acked < n {
			return int(op)
		}
		if op == 0 || e.Started-op+1 >= uint64(threads) {
			return Between
		}
	}
}
