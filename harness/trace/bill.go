package trace

import (
	"time"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
)

// bill adds up the requests that arrived during the ops that have a record, the
// creation of the file left out.
func bill(reqs []Request, records []ledger.Record, shared bool) Bill {
	done := finished(records)
	delete(done, 0)
	var data, journal, meta, flushes, fua int
	busy := meter{shared: shared}
	for _, r := range reqs {
		if _, ok := done[uint64(max(r.During, 0))]; !ok {
			continue
		}
		busy.add(r)
		switch r.Class {
		case Data:
			data++
		case Journal:
			journal++
		case Metadata:
			meta++
		case Flush:
			flushes++
		}
		if r.FUA && r.writes() {
			fua++
		}
	}
	n := max(float64(len(done)), 1)
	return Bill{
		Ops: len(done), DataWrites: float64(data) / n, JournalWrites: float64(journal) / n,
		MetadataWrites: float64(meta) / n, Flushes: float64(flushes) / n, FUAWrites: float64(fua) / n,
		DriveTime: float64(busy.total) / n,
	}
}

// meter adds up the time during which at least one request of an op was being
// served. Requests come in order of arrival, those of an op in a row.
type meter struct {
	op     int
	shared bool // ops run at the same time, and share it
	until  time.Duration
	total  time.Duration
}

func (m *meter) add(r Request) {
	if r.Reply < 0 {
		return
	}
	if r.During != m.op && !m.shared {
		m.op, m.until = r.During, 0
	}
	if from := max(r.ArriveAt, m.until); r.ReplyAt > from {
		m.total += r.ReplyAt - from
		m.until = r.ReplyAt
	}
}

// writes tells whether the request changes the media by itself.
func (r Request) writes() bool {
	return r.Op == blocklog.Write || r.Op == blocklog.Zeroes
}
