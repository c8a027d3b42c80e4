package verdict

import (
	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// Judge says of each op that had begun what became of it.
//
// What is promised: an op is acknowledged where its record says that its sync
// call returned success, and never where the plan's Call is none. Whether that is a
// promise depends on the call: see Duties. It is one for those of the op's own bytes
// which the call was for, and for a file that is there and long enough to hold
// them. (A later call for other bytes of the op adds nothing: a plan has one range
// for all ops, or each op has its own bytes as its range.) An op that failed, or that had begun and left no record, is promised
// nothing, and may be there, in part or in full; a later success does not change
// that (fsync(2): an error is reported once, and the pages of that write may
// have been dropped since). The file itself, and with Overwrite its first
// content, are promised where op 0 was acknowledged.
//
// How a byte is read: its stamp names the ops that can have written it, among
// those which had begun and cover it. The byte is innocent for an op if one of
// its readings is that op or a later one, acknowledged or not: writes to one
// location take effect in order. If all readings are earlier ops, it is older
// than the op. Zeros are what a file holds before anything was written to it:
// with Append they are the content before the first op, with Overwrite they are
// older than op 0. So is the end of the file. A byte with no reading at all is
// foreign. Bytes are read one by one, whatever their neighbours say, since no
// file system promises which parts of an unfinished write survive.
//
// Where a byte has several readings it is read in the op's favour: an op is never
// accused while an innocent reading of each of its bytes exists.
func Judge(h History, s Survivors) Result {
	j := newJudge(h, s)
	r := Result{Setup: j.setup(), Ops: make([]OpVerdict, 0, j.started), Size: j.badSize(), Stray: j.stray()}
	r.Counts.Ops = j.started
	for k := 1; k <= j.started; k++ {
		v, ambiguous := j.op(k)
		r.Ops = append(r.Ops, v)
		r.Counts.add(v, ambiguous)
		if j.failed[k] {
			r.Counts.Failed++
		}
	}
	return r
}

// add counts one op.
func (c *Counts) add(v OpVerdict, ambiguous bool) {
	if v.Acked {
		c.Acked++
	}
	if ambiguous {
		c.Ambiguous++
	}
	switch v.Class {
	case Kept:
		c.Kept++
	case Lost:
		c.Lost++
	case Unpromised:
		c.Unpromised++
	case Early:
		c.Early++
	case Absent:
		c.Absent++
	case Torn:
		c.Torn++
	case Foreign:
		c.Foreign++
	}
}

// judge holds the two sides of one case: the promises, by op, and the readings
// of the survivors, by segment.
type judge struct {
	plan     workload.Plan
	started  int    // ops 1..started may have touched the file
	owes     []bool // by op, from 0: its ack is a promise, where it is one from 1 on
	acked    []bool // by op, from 0
	failed   []bool // by op, from 0
	exists   bool
	stat     int64 // the file's size, as stat(2) says
	rounding int64 // see Survivors
	*readings
}

// newJudge takes the case apart.
func newJudge(h History, s Survivors) *judge {
	j := &judge{plan: h.Plan, exists: s.Exists}
	var data Content = Bytes(nil)
	if s.Exists {
		j.rounding, j.stat = s.Rounding, s.Size
		if s.Data != nil {
			data = s.Data
		}
	}
	j.started = begun(h)
	j.acked, j.failed, j.owes = make([]bool, j.started+1), make([]bool, j.started+1), make([]bool, j.started+1)
	for i, rec := range h.Records {
		if rec.Op <= uint64(j.started) {
			j.owes[rec.Op] = h.owes(i)
			j.acked[rec.Op] = acked(h.Plan, rec)
			j.failed[rec.Op] = rec.Errno != 0
		}
	}
	j.readings = read(j.plan, j.started, data, min(data.Size(), max(0, j.stat)))
	return j
}

// begun is the last op that had begun. A record is proof of that too: the two are
// published one after the other.
func begun(h History) int {
	last := h.Started
	for _, rec := range h.Records {
		last = max(last, rec.Op)
	}
	return int(min(last, uint64(h.Plan.Count)))
}

// acked tells whether a record is a promise. Op 0 ends with fsync, whatever the
// plan's Call is.
func acked(p workload.Plan, rec ledger.Record) bool {
	return rec.Synced && rec.Errno == 0 && (rec.Op == 0 || p.Call != workload.None)
}

// promised is the part of op k, from 1 on, that must survive; empty where nothing
// must.
func (j *judge) promised(k int) workload.Extent {
	if !j.owes[k] || !j.acked[k] {
		return workload.Extent{}
	}
	if e := j.plan.Synced(k); e.Length > 0 {
		return e
	}
	return workload.Extent{}
}

// op judges one op, and tells whether it is Kept only because of equal stamps.
func (j *judge) op(k int) (v OpVerdict, ambiguous bool) {
	v = OpVerdict{Op: k, Extent: j.plan.Op(k), Acked: j.acked[k]}
	a, b := j.segments(v.Extent)
	foreign, older := j.foreign(a, b), j.older(a, b, k)
	concerned, due := v.Extent, older
	switch promised := j.promised(k); promised {
	case v.Extent:
	case workload.Extent{}:
		due = promised
	default:
		c, d := j.segments(promised)
		if due = j.older(c, d, k); due.Length > 0 {
			a, b, concerned, older = c, d, promised, due
		}
	}
	v.Class = classify(v.Acked, foreign.Length > 0, older.Length > 0, due.Length > 0, j.own[k])
	switch v.Class {
	case Foreign:
		v.Missing, v.Found = foreign, j.quote(foreign)
	case Lost, Unpromised, Absent, Torn:
		v.Missing, v.Found = older, j.describe(j.oldest(a, b))
		if !j.sure(a, b, k) {
			v.Missing = concerned
		}
	case Kept:
		ambiguous = !j.sure(a, b, k)
	}
	return v, ambiguous
}

// setup judges op 0.
func (j *judge) setup() OpVerdict {
	v := OpVerdict{Acked: j.acked[0]}
	if j.plan.Blank() {
		v.Class = classify(v.Acked, false, !j.exists, !j.exists, false)
		if !j.exists {
			v.Found = j.describe(ended)
		}
		return v
	}
	v.Extent = workload.Extent{Length: j.plan.Size}
	n := len(j.low)
	foreign, older := j.unclaimed(), j.older(0, n, 0)
	sure := j.sure(0, n, 0)
	v.Class = classify(v.Acked, foreign.Length > 0, older.Length > 0, older.Length > 0, sure)
	switch v.Class {
	case Foreign:
		v.Missing, v.Found = foreign, j.quote(foreign)
	case Lost, Absent, Torn:
		v.Missing, v.Found = older, j.describe(j.oldest(0, n))
	}
	return v
}

// classify gives an op its class from what was found among its bytes: any that
// are foreign, any that are older, any of these that are due, any that are its own
// for sure.
func classify(acked, foreign, older, due, own bool) Class {
	switch {
	case foreign:
		return Foreign
	case acked && due:
		return Lost
	case acked && older:
		return Unpromised
	case acked:
		return Kept
	case !older:
		return Early
	case own:
		return Torn
	default:
		return Absent
	}
}

// stray is what a file that began blank holds where no op wrote.
func (j *judge) stray() *Stray {
	if !j.plan.Blank() {
		return nil
	}
	e := j.unclaimed()
	if e.Length == 0 {
		return nil
	}
	return &Stray{Extent: e, Found: j.quote(e)}
}
