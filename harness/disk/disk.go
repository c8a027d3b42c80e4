// Package disk is the drive that a guest is given: media, a volatile write
// cache, mechanics and faults, recorded request by request.
//
// # Fault model
//
// The media writes sectors of 512 bytes, each whole or not at all.
//
// A write is volatile from its arrival until
//   - a flush that arrived after the write's reply is itself answered, or
//   - the write is answered, and carried FUA (Force Unit Access) or found the
//     drive's write cache off.
//
// When the power is cut, each volatile sector is on the media or is not,
// independently of all others; which, is the choice of package crash. Reads see
// every write that was answered.
//
// Faults, each a switch: flushes answered without effect, FUA without effect, and
// a cache that the drive does not admit to, so that nobody sends it a flush.
//
// # The world stops
//
// A drive is asked before each event whether the power is cut there. From that
// moment nothing is recorded, applied or answered any more, whatever else the
// guest still does until it is killed.
//
// # What is kept where
//
// Payloads lie in the block log and nowhere else: the drive keeps a table of
// where each sector is (Media). Which writes are volatile is not kept at all: it
// follows from the log.
package disk

import (
	"io"
	"sync"

	"powercut/harness/blocklog"
	"powercut/harness/nbd"
)

// Faults are the drive's deliberate defects.
type Faults struct {
	FlushIgnored      bool // a flush is answered and has no effect
	FUAIgnored        bool // a FUA write, or any with the cache off, is answered while it is volatile
	CacheUnadvertised bool // the drive offers neither flush nor FUA, and has a cache all the same
}

// Config describes a drive.
type Config struct {
	Base io.ReaderAt      // its content at first
	Size int64            // bytes, a multiple of SectorSize
	Log  *blocklog.Writer // where everything is recorded; the drive does not close it
	// WriteCache tells whether writes are answered from the cache, at bus speed, or
	// from the media.
	WriteCache bool
	Timing     Timing // nil: answer at once
	Faults     Faults
	// Counts reads the ledger: the op that began last and the records published.
	Counts func() (started, acked uint64)
	// Cut is asked before each event, with the position that it would have,
	// whether the world stops instead, and why. It is called under the drive's
	// lock. Nil: never.
	Cut func(position int, e *blocklog.Event) (reason string, cut bool)
}

// Drive implements nbd.Device.
type Drive struct {
	cfg Config

	mu       sync.Mutex // guards all below; never held while a reply is sent
	media    *Media
	requests uint64
	reason   string
	err      error // the first failure to record or to read
	stopped  chan struct{}
	done     bool // stopped is closed

	actuator *actuator // where requests wait for their time; nil without Timing
	idle     sync.WaitGroup
}

// job is a request on its way through the drive.
type job struct {
	request *nbd.Request
	event   blocklog.Event // as it arrived
	reply   func(error)
	fetched bool // what a read asks for is there
}

// New returns a drive. Close ends it.
func New(cfg Config) *Drive {
	if cfg.Counts == nil {
		cfg.Counts = func() (uint64, uint64) { return 0, 0 }
	}
	d := &Drive{cfg: cfg, media: NewMedia(cfg.Size, cfg.Base, cfg.Log), stopped: make(chan struct{})}
	if cfg.Timing != nil {
		d.actuator = &actuator{model: cfg.Timing.Model(cfg.Size, cfg.WriteCache)}
		d.idle.Go(d.actuate)
	}
	return d
}

// Export is what the drive says of itself to an NBD client.
func (d *Drive) Export() nbd.Export {
	honest := !d.cfg.Faults.CacheUnadvertised
	return nbd.Export{Size: d.cfg.Size, Flush: honest, FUA: honest, Trim: true, WriteZeroes: true}
}

// Stop stops the world, if it has not stopped yet, for that reason.
func (d *Drive) Stop(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop(reason)
}

func (d *Drive) stop(reason string) {
	if !d.done {
		d.done, d.reason = true, reason
		if err := d.cfg.Log.Settle(); err != nil && d.err == nil {
			d.err = err
		}
		close(d.stopped)
		if d.actuator != nil {
			d.actuator.wake()
		}
	}
}

// Stopped is closed when the world has stopped.
func (d *Drive) Stopped() <-chan struct{} { return d.stopped }

