package campaign

import (
	"fmt"
	"math"
	"slices"

	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/report"
	"powercut/harness/trace"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// seenIn counts what reached the drive from op 1 to the cut: what the mount, the
// file's creation and the flush before op 1 sent is not the workload's.
func seenIn(rec *recording) report.Seen {
	s := report.Seen{GuestCache: rec.drive.WriteCache, GuestFUA: rec.drive.FUA}
	for _, e := range rec.log.Events[:rec.cut.Position] {
		if e.Kind != blocklog.Arrive || e.Started == 0 {
			continue
		}
		switch e.Op {
		case blocklog.Flush:
			s.Flushes++
		case blocklog.Write:
			s.Writes++
			if e.FUA {
				s.FUAWrites++
			}
		}
	}
	return s
}

// firstError is the event at which the drive first had an error in store for a request; of a
// log without one it is the number of events.
func firstError(events []blocklog.Event) int {
	if i := slices.IndexFunc(events, func(e blocklog.Event) bool { return e.Errno != 0 }); i >= 0 {
		return i
	}
	return len(events)
}

// noteError notes in a history, which ends at a position, that the drive had an error in store:
// first is what firstError says of the log.
func noteError(h *verdict.History, events []blocklog.Event, first, at int) {
	if first < at {
		h.Erred, h.Doubtful = true, len(h.Records)-int(min(uint64(len(h.Records)), events[first].Acked))
	}
}

// RecordsUntilError is how many records the ledger had when the drive first had an
// error in store for a request; math.MaxUint64 where it never had.
func RecordsUntilError(events []blocklog.Event) uint64 {
	if i := firstError(events); i < len(events) {
		return events[i].Acked
	}
	return math.MaxUint64
}

// seenInAll adds up what the calls of a run saw.
func seenInAll(calls []report.Call) report.Seen {
	var sum report.Seen
	for _, c := range calls {
		sum.Writes += c.Seen.Writes
		sum.Flushes += c.Seen.Flushes
		sum.FUAWrites += c.Seen.FUAWrites
		if sum.GuestCache == "" {
			sum.GuestCache, sum.GuestFUA = c.Seen.GuestCache, c.Seen.GuestFUA
		}
	}
	return sum
}

// checkFUA makes sure that QEMU does what a device without a write cache owes: to
// mark each write FUA. If it does not (QEMU 7.2 forgets the switch of some
// devices when it restores them) an honest drive loses what was acknowledged, and
// that is no one's fault but the harness's.
func (r *run) checkFUA(rec *recording, seen report.Seen) error {
	d := r.scenario.Drive
	owed := !d.WriteCache && d.Volatile() && r.scenario.Guest.HdparmW != scenarios.On &&
		!hasFault(d, disk.CacheUnadvertised)
	if owed && seen.FUAWrites < seen.Writes {
		return fmt.Errorf("record workload: of %d writes %d reached the drive without FUA, although the device's write cache is off: "+
			"QEMU %s does not keep that switch of the bus %s; use another bus, or a cache mode that tells the guest of a cache",
			seen.Writes, seen.Writes-seen.FUAWrites, r.machine.Version, d.Bus)
	}
	return nil
}

// dropsFUA tells whether QEMU has kept from the drive the FUA that the guest's kernel
// sent.
func (r *run) dropsFUA(seen report.Seen) bool {
	return r.scenario.Drive.DropsFUA() && seen.GuestFUA && seen.FUAWrites == 0
}

// checkBlame refuses to call lost, or unrecoverable, what may be so because QEMU
// dropped FUA. Of a write through the page cache, data that no flush covered is lost by
// any measure, for no file system here sends such data with FUA in place of a flush.
// A synchronous write past the page cache is sent so (iomap_dio_bio_iter,
// fs/iomap/direct-io.c).
func (r *run) checkBlame(c *report.Call, tr *trace.Trace) error {
	if !r.dropsFUA(c.Seen) {
		return nil
	}
	byFUA := workload.Call(c.Call).DirectAndSynchronous()
	blamed := c.Recovery.Class != verdict.Recovered
	for _, f := range c.Findings {
		cover, ok := tr.Cover(f.Op)
		blamed = blamed || byFUA || !ok || cover.Durable
	}
	if !blamed {
		return nil
	}
	return r.fuaDropped()
}

// fuaDropped is the error that nothing can be said for QEMU's sake.
func (r *run) fuaDropped() error {
	return fmt.Errorf("judge: the guest sends FUA to its NVMe drive, and QEMU %s drops it: what was lost here says nothing about the file system; "+
		"use another bus, or a cache mode without guest cache (writethrough, directsync), or say that the drive is so: drive.faults: [fua-ignored]",
		r.machine.Version)
}
