package html

import (
	"fmt"
	"time"

	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/latency"
	"powercut/harness/report"
	"powercut/harness/report/evidence"
	"powercut/harness/trace"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// aRun has two calls of n ops each on a drive of 7200 rpm, each op a data write, two
// journal writes and a flush. The last acknowledged op of the second call is lost,
// and its texts are hostile.
func aRun(n int) *evidence.Run {
	s := scenarios.Scenario{}
	s.Drive.Timing = scenarios.IDE7200.Timing()
	s.Workload.Bytes = 4096
	d := &report.Document{
		Schema: report.Schema, Scenario: "ext4-overwrite", About: `</script><b>"quotes" & more`, Seed: 7, Folder: "runs/x",
		Expectations: []report.Expectation{{Text: "fsync: lost 0", Found: "1"}, {Text: "O_SYNC: lost 0", Found: "0", Held: true}},
		Drive:        report.Drive{Timing: "ide-7200"},
	}
	r := &evidence.Run{Document: d, Scenario: s, Text: "name: x\n"}
	for _, call := range []string{"O_SYNC", "fsync"} {
		d.Calls = append(d.Calls, report.Call{
			Call: call, Folder: call, Counts: verdict.Counts{Ops: n, Acked: n - 1, Kept: n - 1},
			Cut: report.Cut{Reason: "because", Position: 8*n - 1, Op: uint64(n)}, Recovery: verdict.Recovery{Class: verdict.Recovered},
		})
	}
	for i := range d.Calls {
		r.Calls = append(r.Calls, aCall(&d.Calls[i], n))
	}
	lost := &r.Calls[1].Ops[n-2]
	lost.Class = verdict.Lost
	d.Calls[1].Counts.Kept, d.Calls[1].Counts.Lost = n-2, 1
	d.Calls[1].Findings = []report.Finding{{
		OpVerdict: verdict.OpVerdict{Op: n - 1, Acked: true, Class: verdict.Lost, Extent: lost.Extent, Missing: lost.Extent, Found: "<i>zeros"},
		Reason:    trace.NoFlush, Why: "request 1 & <others>",
	}}
	r.Calls[1].Fresh = []string{"</pre><script>alert(1)</script>"}
	return r
}

func aCall(rc *report.Call, n int) *evidence.Call {
	c := &evidence.Call{Call: rc}
	kinds := []trace.Class{trace.Data, trace.Journal, trace.Journal, trace.Flush}
	now := time.Second
	for k := 1; k <= n; k++ {
		o := evidence.Op{
			Number: k, Extent: workload.Extent{Offset: int64(k-1) * 4096, Length: 4096}, Acked: true, Class: verdict.Kept, Over: true,
			Begin: now, Bill: evidence.Bill{Data: 1, Journal: 2, Flush: 1},
		}
		for _, class := range kinds {
			q := trace.Request{
				Number: uint64(len(c.Requests) + 1), Op: blocklog.Write, Class: class, Offset: int64(k) * 4096, Length: 4096,
				Arrive: 2 * len(c.Requests), Reply: 2*len(c.Requests) + 1, ArriveAt: now + 100*time.Microsecond, During: k,
			}
			if class == trace.Flush {
				q.Op, q.Length = blocklog.Flush, 0
			}
			q.ReplyAt = q.ArriveAt + time.Duration(1+k%7)*time.Millisecond
			now = q.ReplyAt
			o.Requests = append(o.Requests, len(c.Requests))
			c.Requests = append(c.Requests, q)
		}
		now += 50 * time.Microsecond
		o.End, o.Latency = now, now-o.Begin
		c.Ops = append(c.Ops, o)
	}
	last := &c.Ops[n-1]
	last.Acked, last.Over, last.Class, last.Latency = false, false, verdict.Absent, 0
	open := &c.Requests[len(c.Requests)-1]
	c.CutTime = open.ArriveAt
	open.Reply, open.ReplyAt, last.End = -1, 0, c.CutTime
	rc.Latency = latency.Summarise(c.Latencies())
	rc.Bill = trace.Bill{Ops: n, DataWrites: 1, JournalWrites: 2, Flushes: 1, DriveTime: 2e6}
	c.Console = []string{fmt.Sprintf("[    0.1] %s", rc.Call)}
	return c
}
