package logwrites

import (
	"cmp"
	"fmt"
	"slices"

	"powercut/harness/blocklog"
)

// The marks of an export, beside those of Marks.
const (
	// CutMark stands at the cut: before it is what was durable there, after it what
	// was volatile.
	CutMark = "cut"
	// DamageMark stands in its place where the block log is damaged.
	DamageMark = "damage"
	// EndMark is the last entry, as in each log of the kernel.
	EndMark = "dm-log-writes-end"
)

// SectorSize is that of exports, in bytes: what the drive writes whole or not at all.
const SectorSize = 512

// maxExtent bounds a discard or a write of zeros in an export, in bytes: replay-log
// reads a write into memory, and on a plain file passes over discards of more than
// 128 MiB.
const maxExtent = 32 << 20

// Export writes the events of a log before position cut as a log of dm-log-writes,
// with these marks, which ascend, and the mark at at the cut, where it is not empty.
//
// Entries come in the order in which they became durable:
//   - what a flush covered stands before the flush's own entry, in order of arrival;
//   - what was durable by itself, by FUA or because the drive's write cache was off,
//     stands where it was answered, and what the drive wrote back by itself where it
//     did, with the flag FUA;
//   - a flush that a fault took the effect of is no entry;
//   - what was volatile at the cut stands after its mark, in order of arrival.
//
// A write that arrived before another one of the same sectors, and became durable
// after it, lacks these sectors: the later arrival wins, as in package crash. So a
// replay up to a mark leaves what a cut there leaves with the policy lose; up to
// EndMark, what the cut leaves with keep; and up to any other entry one of the
// states that a cut at the next flush or reply may leave.
//
// A drive of two disks, of which each is flushed by itself, cannot be told of so.
func Export(w *Writer, log *blocklog.Log, cut int, marks []Position, at string) error {
	if cut < 0 || cut > len(log.Events) {
		return fmt.Errorf("export block log: the cut is at %d, the log has %d events", cut, len(log.Events))
	}
	x := &exporter{w: w, log: log, open: map[uint64]blocklog.Event{}, flushes: map[uint64]int{}, newest: numbers{}}
	for i, e := range log.Events[:cut] {
		for ; len(marks) > 0 && marks[0].Position <= i; marks = marks[1:] {
			if err := w.Mark(marks[0].Text); err != nil {
				return err
			}
		}
		if err := x.event(e); err != nil {
			return fmt.Errorf("export event %d: %w", i, err)
		}
	}
	if at != "" {
		marks = append(slices.Clip(marks), Position{Text: at})
	}
	for _, m := range marks {
		if err := w.Mark(m.Text); err != nil {
			return err
		}
	}
	return x.end()
}

// exporter walks through the events.
type exporter struct {
	w    *Writer
	log  *blocklog.Log
	open map[uint64]blocklog.Event // changes that wait for their reply
	// cache are the changes that were answered and are volatile, in order of
	// reply; answered counts them with those that were, and flushes holds how many
	// each open flush covers.
	cache    []answered
	answered int
	flushes  map[uint64]int
	newest   numbers // the request that wrote each sector of what is in the log
}

type answered struct {
	arrive blocklog.Event
	order  int // among the replies, from 1
}

func (x *exporter) event(e blocklog.Event) error {
	switch {
	case e.Op == blocklog.Read:
	case e.Kind == blocklog.Destage:
		return x.destaged(e.Request)
	case e.Op == blocklog.Flush && e.Kind == blocklog.Arrive:
		x.flushes[e.Request] = x.answered
	case e.Op == blocklog.Flush:
		covered := x.flushes[e.Request]
		delete(x.flushes, e.Request)
		if e.Errno == 0 && !e.NoEffect {
			return x.flushed(covered)
		}
	case e.Kind == blocklog.Arrive && e.Errno == 0:
		x.open[e.Request] = e
	case e.Kind == blocklog.Reply && e.Errno == 0:
		arrive := x.open[e.Request]
		delete(x.open, e.Request)
		x.answered++
		if e.Durable() {
			return x.write(arrive, FUA)
		}
		x.cache = append(x.cache, answered{arrive, x.answered})
	}
	return nil
}

// destaged writes a change that the drive made durable by itself.
func (x *exporter) destaged(request uint64) error {
	i := slices.IndexFunc(x.cache, func(c answered) bool { return c.arrive.Request == request })
	if i < 0 {
		return nil
	}
	arrive := x.cache[i].arrive
	x.cache = slices.Delete(x.cache, i, i+1)
	return x.write(arrive, FUA)
}

// flushed writes what a flush made durable: the first so many changes that were
// answered.
func (x *exporter) flushed(covered int) error {
	var batch, rest []answered
	for _, c := range x.cache {
		if c.order <= covered {
			batch = append(batch, c)
		} else {
			rest = append(rest, c)
		}
	}
	x.cache = rest
	slices.SortFunc(batch, func(a, b answered) int { return cmp.Compare(a.arrive.Request, b.arrive.Request) })
	for _, c := range batch {
		if err := x.write(c.arrive, 0); err != nil {
			return err
		}
	}
	return x.w.Flush()
}

// end writes what was volatile at the cut: answered, or in flight.
func (x *exporter) end() error {
	var volatile []blocklog.Event
	for _, c := range x.cache {
		volatile = append(volatile, c.arrive)
	}
	for _, e := range x.open {
		volatile = append(volatile, e)
	}
	slices.SortFunc(volatile, func(a, b blocklog.Event) int { return cmp.Compare(a.Request, b.Request) })
	for _, e := range volatile {
		if err := x.write(e, 0); err != nil {
			return err
		}
	}
	return x.w.Mark(EndMark)
}

// write writes those sectors of a change that reached the drive, and that no later
// arrival in the log has.
func (x *exporter) write(e blocklog.Event, flags Flags) error {
	begun, end := int64(-1), e.Offset+e.Length
	for at := e.Offset; at < end; at += SectorSize {
		torn := e.Spoil.Kind == blocklog.Torn && at-e.Offset >= e.Spoil.From && at-e.Offset < e.Spoil.To
		switch newest := x.newest.at(at / SectorSize); {
		case *newest < e.Request && !torn:
			*newest = e.Request
			if begun < 0 {
				begun = at
			}
		case begun >= 0:
			if err := x.part(e, begun, at, flags); err != nil {
				return err
			}
			begun = -1
		}
	}
	if begun < 0 {
		return nil
	}
	return x.part(e, begun, end, flags)
}

// part writes the bytes from one place of the drive to another of a change, in
// pieces where they are many.
func (x *exporter) part(e blocklog.Event, from, to int64, flags Flags) error {
	for ; from < to; from += maxExtent {
		length := min(to-from, maxExtent)
		var err error
		switch e.Op {
		case blocklog.Trim:
			err = x.w.Discard(from, length, flags)
		case blocklog.Zeroes:
			err = x.w.Zeroes(from, length, flags)
		default:
			data := make([]byte, length)
			if _, err = x.log.ReadAt(data, e.DataAt+from-e.Offset); err == nil {
				err = x.w.Write(from, data, flags)
			}
		}
		if err != nil {
			return fmt.Errorf("request %d: %w", e.Request, err)
		}
	}
	return nil
}

// numbers holds a request's number for each sector of the drive, 0 where there is
// none. It costs some 2 % of what was written.
type numbers map[int64]*[8]uint64

func (n numbers) at(sector int64) *uint64 {
	page := n[sector/8]
	if page == nil {
		page = new([8]uint64)
		n[sector/8] = page
	}
	return &page[sector%8]
}
