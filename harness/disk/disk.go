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
// # Faults
//
// A Fault changes what the drive does to the requests that it selects, and to no
// others. Before op 1 of the workload the drive is honest, so that what ops are
// judged against is on the media; a cache that is not advertised, or bounded, is a
// property of the drive, and has no beginning. Permitted are
//   - a flush without effect, or with one that comes late,
//   - FUA, or write-through, without effect,
//   - a cache that the drive does not admit to, so that nobody sends it a flush,
//   - a request that fails: it is not carried out, and is answered with EIO,
//   - answers that come late,
//   - a write of which a part never reaches the drive, answered all the same,
//   - a write that is stored with flipped bits, answered all the same.
//
// What becomes durable without any flush is not a fault but a habit of real
// drives: a cache that is full, or that writes back what has been in it for long,
// oldest first. Each write that becomes durable so has an event in the log.
//
// Rules are asked in the order of Config.Faults when a request arrives, under the
// drive's lock. All they see is the request, its time and what they were asked
// before, and all that is random comes from Config.Seed: the same requests at the
// same times meet the same faults. What they decide is in the log, which alone
// tells what the drive did.
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
	"slices"
	"sync"
	"syscall"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/nbd"
)

// Config describes a drive.
type Config struct {
	Base io.ReaderAt      // its content at first
	Size int64            // bytes, a multiple of SectorSize
	Log  *blocklog.Writer // where everything is recorded; the drive does not close it
	// WriteCache tells whether writes are answered from the cache, at bus speed, or
	// from the media.
	WriteCache bool
	// Unsafe makes QEMU drop flushes and FUA, as its cache mode unsafe does with a
	// file: its NBD client drops what the server does not offer, and only that,
	// whatever cache.no-flush says (block/nbd.c flushes in bdrv_co_flush_to_os, which
	// no-flush leaves alone).
	Unsafe bool
	Timing Timing // nil: answer at once
	// Faults are what is wrong with the drive; they are asked in this order. Seed is
	// what they draw from.
	Faults []Fault
	Seed   uint64
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
	rules    []*rule
	cache    *cache        // nil where nothing is written back but by flushes
	begun    time.Duration // when op 1 was first seen to have begun; 0: not yet
	stalled  time.Duration // until when nothing is answered

	hidden   bool      // the cache is not advertised
	actuator *actuator // where requests wait for their time; nil where none has to
	idle     sync.WaitGroup
}

// job is a request on its way through the drive.
type job struct {
	request *nbd.Request
	event   blocklog.Event // as it arrived
	reply   func(error)
	held    time.Duration // for how long a fault holds it back
	ready   time.Duration // from when on, therefore, it may be answered
	late    time.Duration // of a flush: when its effect comes after its answer
	order   int           // of a flush: the last change that it covers
	fetched bool          // what a read asks for is there
}

// New returns a drive. Close ends it.
func New(cfg Config) *Drive {
	if cfg.Counts == nil {
		cfg.Counts = func() (uint64, uint64) { return 0, 0 }
	}
	d := &Drive{
		cfg: cfg, media: NewMedia(cfg.Size, cfg.Base, cfg.Log), stopped: make(chan struct{}),
		rules: newRules(cfg.Faults, cfg.Seed), cache: newCache(cfg.Faults),
		hidden: slices.ContainsFunc(cfg.Faults, func(f Fault) bool { return f.Kind == CacheUnadvertised }),
	}
	slow := slices.ContainsFunc(cfg.Faults, func(f Fault) bool { return f.Kind == Slow || f.Kind == Stalling })
	if cfg.Timing != nil || slow {
		d.actuator = &actuator{}
		if cfg.Timing != nil {
			d.actuator.model = cfg.Timing.Model(cfg.Size, cfg.WriteCache)
		}
		d.idle.Go(d.actuate)
	}
	return d
}

// Export is what the drive says of itself to an NBD client.
func (d *Drive) Export() nbd.Export {
	offered := !d.hidden && !d.cfg.Unsafe
	return nbd.Export{Size: d.cfg.Size, Flush: offered, FUA: offered, Trim: true, WriteZeroes: true}
}

// Stop stops the world, if it has not stopped yet, for that reason.
func (d *Drive) Stop(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.done {
		d.catchUp()
	}
	d.stop(reason)
}

