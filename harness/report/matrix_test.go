package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"powercut/guest/workload"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// aCell is a run of a matrix, of 20 acknowledged ops: all kept, or all lost for
// that reason.
func aCell(reason trace.Reason, seen Seen, values ...string) *Document {
	c := Call{
		Call: "fsync", Counts: verdict.Counts{Ops: 20, Acked: 20, Kept: 20}, Seen: seen,
		Recovery: verdict.Recovery{Class: verdict.Recovered},
	}
	if reason != "" {
		c.Counts.Kept, c.Counts.Lost = 0, 20
		for k := 1; k <= 20; k++ {
			c.Findings = append(c.Findings, Finding{OpVerdict: verdict.OpVerdict{Op: k, Class: verdict.Lost, Extent: workload.Extent{Length: 1}}, Reason: reason})
		}
	}
	return &Document{
		Schema: Schema, Scenario: "modes-" + strings.NewReplacer("=", "-", ".", "-").Replace(strings.Join(values, "-")), About: "modes and barriers",
		Matrix: &Matrix{Of: "modes", Cell: values}, Folder: "runs/" + strings.Join(values, "-"), Held: true, Calls: []Call{c},
		Drive: Drive{Bus: "ide", Cache: "unsafe", WriteCache: true, Told: true, GuestCache: "write through", HdparmW: "off", Seen: seen},
	}
}

// aMatrix has a cell of two seeds, one that did not hold, and one whose disk could
// not be read back.
func aMatrix() []*Document {
	var docs []*Document
	for _, fault := range []string{"drive.faults=[]", "drive.faults=[flush-ignored]"} {
		for _, mode := range []string{"drive.cache=writeback", "drive.cache=writethrough"} {
			for _, mount := range []string{"filesystem.mount=barrier=1", "filesystem.mount=barrier=0"} {
				reason, seen := trace.Reason(""), Seen{Writes: 41, Flushes: 33, GuestCache: "write back"}
				switch {
				case mode == "drive.cache=writethrough":
					seen = Seen{Writes: 41, FUAWrites: 41, GuestCache: "write through"}
				case mount == "filesystem.mount=barrier=0":
					reason, seen = trace.NoFlush, Seen{Writes: 41, GuestCache: "write back"}
				case fault != "drive.faults=[]":
					reason = trace.FlushIgnored
				}
				docs = append(docs, aCell(reason, seen, mode, mount, fault))
			}
		}
	}
	again := aCell("", Seen{Writes: 40, Flushes: 32}, docs[0].Matrix.Cell...)
	again.Seed = 2
	docs[4].Held = false
	docs[7].Held = false
	docs[7].Calls[0].Recovery.Class = verdict.MountFailed
	return append(docs, again)
}

// onQcow2 is a run on an image file, which lost all, and whose image is damaged.
func onQcow2() *Document {
	d := aCell(trace.Unknown, Seen{GuestCache: "write back"}, "drive.cache=unsafe")
	d.Drive = Drive{Bus: "ide", Backend: "file", Format: "qcow2", AIO: "threads", Cache: "unsafe", WriteCache: true, Told: true, AtCut: "keep"}
	for i := range d.Calls[0].Findings {
		f := &d.Calls[0].Findings[i]
		f.Acked, f.Found, f.Why = true, "the file ends at 0", "an image file keeps no record of what reached it, and when"
	}
	d.Calls[0].Image = &Image{Errors: 2, Leaks: 1}
	sound, broken := d.Calls[0], d.Calls[0]
	sound.Call, sound.Image = "O_DSYNC", &Image{}
	broken.Call, broken.Image = "O_SYNC", &Image{Failed: "no qcow2 image"}
	d.Calls = append(d.Calls, sound, broken)
	return d
}

// unjudged makes of a run one of which nothing is wrong but a time, on a busy host.
func unjudged(d *Document) *Document {
	d.Held, d.Expectations = false, []Expectation{{Text: "fsync: figures 0.85..1.15", Found: "1.30", Busy: true}, {Text: "fsync: lost 0", Found: "0", Held: true}}
	return d
}

// TestMatrixBusy: a cell is BUSY where nothing is wrong with its runs but times that this
// machine was too busy to judge, and WRONG where a run of it is; they are counted apart.
func TestMatrixBusy(t *testing.T) {
	docs := aMatrix()
	unjudged(docs[0])
	docs = append(docs, unjudged(aCell("", Seen{}, docs[4].Matrix.Cell...))) // a cell that is wrong by another run
	for _, c := range []struct {
		docs []*Document
		want []string
	}{
		{docs, []string{"BUSY: kept 40", "WRONG: lost", "2 wrong cells, 1 BUSY of 8, in 10 runs", "6 of 10 runs held, 2 not judged"}},
		{docs[:2], []string{"BUSY: kept 20", "no wrong cell, 1 BUSY of 2, in 2 runs", "1 of 2 runs held, 1 not judged"}},
		{docs[1:3], []string{"no wrong cell of 2, in 2 runs", "2 of 2 runs held;"}},
	} {
		var b bytes.Buffer
		if err := Runs(&b, c.docs, Options{}); err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range c.want {
			if !strings.Contains(words, want) {
				t.Errorf("without %q:\n%s", want, b.String())
			}
		}
		if wrong := strings.Contains(words, "WRONG"); wrong != (c.want[0] == "BUSY: kept 40") {
			t.Errorf("WRONG is there: %v\n%s", wrong, b.String())
		}
	}
}

// TestMatrixWide: many values across still make a page.
func TestMatrixWide(t *testing.T) {
	for n := 1; n < 9; n++ {
		var docs []*Document
		for i := range n {
			docs = append(docs, aCell(trace.Dropped, Seen{}, "drive.cache=none", fmt.Sprintf("filesystem.mount=barrier=%d", i)))
		}
		var b bytes.Buffer
		if err := Runs(&b, docs, Options{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if text.StringWidth(strings.TrimSuffix(line, "\n")) > Width {
				t.Errorf("%d across: %q", n, line)
			}
		}
		if c := strings.Count(b.String(), "20/20"); c != n {
			t.Errorf("%d across: %d cells\n%s", n, c, b.String())
		}
	}
}
