package recording

import (
	"strings"
	"testing"

	"powercut/harness/trace"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		line Line
		want string
	}{
		{
			Line{
				Request: 7, Arrive: 12, Reply: 15, Time: 1_500_000, Took: 8_331_000, Op: "write", FUA: true, Offset: 4096, Length: 512, Class: trace.Data,
				Detail: "ops 3-5", Ops: []int{3, 4, 5}, During: 5, Acked: 5, AckAt: []Ack{{3, 9}, {4, 11}, {5, 16}},
			},
			"7 12 15 1.500 ms 8.331 ms write FUA 4096+512 4 data of ops 3-5; op 5 acked at 16 (during op 5)",
		},
		{
			Line{Request: 8, Arrive: 20, Reply: -1, Op: "write", Through: true, NoEffect: true, Length: 512, Class: trace.Data, Detail: "op 5", Ops: []int{5}, During: -1},
			"8 20 never 0.000 ms - write through ignored 0+512 - data of op 5; op 5 never acked",
		},
		{
			Line{Request: 9, Arrive: 22, Reply: 23, Op: "flush", NoEffect: true, Errno: 5, Class: trace.Flush, During: -1, Acked: 1},
			"9 22 23 0.000 ms 0.000 ms flush ignored errno 5 0 flush",
		},
		{
			Line{Request: 1, Op: "write", Length: 8192, Class: trace.Journal, Detail: "descriptor+2, commit", During: 0},
			"1 0 0 0.000 ms 0.000 ms write 0+8192 - journal: descriptor+2, commit (during op 0)",
		},
	} {
		var b strings.Builder
		if err := Print(&b, []Line{c.line}); err != nil {
			t.Fatal(err)
		}
		_, row, _ := strings.Cut(b.String(), "\n")
		if got := strings.Join(strings.Fields(row), " "); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestFilter(t *testing.T) {
	three := 3
	line := Line{Arrive: 10, Class: trace.Data, Ops: []int{2, 3}, During: 4}
	for _, c := range []struct {
		filter Filter
		passes bool
	}{
		{Filter{}, true},
		{Filter{From: 10, To: 11}, true},
		{Filter{From: 11}, false},
		{Filter{To: 10}, false},
		{Filter{Op: &three}, true},
		{Filter{Op: &line.During}, true},
		{Filter{Op: new(int)}, false},
		{Filter{Classes: []trace.Class{trace.Flush, trace.Data}}, true},
		{Filter{Classes: []trace.Class{trace.Flush}}, false},
	} {
		if got := c.filter.passes(line); got != c.passes {
			t.Errorf("%+v passes %v: %v", c.filter, line, got)
		}
	}
}
