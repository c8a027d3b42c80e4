package logwrites

import (
	"fmt"

	"powercut/guest/ledger"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
)

// Position is a mark's text with its place in a block log: the events before it
// came before the mark.
type Position struct {
	Text     string `json:"text"`
	Position int    `json:"position"`
}

// Marks says where ops began and ended, by the ledger's counts in the events:
//
//	begin op 17          op 17 is about to begin
//	ack op 17            its sync call has returned success
//	end op 17            it is over, and has no sync call
//	fail op 17 errno 5   it is over, and a call of it failed
//
// A mark stands before the first event that counts what it tells of, and after all
// events where none does. Op 0 is the creation of the file; its begin is not marked.
func Marks(events []blocklog.Event, records []ledger.Record) []Position {
	m := marker{records: records}
	for i, e := range events {
		m.advance(e.Started, e.Acked, i)
	}
	last := m.begun
	if n := len(records); n > 0 {
		last = max(last, records[n-1].Op)
	}
	m.advance(last, uint64(len(records)), len(events))
	return m.marks
}

type marker struct {
	records []ledger.Record
	begun   uint64 // the op that was marked last
	over    uint64 // records that were
	marks   []Position
}

// advance adds what is new by the counts at a position. An op's end is marked
// before the begin of the next. Counts beyond what a ledger can say count for less.
func (m *marker) advance(started, acked uint64, at int) {
	acked = min(acked, uint64(len(m.records)))
	started = min(started, workload.MaxCount)
	for m.begun < started || m.over < acked {
		if m.over < acked && (m.records[m.over].Op <= m.begun || m.begun >= started) {
			m.marks = append(m.marks, Position{Ended(m.records[m.over]), at})
			m.over++
			continue
		}
		m.begun++
		m.marks = append(m.marks, Position{fmt.Sprintf("begin op %d", m.begun), at})
	}
}

// Ended is the mark of an op that is over.
func Ended(r ledger.Record) string {
	switch {
	case r.Synced:
		return fmt.Sprintf("ack op %d", r.Op)
	case r.Errno != 0:
		return fmt.Sprintf("fail op %d errno %d", r.Op, r.Errno)
	}
	return fmt.Sprintf("end op %d", r.Op)
}
