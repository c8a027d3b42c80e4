package trace

import (
	"slices"
	"time"

	"powercut/harness/blocklog"
)

// bill adds up the requests that arrived during the ops that have a record, the
// creation of the file left out.
func bill(reqs []Request, in Input) Bill {
	done := finished(in.Records)
	delete(done, 0)
	var data, journal, meta, flushes, fua int
	busy := meter{shared: in.threads() > 1, of: map[int]time.Duration{}}
	for _, r := range reqs {
		if _, ok := done[uint64(max(r.During, 0))]; !ok {
			continue
		}
		if r.Class != Reading || !in.Readers {
			busy.add(r)
		}
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
		DriveTime: float64(busy.total) / n, GuestTime: busy.beside(in),
	}
}

// meter adds up the time during which at least one request of an op was being
// served. Requests come in order of arrival, those of an op in a row.
type meter struct {
	op     int
	shared bool // ops run at the same time, and share it
	until  time.Duration
	total  time.Duration
	of     map[int]time.Duration // the same of each op
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
		m.of[r.During] += r.ReplyAt - from
		m.until = r.ReplyAt
	}
}

// beside is the median, over the ops on the bill, of the time that they took on the
// guest's clock beyond that with the drive.
func (m *meter) beside(in Input) float64 {
	var rest []time.Duration
	for _, r := range in.Records {
		if r.Op > 0 {
			rest = append(rest, time.Duration(r.Latency())-m.of[int(r.Op)])
		}
	}
	if len(rest) == 0 || m.shared {
		return 0
	}
	slices.Sort(rest)
	return float64(max(rest[len(rest)/2], 0))
}

// Flushes tells whether a flush is for what another request is about.
func (r Request) Flushes(o Request) bool {
	return blocklog.Event{Offset: r.Offset, Length: r.Length}.Flushes(o.Offset, o.Length)
}

// writes tells whether the request changes the media by itself.
func (r Request) writes() bool {
	return r.Op == blocklog.Write || r.Op == blocklog.Zeroes
}
