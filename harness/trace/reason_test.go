package trace

import (
	"slices"
	"testing"
)

// TestLostReason has a story of op 1 for each reason for which it can be lost.
func TestLostReason(t *testing.T) {
	unadvertised := func(in *Input) { in.CacheAdvertised = false }
	reached := map[Reason]bool{}
	for _, c := range []struct {
		script string // after the ack of op 0
		set    func(*Input)
		want   Reason
	}{
		{script: "begin flush /1 ack data /2", want: NoWrite},
		{script: "begin data ack /1", want: WriteUnanswered},
		{script: "begin data:fua /1:5 ack", want: WriteFailed},
		{script: "begin torn /1 flush /2 ack", want: WriteTorn},
		{script: "begin rotten /1 flush /2 ack", want: WriteRotten},
		{script: "begin data:fua /1 commit:torn:fua /2 ack", want: MetadataSpoilt},
		{script: "begin data /1 ack", want: NoFlush},
		{script: "begin data /1 ack flush /2", want: NoFlush},
		{script: "begin data /1 flush:second /2 ack", set: twoDisks, want: OtherDisk},
		{script: "begin data journal /1 /2 flush:first /3 ack", set: twoDisks, want: MetadataVolatile},
		{script: "begin data flush /1 /2 ack", want: FlushEarly},
		{script: "begin data /1 flush ack /2", want: FlushUnanswered},
		{script: "begin data /1 flush /2:5 ack", want: FlushFailed},
		{script: "begin data /1 flush:ignored /2 ack", want: FlushIgnored},
		{script: "begin data:fua:ignored /1 ack", want: FUAIgnored},
		{script: "begin data:fua:ignored /1 flush:ignored /2 ack", want: FUAIgnored},
		{script: "begin data:fua:ignored /1 ack", set: unadvertised, want: FUAIgnored},
		{script: "begin data /1 ack", set: unadvertised, want: Unadvertised},
		{script: "begin data /1 ack", set: func(in *Input) { in.Unsafe = true }, want: Dropped},
		{script: "begin data:fua /1 journal commit:fua /2 /3 ack", want: MetadataVolatile},
		{script: "begin data:fua /1 meta /2 ack flush", want: MetadataVolatile},
		{script: "begin data journal commit /1 /2 /3 flush /4 ack", want: MetadataDurable},
		{script: "begin data /1 flush /2 ack", want: NoMetadata},
		{script: "begin data:fua /1 ack", want: NoMetadata},
		{script: "copy:fua /1 begin data:fua /2 ack", want: Replayed},
		{script: "begin data:fua copy:fua commit:fua /1 /2 /3 ack", want: Replayed},
		{script: "copy:fua /1 begin data:fua /2 meta /3 ack", want: MetadataVolatile},
		{script: "copy:fua /1 begin data /2 ack", want: NoFlush},
	} {
		in := newStory(t, overwrites()).tell("ack " + c.script).input()
		if c.set != nil {
			c.set(&in)
		}
		v, ok := readInput(t, in).Cover(1)
		if got := v.LostReason(); !ok || got != c.want {
			t.Errorf("%s: %q, want %q", c.script, got, c.want)
		}
		if durable := v.Reason == DataDurable; durable != v.Durable {
			t.Errorf("%s: durable %v, and the reason is %q", c.script, v.Durable, v.Reason)
		}
		reached[c.want] = true
	}
	for _, r := range LostReasons() {
		if !reached[r] {
			t.Errorf("no story ends in %q", r)
		}
	}
	for r := range reached {
		if !slices.Contains(LostReasons(), r) {
			t.Errorf("%q is not listed", r)
		}
	}
}

func TestNoData(t *testing.T) {
	c, _ := newStory(t, appends(100, 3, 1)).tell("ack").read().Cover(0)
	if c.Reason != NoData {
		t.Errorf("an empty file: %q", c.Reason)
	}
}
