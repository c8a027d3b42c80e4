package trace

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"powercut/guest/ledger"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
)

// Unsafe lists the acknowledged ops, op 0 left out, whose data was not durable
// when they were acknowledged. Whether a cut loses it is then up to the drive's
// cache. It is known before any crash state is recovered.
func (t *Trace) Unsafe() []Cover {
	var list []Cover
	for _, c := range t.Covers {
		if c.Op > 0 && !c.Durable {
			list = append(list, c)
		}
	}
	return list
}

// Cover returns what is known of an acknowledged op, and false where the op was
// not acknowledged.
func (t *Trace) Cover(op int) (Cover, bool) {
	i, ok := slices.BinarySearchFunc(t.Covers, op, func(c Cover, op int) int { return cmp.Compare(c.Op, op) })
	if !ok {
		return Cover{}, false
	}
	return t.Covers[i], true
}

// never is a position after every log.
const never = int(^uint(0) >> 1)

// coverer holds what covers needs of a log, sorted to be searched.
type coverer struct {
	in      Input
	reqs    []Request
	carries []carry // by sector, then in order of arrival
	found   *classifier
	flushes []int // indices of all flush requests, in order of arrival
	sets    []flushSet
}

// flushSet are the flushes for one part of the drive that took effect, in order of
// arrival; soonest holds the one of effective[i:] that was answered first.
type flushSet struct{ effective, soonest []int }

// covers says for each acknowledged op how durable its data was.
func covers(reqs []Request, found *classifier, in Input) []Cover {
	carries := found.carries
	slices.SortStableFunc(carries, func(a, b carry) int { return cmp.Compare(a.sector, b.sector) })
	c := &coverer{in: in, reqs: reqs, carries: carries, found: found}
	c.indexFlushes()
	var list []Cover
	for _, w := range windows(in) {
		list = append(list, c.cover(w))
	}
	slices.SortFunc(list, func(a, b Cover) int { return cmp.Compare(a.Op, b.Op) })
	return list
}

func (c *coverer) indexFlushes() {
	for i, r := range c.reqs {
		if r.Op != blocklog.Flush {
			continue
		}
		c.flushes = append(c.flushes, i)
		if !r.NoEffect && r.Reply >= 0 && r.Errno == 0 {
			s := c.setOf(r)
			s.effective = append(s.effective, i)
		}
	}
	for k := range c.sets {
		s := &c.sets[k]
		s.soonest = slices.Clone(s.effective)
		for i := len(s.soonest) - 2; i >= 0; i-- {
			if c.reqs[s.soonest[i+1]].Reply < c.reqs[s.soonest[i]].Reply {
				s.soonest[i] = s.soonest[i+1]
			}
		}
	}
}

// setOf is the set of the flushes for the same part as a flush.
func (c *coverer) setOf(flush Request) *flushSet {
	for k := range c.sets {
		if o := c.reqs[c.sets[k].effective[0]]; o.Offset == flush.Offset && o.Length == flush.Length {
			return &c.sets[k]
		}
	}
	c.sets = append(c.sets, flushSet{})
	return &c.sets[len(c.sets)-1]
}

// durable returns the position from which on the write is durable, or never, and
// the index of the flush that made it so, or -1.
func (c *coverer) durable(r Request) (at, flush int) {
	switch {
	case r.Reply < 0 || r.Errno != 0:
		return never, -1
	case (r.FUA || r.Through) && !r.NoEffect:
		return r.Reply, -1
	}
	at, flush = never, -1
	for _, s := range c.sets {
		if !c.reqs[s.effective[0]].Flushes(r) {
			continue
		}
		if i := c.after(s.effective, r.Reply); i < len(s.effective) && c.reqs[s.soonest[i]].Reply < at {
			at, flush = c.reqs[s.soonest[i]].Reply, s.soonest[i]
		}
	}
	if r.Destage >= 0 && r.Destage < at {
		return r.Destage, -1
	}
	return at, flush
}

// after is the place in a list of requests of the first that arrived after a position.
func (c *coverer) after(list []int, position int) int {
	return sort.Search(len(list), func(i int) bool { return c.reqs[list[i]].Arrive > position })
}

// window is the stretch of the log in which an acknowledged op ran.
type window struct {
	op      int
	from    int // position of the first event that knows the op to have begun
	to      int // position of the first event that counts it as acked, or of the cut
	ackTime time.Duration
}

// windows finds the acknowledged ops in the log.
func windows(in Input) []window {
	begun, acked := firsts(in.Events, func(e blocklog.Event) uint64 { return e.Started }), 0
	var list []window
	for i, r := range in.Records {
		for acked < len(in.Events) && in.Events[acked].Acked <= uint64(i) {
			acked++
		}
		if !isAcked(r) || r.Op > uint64(in.Plan.Count) {
			continue
		}
		list = append(list, window{
			op: int(r.Op), from: begun(max(r.Op, in.lag()) - in.lag()),
			to: acked, ackTime: timeAt(in.Events, acked),
		})
	}
	return list
}