func (d *Drive) stop(reason string) {
	if !d.done {
		d.done, d.reason = true, reason
		close(d.stopped)
		if d.actuator != nil {
			d.actuator.wake()
		}
		if err := d.cfg.Log.Settle(); err != nil && d.err == nil {
			d.err = err
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
	d.mu.Lock()
	d.stop("drive closed")
	d.mu.Unlock()
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
		// must not come on top. A read that a fault fails or holds back is left for later.
		e := &j.event
		if e.Op == blocklog.Read && e.Errno == 0 && j.ready == e.Time {
			if j.fetched = d.fetch(&j); !j.fetched {
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

// arrive logs that a request came in, and what faults have in store for it. It is
// false where the world has stopped.
func (d *Drive) arrive(r *nbd.Request, reply func(error)) (job, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.catchUp() {
		return job{}, false
	}
	j := job{request: r, reply: reply, event: blocklog.Event{
		Kind: blocklog.Arrive, Request: d.requests + 1, Op: operations[r.Command],
		FUA: r.FUA, Through: d.through(r), Offset: r.Offset, Length: int64(r.Length),
	}}
	d.observe(&j.event)
	d.meet(&j)
	if r.Command == nbd.Write {
		j.event.Spoil.Flip(r.Data)
	}
	if !d.record(&j.event, r) {
		return job{}, false
	}
	d.requests++
	return j, true
}

// through tells whether a request goes to the media because there is no cache to
// hold it.
func (d *Drive) through(r *nbd.Request) bool {
	cached := d.cfg.WriteCache || d.hidden
	return !cached && r.Command != nbd.Read && r.Command != nbd.Flush
}

// meet lets the faults decide on a request that arrives.
func (d *Drive) meet(j *job) {
	e := &j.event
	if d.cache != nil {
		j.order = d.cache.order
	}
	j.ready = max(e.Time, d.stalled)
	if len(d.rules) == 0 || e.Started == 0 {
		return
	}
	v := decide(d.rules, asked{
		on: targets[e.Op], payload: e.Op == blocklog.Write, durable: e.FUA || e.Through,
		offset: e.Offset, length: e.Length, since: e.Time - d.begun,
	})
	e.Errno, e.NoEffect, e.Spoil = int32(v.errno), v.noEffect, v.damage
	j.late = v.late
	if v.stall > 0 {
		d.stalled = j.ready + v.stall
		j.ready = d.stalled
	}
	j.ready += v.slow
	j.held = v.stall + v.slow
}

// observe fills in when an event happens, and where the ledger stands. The caller
// holds the lock.
func (d *Drive) observe(e *blocklog.Event) {
	e.Started, e.Acked = d.cfg.Counts()
	e.Time = d.cfg.Log.Now()
	if d.begun == 0 && e.Started > 0 {
		d.begun = max(e.Time, 1)
	}
}

// longPayload is from how many bytes on a payload is not copied into the log's memory
// but kept there.
const longPayload = 64 << 10

// record appends an event that was observed to the log, with the payload of the write
// that arrives, if it is one's, unless the world has stopped or stops here. The caller
// holds the lock.
func (d *Drive) record(e *blocklog.Event, arrives *nbd.Request) bool {
	if d.done {
		return false
	}
	if d.cfg.Cut != nil {
		if reason, cut := d.cfg.Cut(d.cfg.Log.Events(), e); cut {
			d.stop(reason)
			return false
		}
	}
	var err error
	switch r := arrives; {
	case r == nil || r.Command != nbd.Write:
		err = d.cfg.Log.Append(e, nil)
	case r.Length < longPayload:
		err = d.cfg.Log.Append(e, r.Data)
	default:
		err = d.cfg.Log.Take(e, r.Data, r.Keep())
	}
	if err != nil {
		d.fail(err)
		return false
	}
	return true
}

// catchUp writes back what is due by now. Nothing that could tell happens between
// two events, so it is early enough to do it before the next one. It is false where
// the world has stopped. The caller holds the lock.
func (d *Drive) catchUp() bool {
	if d.cache == nil || d.done {
		return !d.done
	}
	now := d.cfg.Log.Now()
	for h, ok := d.cache.due(now); ok; h, ok = d.cache.due(now) {
		if !d.destage(h) {
			return false
		}
	}
	return true
}

// makeRoom writes back what the cache cannot hold beside that many bytes.
func (d *Drive) makeRoom(bytes int64) bool {
	for h, ok := d.cache.excess(bytes); ok; h, ok = d.cache.excess(bytes) {
		if !d.destage(h) {
			return false
		}
	}
	return true
}

// destage logs that a change became durable.
func (d *Drive) destage(h held) bool {
	e := blocklog.Event{Kind: blocklog.Destage, Request: h.request, Op: h.op}
	d.observe(&e)
	return d.record(&e, nil)
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
	if !d.apply(&j) {
		return
	}
	if j.event.Errno != 0 {
		j.reply(syscall.Errno(j.event.Errno))
		return
	}
	j.reply(nil)
}

// fetch gets the data of a read before its time has come. Writes that are answered
// until then it need not see: they and the read are in flight together.
func (d *Drive) fetch(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.done && d.read(j)
}

// read gets the data of a read. The caller holds the lock.
func (d *Drive) read(j *job) bool {
	err := readFull(d.media, j.request.Data, j.event.Offset)
	if err != nil {
		d.fail(err)
	}
	return err == nil
}

func (d *Drive) apply(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.catchUp() || !d.carryOut(j) {
		return false
	}
	e := j.event
	e.Kind, e.Spoil = blocklog.Reply, blocklog.Spoil{}
	d.observe(&e)
	return d.record(&e, nil) && (d.cache == nil || d.hold(j, &e))
}

// carryOut does what a request asks for, unless it fails.
func (d *Drive) carryOut(j *job) bool {
	e := &j.event
	switch {
	case e.Errno != 0:
	case e.Op == blocklog.Read:
		if !j.fetched && !d.read(j) {
			return false
		}
	case e.Op != blocklog.Flush:
		if d.cache != nil && e.Op == blocklog.Write && !e.Durable() && !d.makeRoom(e.Length) {
			return false
		}
		d.media.Apply(e, 0, e.Length)
	}
	return true
}

// hold keeps account of what an answer means to the cache.
func (d *Drive) hold(j *job, e *blocklog.Event) bool {
	switch {
	case e.Errno != 0 || e.Op == blocklog.Read:
	case e.Op == blocklog.Flush && j.late > 0:
		d.cache.late = append(d.cache.late, late{at: e.Time + j.late, order: j.order})
	case e.Op == blocklog.Flush:
		if !e.NoEffect {
			d.cache.flushed(j.order)
		}
	case !e.Durable():
		d.cache.admit(e)
		return d.makeRoom(0) // of what is larger than the whole cache nothing stays in it
	}
	return true
}
