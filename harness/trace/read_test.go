package trace

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/harness/blocklog"
)

// TestClasses tells a run with every kind of request and compares it line by line.
func TestClasses(t *testing.T) {
	s := newStory(t, overwrites())
	s.tell("read /1 data /2 flush:ignored /3 ack")
	s.tell("begin data:fua /4 journal commit /5 /6:5 ack")
	s.tell("meta:fua:ignored trim zeroes /9 begin block")
	want := `#1 read 0+4096 read during op 0, 0s +1ms
#2 write 1048576+32768 data [op 0] during op 0, 2ms +1ms
#3 flush (ignored) during op 0, 4ms +1ms
#4 write FUA 1048576+512 data [op 1] during op 1, 6ms +1ms
#5 write 8388608+8192 journal [descriptor+1] during op 1, 8ms +2ms
#6 write 9437184+4096 journal [commit] during op 1, 9ms +2ms errno 5
#7 write FUA (ignored) 512+1024 metadata, 12ms, never answered
#8 trim 0+4096 discard, 13ms, never answered
#9 zeroes 0+4096 metadata [zeroes], 14ms +1ms
#10 write 1048576+4096 data [ops 0-2] during op 2, 16ms, never answered
`
	tr := s.read()
	if diff := cmp.Diff(want, lines(tr)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := tr.Requests[9].Ops; !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("ops of the block: %v", got)
	}
}

func TestBill(t *testing.T) {
	s := newStory(t, overwrites())
	s.tell("data /1 flush /2 ack")                   // op 0 is not on the bill
	s.tell("meta /3")                                // nor is what no op waited for
	s.tell("begin data:fua meta:fua /4 /5 ack")      // 4: 5–7 ms, 5: 6–8 ms: 3 ms
	s.tell("begin journal /6 commit /7 flush ack")   // 9–10, 11–12: 2 ms; the flush is never answered
	s.tell("begin read /9 zeroes:fua /10 trim fail") // 14–15, 16–17: 2 ms
	s.tell("begin data /12")                         // never over: not on the bill
	want := Bill{
		Ops: 3, DataWrites: 1. / 3, JournalWrites: 2. / 3, MetadataWrites: 2. / 3, Flushes: 1. / 3, FUAWrites: 1,
		DriveTime: 7e6 / 3.,
	}
	tr := s.read()
	if diff := cmp.Diff(want, tr.Bill); diff != "" {
		t.Errorf("bill (-want +got):\n%s%s", diff, lines(tr))
	}
}

// TestDriveTime counts the time for each op by itself, where requests of two ops
// overlap: 2 ms for both.
func TestDriveTime(t *testing.T) {
	tr := newStory(t, overwrites()).tell("ack begin data ack begin data /1 /2 ack").read()
	if tr.Bill.DriveTime != 2e6 {
		t.Errorf("drive time %v ns an op\n%s", tr.Bill.DriveTime, lines(tr))
	}
}

// TestGuestTime is the median of what ops took beyond their time with the drive, so
// that one that was held up does not count; what others read is on no op's bill.
func TestGuestTime(t *testing.T) {
	s := newStory(t, overwrites())
	s.tell("ack begin data /1 ack begin data /2 ack begin read /3 data /4 ack")
	for i, ms := range []int64{0, 3, 40, 2} {
		s.records[i].End = s.records[i].Start + ms*1e6
	}
	for _, c := range []struct {
		readers      bool
		threads      int
		drive, guest float64
	}{{false, 0, 4e6 / 3., 2e6}, {true, 0, 1e6, 2e6}, {false, 2, 4e6 / 3., 0}} {
		in := s.input()
		in.Readers, in.Plan.Threads = c.readers, c.threads
		tr := readInput(t, in)
		if b := tr.Bill; b.DriveTime != c.drive || b.GuestTime != c.guest {
			t.Errorf("%+v: drive %v, guest %v\n%s", c, b.DriveTime, b.GuestTime, lines(tr))
		}
	}
}

func TestBillOfNothing(t *testing.T) {
	if got := newStory(t, overwrites()).read().Bill; got != (Bill{}) {
		t.Errorf("bill of an empty log: %+v", got)
	}
}

func TestDuring(t *testing.T) {
	s := newStory(t, overwrites())
	s.tell("flush ack flush begin flush ack flush begin flush begin")
	var got []int
	for _, r := range s.read().Requests {
		got = append(got, r.During)
	}
	if want := []int{0, Between, 1, Between, 2}; !slices.Equal(got, want) {
		t.Errorf("during %v, want %v", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	arrive := blocklog.Event{Kind: blocklog.Arrive, Request: 1, Op: blocklog.Flush}
	reply := blocklog.Event{Kind: blocklog.Reply, Request: 1, Op: blocklog.Flush}
	write := blocklog.Event{Kind: blocklog.Arrive, Request: 1, Op: blocklog.Write, Length: 512, DataAt: 1}
	long := write
	long.Length = MaxPayload + 1
	for name, c := range map[string]struct {
		events []blocklog.Event
		want   string
	}{
		"gap":           {[]blocklog.Event{{Kind: blocklog.Arrive, Request: 2, Op: blocklog.Flush}}, "event 0: request 2 arrives where 1 is due"},
		"twice":         {[]blocklog.Event{arrive, arrive}, "event 1: request 1 arrives where 2 is due"},
		"early reply":   {[]blocklog.Event{reply}, "event 0: reply to request 1, which never arrived"},
		"second reply":  {[]blocklog.Event{arrive, reply, reply}, "event 2: second reply to request 1"},
		"reply to none": {[]blocklog.Event{{Kind: blocklog.Reply}}, "event 0: reply to request 0, which never arrived"},
		"kind":          {[]blocklog.Event{{Kind: 9, Request: 1}}, "event 0: unknown kind 9"},
		"op":            {[]blocklog.Event{{Kind: blocklog.Arrive, Request: 1, Op: 9}}, "request 1: unknown op 9"},
		"payload":       {[]blocklog.Event{write}, "request 1: read payload at 1: unexpected EOF"},
		"long":          {[]blocklog.Event{long}, "request 1: write of 67108865 bytes: the limit is 67108864"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(Input{Events: c.events, Plan: overwrites(), Payload: strings.NewReader("short")})
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("error %v, want …%s", err, c.want)
			}
		})
	}
}

func TestReadRefusesPlan(t *testing.T) {
	p := overwrites()
	p.Count = 0
	if _, err := Read(Input{Plan: p}); err == nil {
		t.Error("a plan without ops is accepted")
	}
}

type brokenImage struct{}

func (brokenImage) ReadAt([]byte, int64) (int, error) { return 0, errors.New("bad medium") }

func TestReadRefusesBase(t *testing.T) {
	_, err := Read(Input{Plan: overwrites(), Base: brokenImage{}})
	if err == nil || !strings.Contains(err.Error(), "bad medium") {
		t.Errorf("error %v", err)
	}
	for name, base := range map[string]io.ReaderAt{"short": strings.NewReader("x"), "foreign": strings.NewReader(strings.Repeat("x", 4096))} {
		if tr, err := Read(Input{Plan: overwrites(), Base: base}); err != nil || tr.BlockSize != 0 {
			t.Errorf("%s image: %v, %v", name, tr, err)
		}
	}
}
