package disk

import (
	"math"
	"time"

	"powercut/harness/blocklog"
)

// Rotating describes a drive with one actuator over a spinning disk. Its address
// space is a sequence of tracks of equal length; the start of each is skewed
// against the one before by the time of a seek to the next track, so that long
// transfers do not lose a revolution at each track.
type Rotating struct {
	RPM             int           // revolutions a minute
	SectorsPerTrack int           // of 512 bytes
	SeekMin         time.Duration // from a track to the next
	SeekMax         time.Duration // across the whole disk; between them grows with the square root of the distance
	BusRate         int64         // bytes a second between host and drive
	Overhead        time.Duration // of each command, before anything moves
	Buffer          int64         // bytes that may wait in the write cache for the media; 0: no limit
}

// Revolution is the time of one turn.
func (t Rotating) Revolution() time.Duration { return time.Minute / time.Duration(t.RPM) }

// Skew is the time by which a track's first sector comes later than that of the
// track before.
func (t Rotating) Skew() time.Duration { return t.SeekMin + 2*t.Overhead }

// SeekTime is the time that the actuator takes over that many of the disk's tracks.
func (t Rotating) SeekTime(distance, tracks int64) time.Duration {
	if distance == 0 {
		return 0
	}
	way := math.Sqrt(float64(distance-1) / float64(tracks))
	return t.SeekMin + time.Duration(way*float64(t.SeekMax-t.SeekMin))
}

// Model implements Timing.
func (t Rotating) Model(size int64, writeCache bool) Model { return newMechanics(t, size, writeCache) }

// What the drive does on its own, in bytes: how far it reads ahead, and how much it
// brings to the media at a time when its buffer is full. Assumed.
const (
	readAhead   = 512 << 10
	destageStep = 256 << 10
	// destageWindow is how many pieces to each side of the actuator it chooses among.
	destageWindow = 64
)

// mechanics is the model of a rotating drive. The disk's angle is a function of
// time alone, so a reply that the host sends late makes no later one late.
// Commands are served one after the other, in order of arrival; what the drive
// chooses the order of is how its buffer gets to the media: first what the head can
// begin first, seek and turn together (shortest access time first, as in Jacobson and
// Wilkes, "Disk scheduling algorithms based on rotational position", 1991).
type mechanics struct {
	t          Rotating
	revolution time.Duration
	tracks     int64
	trackBytes int64
	skew       float64 // of a turn, from track to track
	writeCache bool

	free  time.Duration // when the last command is answered
	media time.Duration // when the actuator is done with what it does
	track int64         // where the actuator then is
	dirty extents       // with the write cache on: what the media lacks
	// destaging: the buffer was full, and the actuator goes on to empty it, down to
	// half, whenever nothing else is to be done.
	destaging bool
	ahead     span // what has been read ahead
	reading   bool // the head is still at it
}

// span is a stretch of the disk that passes under the head: byte from at the time
// begun, and so on to byte to.
type span struct {
	from, to int64
	begun    time.Duration
}

// newMechanics returns a drive of size bytes at rest at its first track.
func newMechanics(t Rotating, size int64, writeCache bool) *mechanics {
	m := &mechanics{t: t, revolution: t.Revolution(), writeCache: writeCache, trackBytes: int64(t.SectorsPerTrack) * SectorSize}
	m.tracks = max(1, size/m.trackBytes)
	m.skew = float64(t.Skew()) / float64(m.revolution)
	return m
}

// Serve implements Model.
func (m *mechanics) Serve(now time.Duration, e *blocklog.Event) time.Duration {
	start := max(now, m.free) + m.t.Overhead
	m.background(start)
	switch e.Op {
	case blocklog.Read:
		m.free = m.read(start, e.Offset, e.Length)
	case blocklog.Write:
		m.free = m.write(start, e)
	case blocklog.Flush:
		m.free = m.flush(start)
	case blocklog.Trim, blocklog.Zeroes: // the drive notes them, and writes nothing
		m.dirty.remove(e.Offset, e.Offset+e.Length)
		m.spoil(e.Offset, e.Length)
		m.free = start
	}
	return m.free
}

func (m *mechanics) write(start time.Duration, e *blocklog.Event) time.Duration {
	end := e.Offset + e.Length
	m.spoil(e.Offset, e.Length)
	if throughMedia(e, m.writeCache) {
		m.dirty.remove(e.Offset, end)
		return max(start+m.bus(e.Length), m.access(start+m.bus(SectorSize), e.Offset, e.Length))
	}
	room := m.makeRoom(start, e.Length)
	m.dirty.add(e.Offset, end)
	return room + m.bus(e.Length)
}

// spoil forgets what was read ahead of a stretch that is being written.
func (m *mechanics) spoil(offset, length int64) {
	if m.ahead.from < offset+length && offset < m.ahead.to {
		m.ahead, m.reading = span{}, false
	}
}

