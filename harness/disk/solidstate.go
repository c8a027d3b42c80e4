package disk

import (
	"time"

	"powercut/harness/blocklog"
)

// SolidState describes a drive of flash memory behind a controller with a buffer.
// Flash is read and programmed in pages; consecutive pages lie on different
// channels, which work at the same time, and each of which does one page at a time.
type SolidState struct {
	BusRate  int64         // bytes a second between host and drive
	Overhead time.Duration // of each command, in the controller
	Buffer   int64         // bytes that may wait in the write cache for flash; 0: no limit
	Channels int
	Page     int64         // bytes
	Read     time.Duration // of a page
	Program  time.Duration // of a page, when the buffer is full and a write has to wait for it
	// Flush is what a flush costs that finds anything dirty, and FlushPage what it
	// costs beyond that for each dirty page of the channel that has most to do, if
	// they were spread evenly.
	Flush, FlushPage time.Duration
	// FUA is what a write costs beyond a cached one when it is answered from the
	// media only. One that is longer than a page of each channel pays FlushPage for
	// each further one. Such writes go one after the other.
	FUA time.Duration
}

// Model implements Timing. The size of the drive plays no role.
func (t SolidState) Model(_ int64, writeCache bool) Model {
	return &solidState{t: t, writeCache: writeCache, channels: make([]time.Duration, t.Channels)}
}

// solidState is the model of a SolidState. Commands overlap: of those that are in
// flight together only the bus, and each channel, are used by one at a time.
type solidState struct {
	t          SolidState
	writeCache bool

	bus      time.Duration   // when the bus is free
	channels []time.Duration // when each channel is free
	commit   time.Duration   // when the last flush or FUA write is done
	dirty    extents         // what flash lacks
}

// Serve implements Model.
func (s *solidState) Serve(now time.Duration, e *blocklog.Event) time.Duration {
	start := now + s.t.Overhead
	switch e.Op {
	case blocklog.Read:
		return s.read(start, e.Offset, e.Length)
	case blocklog.Write:
		return s.write(start, e)
	case blocklog.Flush:
		return s.flush(start)
	}
	s.dirty.remove(e.Offset, e.Offset+e.Length) // trim and zeroes are noted, and nothing is written
	return start
}

// transfer takes the bus for that many bytes and returns when they are over.
func (s *solidState) transfer(start time.Duration, length int64) time.Duration {
	s.bus = max(s.bus, start) + onBus(length, s.t.BusRate)
	return s.bus
}

// read fetches the pages from their channels; the first of them are on the bus
// while the last are still being read.
func (s *solidState) read(start time.Duration, offset, length int64) time.Duration {
	end := offset + length
	if s.dirty.covers(offset, end) {
		return s.transfer(start, length)
	}
	var first, last time.Duration
	for page := offset / s.t.Page; page*s.t.Page < end; page++ {
		c := &s.channels[page%int64(len(s.channels))]
		*c = max(*c, start) + s.t.Read
		if first == 0 || *c < first {
			first = *c
		}
		last = max(last, *c)
	}
	return max(last, s.transfer(first, length))
}

func (s *solidState) write(start time.Duration, e *blocklog.Event) time.Duration {
	end := e.Offset + e.Length
	if !throughMedia(e, s.writeCache) {
		start = s.makeRoom(start, e.Length)
		s.dirty.add(e.Offset, end)
		return s.transfer(start, e.Length)
	}
	s.dirty.remove(e.Offset, end)
	there := s.transfer(start, e.Length)
	if s.t.FUA == 0 {
		return there
	}
	more := s.turns(pagesOf(extent{e.Offset, end}, s.t.Page)) - 1
	s.commit = max(s.commit, there) + s.t.FUA + time.Duration(more)*s.t.FlushPage
	return s.commit
}

// flush brings all that is dirty to flash.
func (s *solidState) flush(start time.Duration) time.Duration {
	if len(s.dirty.list) == 0 {
		return start
	}
	var pages int64
	for _, e := range s.dirty.list {
		pages += pagesOf(e, s.t.Page)
	}
	s.dirty.clear()
	s.commit = max(s.commit, start) + s.t.Flush + time.Duration(s.turns(pages))*s.t.FlushPage
	return s.commit
}

// makeRoom returns when the buffer can take that many bytes: what is too much in
// it has been programmed by all channels together.
func (s *solidState) makeRoom(start time.Duration, length int64) time.Duration {
	for len(s.dirty.list) > 0 && (len(s.dirty.list) >= maxExtents || s.t.Buffer > 0 && s.dirty.bytes+length > max(s.t.Buffer, length)) {
		e := s.dirty.list[0]
		e.to = min(e.to, e.from+s.t.Page*int64(len(s.channels)))
		s.dirty.remove(e.from, e.to)
		s.commit = max(s.commit, start) + time.Duration(s.turns(pagesOf(e, s.t.Page)))*s.t.Program
		start = s.commit
	}
	return start
}

// turns is how often the busiest channel has to work for that many pages.
func (s *solidState) turns(pages int64) int64 {
	n := int64(len(s.channels))
	return (pages + n - 1) / n
}

// pagesOf is the number of pages that an extent touches.
func pagesOf(e extent, page int64) int64 { return (e.to-1)/page - e.from/page + 1 }
