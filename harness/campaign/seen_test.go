package campaign

import (
	"strings"
	"testing"

	"powercut/harness/blocklog"
	"powercut/harness/machine"
	"powercut/harness/report"
	"powercut/scenarios"
)

// TestSeenIn: what came before op 1, what was read, and what came after the cut do
// not count.
func TestSeenIn(t *testing.T) {
	log := &blocklog.Log{}
	add := func(op blocklog.Op, fua bool, started uint64) {
		log.Events = append(log.Events,
			blocklog.Event{Kind: blocklog.Arrive, Op: op, FUA: fua, Started: started},
			blocklog.Event{Kind: blocklog.Reply, Op: op, FUA: fua, Started: started})
	}
	add(blocklog.Write, true, 0)
	add(blocklog.Flush, false, 0)
	add(blocklog.Write, false, 1)
	add(blocklog.Read, false, 1)
	add(blocklog.Flush, false, 1)
	add(blocklog.Write, true, 2)
	cut := len(log.Events)
	add(blocklog.Flush, false, 3)
	got := seenIn(&recording{log: log, cut: cutPoint{Position: cut}})
	if want := (report.Seen{Writes: 2, Flushes: 1, FUAWrites: 1}); got != want {
		t.Errorf("seen %+v, want %+v", got, want)
	}
}

// TestCheckFUA: a QEMU that forgets that a device's cache is off is found out; one
// that owes no FUA is not accused.
func TestCheckFUA(t *testing.T) {
	all, some := report.Seen{Writes: 9, FUAWrites: 9}, report.Seen{Writes: 9, FUAWrites: 8}
	for _, c := range []struct {
		set    string
		seen   report.Seen
		broken bool
	}{
		{"drive.cache=writethrough", some, true},
		{"drive.cache=directsync", report.Seen{Writes: 1}, true},
		{"drive.cache=writethrough", all, false},
		{"drive.cache=writeback", some, false},
		{"drive.cache=unsafe", some, false},
		{"drive.write-cache=off", some, false}, // the drive writes through by itself
		{"drive={cache: writethrough, faults: [cache-unadvertised]}", some, false},
		{"drive={cache: writethrough, faults: [flush-ignored]}", some, true},
	} {
		r := &run{scenario: load(t, "barrier-on", c.set), machine: &machine.Machine{}}
		if err := r.checkFUA(nil, c.seen); (err != nil) != c.broken {
			t.Errorf("%s, %+v: %v", c.set, c.seen, err)
		}
	}
	r := &run{scenario: load(t, "barrier-on", "drive.cache=writethrough", "guest.hdparm-w=on"), machine: &machine.Machine{}}
	if err := r.checkFUA(nil, some); err != nil {
		t.Errorf("the guest has switched the cache on: %v", err)
	}
}

// appended are ops that each change the file's size, and so hang on a commit of
// the journal, which ext4 sends with FUA where it can.
const appended = "workload={kind: append, count: 64, bytes: 512, stride: 512, calls: [O_DSYNC]}"

// TestNVMeDropsFUA: that QEMU's NVMe controller drops FUA is never the file
// system's loss: it is an error of the harness, until the scenario says that the
// drive is so, or QEMU marks the writes itself.
func TestNVMeDropsFUA(t *testing.T) {
	l := newLab(t)
	set := func(more ...string) scenarios.Scenario {
		return load(t, "barrier-on", append([]string{appended, "drive.bus=nvme", "cut={ack: 30}"}, more...)...)
	}
	_, err := l.Run(t.Context(), set(), 1)
	if err == nil || !strings.Contains(err.Error(), "drops it") {
		t.Errorf("on nvme: %v", err)
	}
	past := "workload={kind: overwrite, count: 64, size: 256KiB, bytes: 4096, stride: 4096, calls: [O_DIRECT+O_DSYNC]}"
	_, err = l.Run(t.Context(), load(t, "xfs-overwrite", past, "drive.bus=nvme", "cut={ack: 30}"), 1)
	if err == nil || !strings.Contains(err.Error(), "drops it") {
		t.Errorf("writes past the page cache, of XFS on nvme: %v", err)
	}
	if doc := runScenario(t, l, set("drive.faults=[fua-ignored]", "expect.lost=some"), 1); !doc.Held {
		t.Errorf("FUA ignored, as the scenario says:\n%s", table(t, doc))
	}
	if doc := runScenario(t, l, set("drive.cache=writethrough"), 1); !doc.Held || doc.Drive.Seen.FUAWrites != doc.Drive.Seen.Writes {
		t.Errorf("FUA from QEMU:\n%s", table(t, doc))
	}
	if doc := runScenario(t, l, load(t, "barrier-on", appended, "drive.bus=scsi-hd", "cut={ack: 30}"), 1); !doc.Held || !doc.Drive.Seen.GuestFUA {
		t.Errorf("on scsi-hd, where QEMU flushes after each FUA write:\n%s", table(t, doc))
	}
}
