package campaign

import (
	"fmt"
	"math/rand/v2"
	"time"

	"powercut/harness/blocklog"
	"powercut/scenarios"
)

// trigger decides where the power is cut. It is asked at every event of the drive,
// under the drive's lock, and by the watcher of the ledger, for ops that need no
// drive. Its answer depends on what it is shown alone.
type trigger struct {
	op       uint64        // cut once this op has begun; 0: no such condition
	ack      uint64        // … once this op's record is published
	position int           // … at this position
	after    time.Duration // … so long after op 1 began
	events   int           // further events that pass after op has begun
	reason   string

	begun time.Duration // when op 1 was first seen to have begun; 0: not yet
	seen  int           // events since op has begun
}

// maxExtraEvents bounds how far into an op a random cut lies: a few requests.
const maxExtraEvents = 12

// newTrigger resolves a cut. All that is random comes from the seed.
func newTrigger(c scenarios.Cut, seed uint64) *trigger {
	t := &trigger{op: uint64(c.Op), ack: uint64(c.Ack), position: c.Position, after: c.After}
	switch c.Which() {
	case "op":
		t.reason = fmt.Sprintf("op %d had begun", c.Op)
	case "ack":
		t.reason = fmt.Sprintf("op %d was acknowledged", c.Ack)
	case "position":
		t.reason = fmt.Sprintf("position %d of the block log", c.Position)
	case "after":
		t.reason = fmt.Sprintf("%v after op 1 began", c.After)
	case "random":
		r := rand.New(rand.NewPCG(seed, 0x637574))
		t.op = uint64(c.Random.First + r.IntN(c.Random.Last-c.Random.First+1))
		t.events = r.IntN(maxExtraEvents + 1)
		t.reason = fmt.Sprintf("op %d had begun, and %d events of the drive later (random from the seed)", t.op, t.events)
	}
	return t
}

// withoutEvents makes a trigger for a drive that has no events to count.
func (t *trigger) withoutEvents() *trigger {
	if t.events > 0 {
		t.reason = fmt.Sprintf("op %d had begun (random from the seed)", t.op)
	}
	t.events = 0
	return t
}

// event is asked before the drive logs e at that position.
func (t *trigger) event(position int, e *blocklog.Event) (string, bool) {
	if t.op > 0 && e.Started >= t.op {
		if t.seen >= t.events {
			return t.reason, true
		}
		t.seen++
	}
	if t.position > 0 && position >= t.position {
		return t.reason, true
	}
	return t.at(e.Started, e.Acked, e.Time)
}

// poll is asked every now and then, whether or not the drive has anything to do.
// A cut that lies events into an op waits for these events.
func (t *trigger) poll(started, acked uint64, now time.Duration) (string, bool) {
	if t.op > 0 && t.events == 0 && started >= t.op {
		return t.reason, true
	}
	return t.at(started, acked, now)
}

// at decides what needs no event. Op k is acknowledged once k+1 records are
// published, those of ops 0 to k.
func (t *trigger) at(started, acked uint64, now time.Duration) (string, bool) {
	if t.ack > 0 && acked > t.ack {
		return t.reason, true
	}
	if t.after > 0 && started > 0 {
		if t.begun == 0 {
			t.begun = max(now, 1)
		}
		return t.reason, now-t.begun >= t.after
	}
	return "", false
}
