package disk

import (
	"math/rand/v2"
	"syscall"
	"time"

	"powercut/harness/blocklog"
)

// asked is a request as faults see it.
type asked struct {
	on             Target
	payload        bool          // a write with a payload
	durable        bool          // it is to be on the media when it is answered
	offset, length int64         // of a flush: the disk that it is for; length 0: all
	since          time.Duration // since op 1 was first seen to have begun
}

func (r asked) overlaps(offset, length int64) bool {
	return r.offset < offset+length && offset < r.offset+r.length
}

// targets are the requests of the log, as faults name them.
var targets = map[blocklog.Op]Target{
	blocklog.Read: OnRead, blocklog.Write: OnWrite, blocklog.Zeroes: OnWrite, blocklog.Flush: OnFlush, blocklog.Trim: OnTrim,
}

// decision is what the faults do to a request.
type decision struct {
	errno    syscall.Errno
	noEffect bool
	late     time.Duration // until the flush that has no effect takes one; 0: never
	slow     time.Duration // for how long it is held back
	stall    time.Duration // for how long all are, from it on
	damage   blocklog.Spoil
}

// rule is a fault at work. What it says is a function of the seed and of the
// requests that it was asked about, in their order.
type rule struct {
	Fault
	random  *rand.Rand
	counted int
	spent   bool
	failed  asked // the request that failed last
	again   int   // how often its repetition still fails
}

// newRules returns the faults, each with a source of chance of its own, so that one
// more or less in the list changes nothing for those before it.
func newRules(faults []Fault, seed uint64) []*rule {
	var list []*rule
	for i, f := range faults {
		list = append(list, &rule{Fault: f, random: rand.New(rand.NewPCG(seed, 0x6661756c74+uint64(i)))})
	}
	return list
}

// decide asks every rule, in order. Where several say the same kind of thing the
// first one's word counts; delays add up. A request that fails suffers nothing else
// but delay.
func decide(rules []*rule, r asked) (d decision) {
	for _, rule := range rules {
		if rule.about(r) && rule.hits(r) {
			rule.act(r, &d)
		}
	}
	if d.errno != 0 {
		d.noEffect, d.late, d.damage = false, 0, blocklog.Spoil{}
	}
	return d
}

// hits tells whether a request that the fault is about is one of those it selects.
func (u *rule) hits(r asked) bool {
	if u.again > 0 && r.on == u.failed.on && (r.length == 0 || r.overlaps(u.failed.offset, u.failed.length)) {
		u.again--
		return true
	}
	s := u.Select
	if u.spent || s.Length > 0 && !r.overlaps(s.Offset, s.Length) || r.since < s.After {
		return false
	}
	u.counted++
	if s.Nth > 0 && u.counted != s.Nth || u.counted < s.From {
		return false
	}
	if s.Chance > 0 && u.random.Float64() >= s.Chance {
		return false
	}
	u.spent = s.Once
	if u.Kind == Failing {
		u.failed, u.again = r, u.tries()-1
	}
	return true
}

func (u *rule) tries() int {
	if u.Select.Tries == 0 {
		return Tries
	}
	return u.Select.Tries
}

// act adds what the fault does to a request that it hits.
func (u *rule) act(r asked, d *decision) {
	switch u.Kind {
	case FlushIgnored, FUAIgnored:
		d.noEffect = true
	case FlushLate:
		if !d.noEffect {
			d.noEffect, d.late = true, u.Delay
		}
	case Failing:
		d.errno = syscall.EIO
	case Stalling:
		d.stall += u.Delay
	case Slow:
		d.slow += u.Delay
	case TornWrite:
		if d.damage.Kind == 0 {
			d.damage = u.tear(r)
		}
	case BitRot:
		if d.damage.Kind == 0 {
			d.damage = u.rot(r)
		}
	}
}

// tear chooses the part that does not reach the drive: sectors in a row, and of
// several never all.
func (u *rule) tear(r asked) blocklog.Spoil {
	sectors := r.length / SectorSize
	n := int64(1)
	if sectors > 1 {
		n = 1 + u.random.Int64N(sectors-1)
	}
	from := u.random.Int64N(sectors - n + 1)
	return blocklog.Spoil{Kind: blocklog.Torn, From: from * SectorSize, To: (from + n) * SectorSize}
}

// rot chooses the bit that flips, the same in each sector of the fault's range.
func (u *rule) rot(r asked) blocklog.Spoil {
	from, to := int64(0), r.length
	if s := u.Select; s.Length > 0 {
		from = max(from, (s.Offset-r.offset)/SectorSize*SectorSize)
		to = min(to, (s.Offset+s.Length-r.offset+SectorSize-1)/SectorSize*SectorSize)
	}
	return blocklog.Spoil{Kind: blocklog.Rot, From: from, To: to, Bit: u.random.IntN(8 * SectorSize)}
}
