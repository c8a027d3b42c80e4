package shrink

import (
	"slices"
	"testing"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/trace"
)

// TestTell has the sentences on each kind of missing write.
func TestTell(t *testing.T) {
	commit := trace.Request{Number: 1, Op: blocklog.Write, Length: 4096, Arrive: 0, Reply: 1, Class: trace.Journal, Detail: "commit", Transaction: 9}
	data := trace.Request{Number: 2, Op: blocklog.Write, Length: 4096, Arrive: 2, Reply: 3, Class: trace.Data, Detail: "op 17"}
	flush := trace.Request{Number: 3, Op: blocklog.Flush, Arrive: 4, Reply: -1, Class: trace.Flush}
	with := func(q trace.Request, change func(*trace.Request)) trace.Request { change(&q); return q }
	for _, c := range []struct {
		name    string
		reqs    []trace.Request
		missing []crash.Loss
		want    []string
	}{
		{
			"the example of the manual",
			[]trace.Request{commit, data},
			[]crash.Loss{{Request: 1}},
			[]string{
				"op 17 was acknowledged at position 4, when request 2 had been answered",
				"request 1 (journal: commit of transaction 9) was still in the drive's cache: answered at position 1, and no flush reached the drive after that",
				"all else that the drive had been sent by the cut at position 5 was on the media",
			},
		},
		{
			"a flush that had not been answered",
			[]trace.Request{commit, data, flush},
			[]crash.Loss{{Request: 2}},
			[]string{
				"op 17 was acknowledged at position 4, when request 2 had been answered",
				"request 2 (data of op 17) was still in the drive's cache: answered at position 3, and flush 3 after that had not been answered",
				"all else that the drive had been sent by the cut at position 5 was on the media",
			},
		},
		{
			"a flush without effect, and a part of a write in flight",
			[]trace.Request{
				with(commit, func(q *trace.Request) { q.Reply = -1 }), data, with(flush, func(q *trace.Request) { q.Reply, q.NoEffect = 5, true }),
			},
			[]crash.Loss{{Request: 1, Sectors: []int64{0, 1, 2, 5}}, {Request: 2, Sectors: []int64{7}}},
			[]string{
				"op 17 was acknowledged at position 4, when request 2 had been answered",
				"request 1 (journal: commit of transaction 9; sectors 0-2,5 of 8) was in flight, never answered with success",
				"request 2 (data of op 17; sectors 7 of 8) was still in the drive's cache: answered at position 3, and flush 3 after that was ignored by the drive (fault)",
				"all else that the drive had been sent by the cut at position 5 was on the media",
			},
		},
		{
			"nothing",
			[]trace.Request{commit, data},
			nil,
			[]string{
				"op 17 was acknowledged at position 4, when request 2 had been answered",
				"no write is missing: all that the drive had been sent by the cut at position 5 was on the media",
			},
		},
	} {
		tr := &trace.Trace{Requests: c.reqs, Covers: []trace.Cover{{Op: 17, AckAt: 4}}}
		if got := Tell(tr, crash.State{Cut: 5, Missing: c.missing}, 17); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}
