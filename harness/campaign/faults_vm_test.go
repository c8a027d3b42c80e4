package campaign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"powercut/harness/blocklog"
	"powercut/harness/report"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// oneCall runs a scenario with one sync call.
func oneCall(t *testing.T, l *Lab, seed uint64, name, call string, set ...string) (*report.Document, report.Call) {
	t.Helper()
	doc := runScenario(t, l, load(t, name, append(set, "workload.calls=["+call+"]")...), seed)
	return doc, doc.Calls[0]
}

// eventsOf reads the block log of a call.
func eventsOf(t *testing.T, doc *report.Document, c report.Call) []blocklog.Event {
	t.Helper()
	l, err := blocklog.Open(filepath.Join(doc.Folder, c.Folder, logFile))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Events
}

func consoleOf(t *testing.T, doc *report.Document, c report.Call) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(doc.Folder, c.Folder, "console.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// failedRequests counts the answers with an error, by kind of request.
func failedRequests(events []blocklog.Event) map[blocklog.Op]int {
	out := map[blocklog.Op]int{}
	for _, e := range events {
		if e.Kind == blocklog.Reply && e.Errno != 0 {
			out[e.Op]++
		}
	}
	return out
}

// TestWriteErrors: an error of a data write reaches the guest as one of its disk,
// after its driver has tried six times, and every descriptor that was open is told
// once: a second sync call succeeds. Nothing of that op is acknowledged.
func TestWriteErrors(t *testing.T) {
	l := newLab(t)
	for _, call := range []string{"fdatasync", "O_SYNC"} {
		doc, c := oneCall(t, l, 1, "write-error", call)
		want := report.Errors{First: 5, Errno: "EIO", Last: "EIO", Count: 1, Asked: 2, Told: 2, Again: "success"}
		if c.Errors == nil || *c.Errors != want || c.Counts.Failed != 1 || !doc.Held {
			t.Errorf("%s: errors %+v, want %+v:\n%s", call, c.Errors, want, table(t, doc))
		}
		if n := failedRequests(eventsOf(t, doc, c)); n[blocklog.Write] != 6 || len(n) != 1 {
			t.Errorf("%s: requests that failed: %v, want 6 writes", call, n)
		}
		if console := consoleOf(t, doc, c); !strings.Contains(console, "I/O error, dev sda") || strings.Contains(console, "Aborting journal") {
			t.Errorf("%s: console:\n%s", call, console)
		}
	}
}

// TestTransientError: an error that does not last is made up for by the guest's
// driver, and nobody hears of it.
func TestTransientError(t *testing.T) {
	doc, c := oneCall(t, newLab(t), 1, "write-error", "fdatasync", "drive.faults=[eio write nth=5 tries=1]", "expect={failed: 0}")
	if n := failedRequests(eventsOf(t, doc, c)); !doc.Held || n[blocklog.Write] != 1 || c.Errors != nil {
		t.Errorf("requests that failed: %v, errors %+v:\n%s", n, c.Errors, table(t, doc))
	}
}

// TestFlushErrors: the sync call whose flush fails says so, at least to its caller.
func TestFlushErrors(t *testing.T) {
	l := newLab(t)
	doc, c := oneCall(t, l, 1, "flush-error", "fdatasync")
	if e := c.Errors; e == nil || e.First != 9 || e.Errno != "EIO" || e.Count != 1 || c.Counts.Lost != 0 {
		t.Errorf("fdatasync: errors %+v:\n%s", e, table(t, doc))
	}
	if n := failedRequests(eventsOf(t, doc, c)); n[blocklog.Flush] != 6 || len(n) != 1 {
		t.Errorf("fdatasync: requests that failed: %v, want 6 flushes", n)
	}
	doc, c = oneCall(t, l, 1, "flush-error", "fsync")
	if e := c.Errors; e == nil || e.Errno != "EIO" || c.Counts.Lost != 0 || !strings.Contains(consoleOf(t, doc, c), "I/O error, dev sda") {
		t.Errorf("fsync: errors %+v:\n%s\n%s", e, table(t, doc), consoleOf(t, doc, c))
	}
}

// TestJournalErrors: a journal that cannot be written is given up, the file system
// becomes read-only, and each op after that says so.
func TestJournalErrors(t *testing.T) {
	doc, c := oneCall(t, newLab(t), 1, "journal-error", "fsync")
	if e := c.Errors; e == nil || e.Errno != "EIO" || e.Last != "EROFS" || e.Count < 10 || c.Counts.Lost != 0 {
		t.Errorf("errors %+v:\n%s", e, table(t, doc))
	}
	console := consoleOf(t, doc, c)
	for _, line := range []string{"Aborting journal on device sda", "EXT4-fs error"} {
		if !strings.Contains(console, line) {
			t.Errorf("the console has no %q:\n%s", line, console)
		}
	}
}

// TestJournalErrorsSyncfs: syncfs alone says nothing of it, and writes nothing.
func TestJournalErrorsSyncfs(t *testing.T) {
	doc, c := oneCall(t, newLab(t), 1, "journal-error", "syncfs", "expect={lost: some}")
	if e := c.Errors; e == nil || e.Errno != "EIO" || e.Count != 1 || !doc.Held {
		t.Fatalf("errors %+v:\n%s", e, table(t, doc))
	}
	for _, f := range c.Findings {
		if f.Class == verdict.Lost && (uint64(f.Op) <= c.Errors.First || f.Reason != trace.NoWrite) {
			t.Errorf("op %d is lost: %s", f.Op, f.Why)
		}
	}
}

// TestErrorsAreNoLoss: whatever fails, for good, from some request on, what was
// acknowledged before is kept, and nothing after it is acknowledged.
func TestErrorsAreNoLoss(t *testing.T) {
	l := newLab(t)
	for _, fault := range []string{"eio write from=9", "eio flush from=9", "eio any from=30"} {
		doc, c := oneCall(t, l, 2, "barrier-on", "fsync", "drive.faults=["+fault+"]", "cut={op: 30}", "workload.observers=1")
		if c.Counts.Acked == 0 || c.Counts.Lost != 0 || c.Counts.Failed == 0 || !doc.Held {
			t.Errorf("%s:\n%s", fault, table(t, doc))
		}
	}
}

// TestOneIgnoredFlush: of one flush that is ignored, only what it was to make
// durable is lost; nothing if a later one makes up for it, or the cut keeps all.
func TestOneIgnoredFlush(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		set  string
		lost int
	}{{"cut={ack: 20}", 1}, {"cut={ack: 25}", 0}, {"at-cut=keep", 0}} {
		doc, call := oneCall(t, l, 1, "flush-ignored-once", "fdatasync", c.set, "expect={lost: \"<= 1\"}")
		if call.Counts.Lost != c.lost || c.lost == 1 && call.Findings[0].Reason != trace.FlushIgnored {
			t.Errorf("%s:\n%s", c.set, table(t, doc))
		}
	}
	doc, call := oneCall(t, l, 1, "flush-ignored", "fsync", "at-cut=keep", "expect={lost: 0}")
	if !doc.Held || call.Counts.Acked == 0 {
		t.Errorf("all flushes ignored, and all kept:\n%s", table(t, doc))
	}
}