// Cut tells why the world stopped, and at which position of the log. Err is not
// nil where it was the harness that failed: the log could not be written, or the
// content not be read.
func (d *Drive) Cut() (reason string, position int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason, d.cfg.Log.Events(), d.err
}

// Close stops the world and waits for the drive to come to rest.
func (d *Drive) Close() {
	d.Stop("drive closed")
	d.idle.Wait()
}

// Submit implements nbd.Device.
func (d *Drive) Submit(r *nbd.Request, reply func(error)) {
	j, ok := d.arrive(r, reply)
	if !ok {
		return
	}
	if d.actuator != nil {
		// Getting the data of a read takes this machine time, which is the drive's: it
		// must not come on top.
		if j.event.Op == blocklog.Read {
			if j.fetched = d.fetch(j); !j.fetched {
				return
			}
		}
		at, soon := d.actuator.submit(j, d.cfg.Log.Now)
		if !soon {
			return
		}
		for d.cfg.Log.Now() < at {
		}
	}
	d.finish(j)
}

// operations are the names of the NBD commands in the log.
var operations = map[nbd.Command]blocklog.Op{
	nbd.Read: blocklog.Read, nbd.Write: blocklog.Write, nbd.Flush: blocklog.Flush,
	nbd.Trim: blocklog.Trim, nbd.WriteZeroes: blocklog.Zeroes,
}

// arrive logs that a request came in. It is false where the world has stopped.
func (d *Drive) arrive(r *nbd.Request, reply func(error)) (job, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := blocklog.Event{
		Kind: blocklog.Arrive, Request: d.requests + 1, Op: operations[r.Command],
		FUA: r.FUA, Through: d.through(r), NoEffect: d.noEffect(r), Offset: r.Offset, Length: int64(r.Length),
	}
	var payload []byte
	if r.Command == nbd.Write {
		payload = r.Data
	}
	if !d.record(&e, payload) {
		return job{}, false
	}
	d.requests++
	return job{request: r, event: e, reply: reply}, true
}

// through tells whether a request goes to the media because there is no cache to
// hold it.
func (d *Drive) through(r *nbd.Request) bool {
	cached := d.cfg.WriteCache || d.cfg.Faults.CacheUnadvertised
	return !cached && r.Command != nbd.Read && r.Command != nbd.Flush
}

// noEffect tells whether a fault takes the effect of a flush, or of a write to the
// media, away.
func (d *Drive) noEffect(r *nbd.Request) bool {
	if r.Command == nbd.Flush {
		return d.cfg.Faults.FlushIgnored
	}
	return (r.FUA || d.through(r)) && d.cfg.Faults.FUAIgnored
}

// record completes an event and appends it to the log, unless the world has
// stopped or stops here. The caller holds the lock.
func (d *Drive) record(e *blocklog.Event, payload []byte) bool {
	if d.done {
		return false
	}
	e.Started, e.Acked = d.cfg.Counts()
	e.Time = d.cfg.Log.Now()
	if d.cfg.Cut != nil {
		if reason, cut := d.cfg.Cut(d.cfg.Log.Events(), e); cut {
			d.stop(reason)
			return false
		}
	}
	if err := d.cfg.Log.Append(e, payload); err != nil {
		d.fail(err)
		return false
	}
	return true
}

// fail stops the world because the harness cannot go on. The caller holds the lock.
func (d *Drive) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.stop("the harness failed")
}

// finish applies a request and answers it.
func (d *Drive) finish(j job) {
	if !d.apply(j) {
		return
	}
	j.reply(nil)
}

// fetch gets the data of a read before its time has come. Writes that are answered
// until then it need not see: they and the read are in flight together.
func (d *Drive) fetch(j job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.done && d.read(j)
}

// read gets the data of a read. The caller holds the lock.
func (d *Drive) read(j job) bool {
	err := readFull(d.media, j.request.Data, j.event.Offset)
	if err != nil {
		d.fail(err)
	}
	return err == nil
}

func (d *Drive) apply(j job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return false
	}
	switch e := &j.event; e.Op {
	case blocklog.Read:
		if !j.fetched && !d.read(j) {
			return false
		}
	case blocklog.Write:
		d.media.Write(e.Offset, e.Length, e.DataAt)
	case blocklog.Trim, blocklog.Zeroes:
		d.media.Zero(e.Offset, e.Length)
	}
	e := j.event
	e.Kind = blocklog.Reply
	return d.record(&e, nil)
}