func isAcked(r ledger.Record) bool { return r.Synced && r.Errno == 0 }

// firsts returns a function that finds the first event whose count, which never
// falls, is at least n.
func firsts(events []blocklog.Event, count func(blocklog.Event) uint64) func(n uint64) int {
	return func(n uint64) int {
		return sort.Search(len(events), func(i int) bool { return count(events[i]) >= n })
	}
}

// timeAt is the time of an event, or for the cut that of the last event.
func timeAt(events []blocklog.Event, at int) time.Duration {
	if at < len(events) {
		return events[at].Time
	}
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Time
}

// part is the state at the ack of a sector that an op wrote to, and of those after it that
// have the same.
type part struct {
	sector int32 // the first
	writes []int // indices of the requests that carried it before the ack
	spoilt []int // and of these those that a fault kept from storing it as it was
	at     int   // where it became durable, or never
	write  int   // index of the request that did it, where at is not never
	flush  int   // and of the flush, or -1
	place  int64 // of the sector in that write, on the drive
}

// like tells whether two sectors have the same state.
func (p part) like(o part) bool {
	return p.at == o.at && p.write == o.write && p.flush == o.flush && slices.Equal(p.writes, o.writes) && slices.Equal(p.spoilt, o.spoilt)
}

// cover judges one op.
func (c *coverer) cover(w window) Cover {
	var parts []part
	var writes []int
	for s, end := sectorsOf(c.extent(w.op)); s < end; s++ {
		p := c.part(s, w)
		if n := len(parts); n > 0 && parts[n-1].like(p) {
			continue
		}
		parts = append(parts, p)
		writes = append(writes, p.writes...)
	}
	slices.Sort(writes)
	x := explanation{c, w, parts}
	v := Cover{Op: w.op, AckAt: w.to, AckTime: w.ackTime, Durable: true}
	v.Writes = c.numbers(slices.Compact(writes))
	for _, p := range parts {
		v.Durable = v.Durable && p.at < w.to
		if p.write >= 0 && c.reqs[p.write].Class != Journal {
			v.Replayed = max(v.Replayed, c.found.copied[p.place-p.place%c.found.journal.blockSize])
		}
	}
	x.during(&v)
	v.Reason, v.Why = x.because()
	return v
}

// extent is what an op writes and its sync call is for; the whole first content for
// op 0.
func (c *coverer) extent(op int) workload.Extent {
	if op > 0 {
		return c.in.Plan.Synced(op)
	}
	return firstExtent(c.in.Plan)
}

// part looks at the writes that carried a sector while the op ran.
func (c *coverer) part(s int32, w window) part {
	p := part{sector: s, at: never, write: -1, flush: -1}
	for _, v := range c.carriesOf(s, w.from) {
		r := c.reqs[v.request]
		if r.Arrive >= w.to {
			break
		}
		if int(v.op) < w.op {
			continue
		}
		p.writes = append(p.writes, int(v.request))
		if v.spoilt {
			p.spoilt = append(p.spoilt, int(v.request))
			continue
		}
		if at, flush := c.durable(r); at < p.at {
			p.at, p.write, p.flush, p.place = at, int(v.request), flush, v.at
		}
	}
	return p
}

// carriesOf lists what carried a sector, from a position in the log on.
func (c *coverer) carriesOf(s int32, from int) []carry {
	i := sort.Search(len(c.carries), func(i int) bool {
		v := c.carries[i]
		return v.sector > s || v.sector == s && c.reqs[v.request].Arrive >= from
	})
	j := i + sort.Search(len(c.carries)-i, func(j int) bool { return c.carries[i+j].sector > s })
	return c.carries[i:j]
}

// during lists the other writes that were made while the op ran.
func (x explanation) during(v *Cover) {
	i := sort.Search(len(x.reqs), func(i int) bool { return x.reqs[i].Arrive >= x.w.from })
	for ; i < len(x.reqs) && x.reqs[i].Arrive < x.w.to; i++ {
		r := x.reqs[i]
		switch {
		case !r.writes() || r.During != x.w.op && x.in.threads() == 1:
			continue
		case r.Class == Journal:
			v.Journal = append(v.Journal, r.Number)
		case r.Class == Metadata:
			v.Metadata = append(v.Metadata, r.Number)
		default:
			continue
		}
		if r.Spoil.Kind != 0 {
			v.Spoilt = append(v.Spoilt, r.Number)
		}
		if at, _ := x.durable(r); at >= x.w.to {
			if x.in.JournalAt > 0 && len(v.Volatile) == 0 && r.Reply >= 0 && r.Reply < x.w.to {
				_, v.Unflushed = x.flushed(r)
			}
			v.Volatile = append(v.Volatile, r.Number)
		}
	}
}

func (c *coverer) numbers(indices []int) []uint64 {
	var list []uint64
	for _, i := range indices {
		list = append(list, c.reqs[i].Number)
	}
	return list
}