// TestWrittenBack: without barriers what the drive wrote back by itself survives a
// cut that loses the cache, and what it had not is lost. The log says which.
func TestWrittenBack(t *testing.T) {
	doc, c := oneCall(t, newLab(t), 1, "barrier-off", "fdatasync", "drive.faults=[cache 32KiB]", "cut={ack: 40}")
	if c.Counts.Kept == 0 || c.Counts.Lost == 0 || !doc.Held {
		t.Fatalf("kept and lost:\n%s", table(t, doc))
	}
	written := map[uint64]bool{}
	for _, e := range eventsOf(t, doc, c) {
		if e.Kind == blocklog.Destage {
			written[e.Request] = true
		}
	}
	for _, f := range c.Findings {
		for _, n := range f.CarriedBy {
			if written[n] {
				t.Errorf("op %d is lost, and request %d, which carried it, was written back", f.Op, n)
			}
		}
	}
	if c.Counts.Lost > 8 { // 32 KiB hold eight pages
		t.Errorf("%d ops are lost of a cache of 8 pages", c.Counts.Lost)
	}
}

// TestHonestCaches: a drive that writes its cache back by itself loses nothing that
// a flush was answered for.
func TestHonestCaches(t *testing.T) {
	l := newLab(t)
	for _, fault := range []string{"destage 2ms", "cache 64KiB"} {
		for seed := range uint64(4) {
			doc, c := oneCall(t, l, seed, "barrier-on", "fsync", "drive.faults=["+fault+"]")
			if !doc.Held || c.Counts.Lost != 0 || c.Counts.Acked == 0 {
				t.Errorf("%s, seed %d:\n%s", fault, seed, table(t, doc))
			}
			if err := os.RemoveAll(doc.Folder); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSpoiltReasons: a report says of what a drive spoilt that it did.
func TestSpoiltReasons(t *testing.T) {
	l := newLab(t)
	for name, want := range map[string]trace.Reason{"torn-write": trace.WriteTorn, "bit-rot": trace.WriteRotten} {
		doc, c := oneCall(t, l, 1, name, "fdatasync")
		if len(c.Findings) == 0 {
			t.Errorf("%s has no findings:\n%s", name, table(t, doc))
		}
		for _, f := range c.Findings {
			if f.Acked && f.Reason != want {
				t.Errorf("%s, op %d: %q, want %q", name, f.Op, f.Reason, want)
			}
		}
	}
}

// TestSlowDrives: a drive that stalls or is slow costs time, and no write.
func TestSlowDrives(t *testing.T) {
	l := newLab(t)
	for _, fault := range []string{"stall 300ms any nth=9", "slow 20ms write"} {
		doc, c := oneCall(t, l, 1, "barrier-on", "fdatasync", fmt.Sprintf("drive.faults=[%s]", fault))
		if least := map[bool]int64{true: 300e6, false: 20e6}[strings.HasPrefix(fault, "stall")]; c.Latency.Max < least || !doc.Held {
			t.Errorf("%s: longest op %d ns, want at least %d:\n%s", fault, c.Latency.Max, least, table(t, doc))
		}
	}
}

// TestSyncSwallows: sync(2) tells of no error. What it was to make durable on a drive
// that answers one is no loss; what it was before that, is.
func TestSyncSwallows(t *testing.T) {
	l := newLab(t)
	for ops, lost := range map[string]bool{
		"write a 64KiB, sync":                             false,
		"write a 64KiB, sync, wait 3s, create b, fsync .": true,
	} {
		faults := "eio flush"
		if lost { // the error comes later
			faults = "flush-ignored, eio write after=2s"
		}
		s := load(t, "generated", "drive.faults=["+faults+"]", "workload.ops=["+ops+"]", "expect.failed=0..1")
		doc := runScenario(t, l, s, 1)
		if c := doc.Calls[0]; (c.Counts.Lost > 0) != lost || !lost && c.Counts.Unpromised == 0 {
			t.Errorf("%s: lost %d, not promised %d:\n%s", ops, c.Counts.Lost, c.Counts.Unpromised, table(t, doc))
		}
	}
}

// TestSyncBeforeTheError: what sync acknowledged before the drive's first error is promised, and
// what it acknowledged after that is not.
func TestSyncBeforeTheError(t *testing.T) {
	s := load(t, "barrier-off", "workload.calls=[sync]", "drive.faults=[eio write nth=60 tries=1]", "cut={op: 30}")
	c := runScenario(t, newLab(t), s, 2).Calls[0]
	if c.Counts.Lost < 3 || c.Counts.Unpromised < 3 {
		t.Errorf("lost %d, not promised %d", c.Counts.Lost, c.Counts.Unpromised)
	}
}

// TestOverwritesInPlace: where data is not, sync_file_range and O_DIRECT promise nothing.
func TestOverwritesInPlace(t *testing.T) {
	for set, want := range map[string]bool{
		"ext4": true, "ext2": true, "xfs": true, "jfs": true, "f2fs": false, "nilfs2": false, "btrfs": false,
		"ext3 filesystem.mount=data=journal": false, "ext4 filesystem.mkfs=[-O, inline_data]": false,
		"btrfs filesystem.mount=nodatacow": true, "btrfs filesystem.mount=nodatacow workload.size=2KiB workload.bytes=512 workload.stride=512": false,
	} {
		s := load(t, "barrier-on", append([]string{"filesystem.size=320MiB", "drive.write-cache=off"}, strings.Fields(strings.ReplaceAll("filesystem.type="+set, ", ", ","))...)...)
		if got := inPlace(s); got != want {
			t.Errorf("%s: %t", set, got)
		}
	}
}

// TestSyncOnDescriptor: a write by a descriptor that is open has the flags that it asks for.
func TestSyncOnDescriptor(t *testing.T) {
	l := newLab(t)
	for _, ops := range []string{"append @a 4KiB O_SYNC", "pwrite @a 0+4KiB O_DSYNC", "pwrite @a 4KiB+4KiB O_DIRECT O_DSYNC"} {
		doc := runScenario(t, l, load(t, "generated", "filesystem.size=32MiB", "workload.ops=[write a 4KiB, sync, open a as @a, "+ops+"]"), 1)
		if !doc.Held || doc.Calls[0].Tree.Counts.Syncs != 2 {
			t.Errorf("%s:\n%s", ops, table(t, doc))
		}
	}
}

// TestNoRoom: of a write that ran out of room nobody knows how much was done, and nothing is
// judged after it.
func TestNoRoom(t *testing.T) {
	doc := runScenario(t, newLab(t), load(t, "generated", "filesystem.size=16MiB", "workload.ops=[write c 1MiB, write c 15MiB allow ENOSPC, truncate d 4KiB allow ENOENT, sync]"), 1)
	if u := doc.Calls[0].Tree.Unsupported; u == nil || u.Op != 2 || !u.Partly || !doc.Held {
		t.Errorf("%+v:\n%s", u, table(t, doc))
	}
}

// TestLargeTree: a guest reads as many bytes of files as it may, and more than it has
// memory for.
func TestLargeTree(t *testing.T) {
	doc := runScenario(t, newLab(t), load(t, "generated", "filesystem.size=256MiB", "workload.ops=[write a 16MiB, write b 16MiB, link a c, link b d, sync]"), 1)
	if c := doc.Calls[0]; !doc.Held || c.Tree == nil || c.Tree.Counts.Kept < 10 {
		t.Errorf("%+v\n%s", c.Tree, table(t, doc))
	}
}