// read takes from the drive's buffers what is there, and else from the media.
func (m *mechanics) read(start time.Duration, offset, length int64) time.Duration {
	end := offset + length
	if m.dirty.covers(offset, end) {
		return start + m.bus(length)
	}
	if m.ahead.from <= offset && end <= m.ahead.to {
		passed := m.ahead.begun + m.transfer(m.ahead.from, end)
		m.readOn(max(start, passed), end)
		return max(start, passed) + m.bus(length)
	}
	done := m.access(start, offset, length)
	m.ahead, m.reading = span{from: offset, to: end + readAhead, begun: done - m.transfer(offset, end)}, true
	return done + m.bus(length)
}

// readOn lets a head that is still reading ahead go on past what was asked for until
// now; once it has stopped it has lost its place. What was asked for long ago leaves
// the buffer.
func (m *mechanics) readOn(now time.Duration, end int64) {
	if m.reading = m.reading && now < m.ahead.begun+m.transfer(m.ahead.from, m.ahead.to); !m.reading {
		return
	}
	m.ahead.to = max(m.ahead.to, end+readAhead)
	if from := end - readAhead; from > m.ahead.from {
		m.ahead.begun += m.transfer(m.ahead.from, from+SectorSize) - m.transfer(from, from+SectorSize)
		m.ahead.from = from
	}
}

// flush brings all that the media lacks there.
func (m *mechanics) flush(start time.Duration) time.Duration {
	for len(m.dirty.list) > 0 {
		start = m.destage(start, math.MaxInt64)
	}
	m.destaging = false
	return max(start, m.media)
}

// destage brings the piece that comes under the head first to the media, or at most
// limit bytes of it, and returns when it is there.
func (m *mechanics) destage(start time.Duration, limit int64) time.Duration {
	start = max(start, m.media)
	m.leave(start)
	e, soonest := extent{}, time.Duration(math.MaxInt64)
	for _, c := range m.dirty.near(m.track*m.trackBytes, destageWindow) {
		if begin := m.reach(start, c.from); begin < soonest {
			e, soonest = c, begin
		}
	}
	e.to = e.from + min(e.length(), limit)
	m.dirty.remove(e.from, e.to)
	return m.access(start, e.from, e.length())
}

// full tells whether the buffer cannot take that many bytes more.
func (m *mechanics) full(length int64) bool {
	return len(m.dirty.list) >= maxExtents || m.t.Buffer > 0 && m.dirty.bytes+length > max(m.t.Buffer, length)
}

// makeRoom returns when the buffer can take that many bytes.
func (m *mechanics) makeRoom(start time.Duration, length int64) time.Duration {
	for m.full(length) {
		m.destaging = true
		start = max(start, m.destage(start, destageStep))
	}
	return start
}

// background does what the actuator has begun on its own before now.
func (m *mechanics) background(now time.Duration) {
	for m.destaging && m.media < now {
		if m.destaging = m.dirty.bytes > m.t.Buffer/2 && len(m.dirty.list) > 0; m.destaging {
			m.destage(m.media, destageStep)
		}
	}
}

// access moves the actuator, once it is free, waits for the sector and transfers.
func (m *mechanics) access(start time.Duration, offset, length int64) time.Duration {
	start = max(start, m.media)
	m.leave(start)
	m.media = m.reach(start, offset) + m.transfer(offset, offset+length)
	m.track = (offset + length - 1) / m.trackBytes
	return m.media
}

// reach is when the sector at offset comes under the head, if the actuator sets out
// at start.
func (m *mechanics) reach(start time.Duration, offset int64) time.Duration {
	track := offset / m.trackBytes
	there := start + m.t.SeekTime(max(track-m.track, m.track-track), m.tracks)
	return there + m.wait(there, offset)
}

// leave ends the reading ahead: what has passed under the head by then is there.
func (m *mechanics) leave(now time.Duration) {
	if !m.reading {
		return
	}
	m.reading = false
	turns := float64(now-m.ahead.begun) / float64(m.revolution+m.t.Skew())
	passed := max(0, int64(turns*float64(m.trackBytes))/SectorSize*SectorSize)
	m.ahead.to = min(m.ahead.to, m.ahead.from+passed)
	m.track = max(m.ahead.to-1, 0) / m.trackBytes
}

// wait is the time until the sector at offset comes under the head.
func (m *mechanics) wait(now time.Duration, offset int64) time.Duration {
	track, in := offset/m.trackBytes, offset%m.trackBytes
	at := float64(in)/float64(m.trackBytes) + float64(track)*m.skew
	_, at = math.Modf(at)
	head := float64(now%m.revolution) / float64(m.revolution)
	turn := at - head
	if turn < -1e-6 { // rounding must not cost a turn
		turn++
	}
	return time.Duration(max(turn, 0) * float64(m.revolution))
}

// transfer is the time that the bytes from from to to take under the head, the ways
// from track to track included.
func (m *mechanics) transfer(from, to int64) time.Duration {
	turns := float64(to-from) / float64(m.trackBytes)
	crossed := (to-1)/m.trackBytes - from/m.trackBytes
	return time.Duration(turns*float64(m.revolution)) + time.Duration(max(crossed, 0))*m.t.Skew()
}

// bus is the time that length bytes take between host and drive.
func (m *mechanics) bus(length int64) time.Duration { return onBus(length, m.t.BusRate) }
