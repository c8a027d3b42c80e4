package disk

import (
	"math"
	"slices"
	"time"

	"powercut/harness/blocklog"
)

// Timing describes a drive with one actuator and a spinning disk. Its address
// space is a sequence of tracks of equal length; the start of each is skewed
// against the one before by the time of a seek to the next track, so that long
// transfers do not lose a revolution at each track.
type Timing struct {
	RPM             int           // revolutions a minute
	SectorsPerTrack int           // of 512 bytes
	SeekMin         time.Duration // from a track to the next
	SeekMax         time.Duration // across the whole disk; between them grows with the square root of the distance
	BusRate         int64         // bytes a second between host and drive
	Overhead        time.Duration // of each command, before anything moves
}

// Revolution is the time of one turn.
func (t Timing) Revolution() time.Duration { return time.Minute / time.Duration(t.RPM) }

// Mechanics says when each request would be answered. All times are since the
// block log was begun; the disk's angle is a function of that time alone, so a
// reply that the host sends late makes no later one late.
type Mechanics struct {
	t          Timing
	revolution time.Duration
	tracks     int64
	skew       float64 // of a turn, from track to track
	writeCache bool

	free  time.Duration   // when the actuator is done with what came before
	track int64           // where the actuator is
	dirty map[int64]int64 // with the write cache on: offset and length of what the media lacks, bytes
	ahead span            // what the drive has read ahead since its last read from the media
}

// span is a piece of track that passes under the head: byte from at the time
// begun, and so on to byte to.
type span struct {
	from, to int64
	begun    time.Duration
}

// NewMechanics returns a drive of size bytes at rest at its first track.
func NewMechanics(t Timing, size int64, writeCache bool) *Mechanics {
	m := &Mechanics{t: t, revolution: t.Revolution(), writeCache: writeCache, dirty: map[int64]int64{}}
	m.tracks = max(1, size/(int64(t.SectorsPerTrack)*SectorSize))
	m.skew = float64(t.SeekMin+2*t.Overhead) / float64(m.revolution)
	return m
}

// Serve returns when a request that arrives now is answered.
func (m *Mechanics) Serve(now time.Duration, e *blocklog.Event) time.Duration {
	start := max(now, m.free) + m.t.Overhead
	switch e.Op {
	case blocklog.Read:
		m.free = m.read(start, e.Offset, e.Length)
	case blocklog.Write:
		m.free = m.write(start, e)
	case blocklog.Flush:
		m.free = m.flush(start)
	case blocklog.Trim, blocklog.Zeroes: // the drive notes them, and writes nothing
		m.free = start
	}
	return m.free
}

func (m *Mechanics) write(start time.Duration, e *blocklog.Event) time.Duration {
	arrived := start + m.bus(e.Length)
	if m.ahead.from < e.Offset+e.Length && e.Offset < m.ahead.to {
		m.ahead = span{}
	}
	if m.writeCache && !e.FUA {
		m.dirty[e.Offset] = max(m.dirty[e.Offset], e.Length)
		return arrived
	}
	delete(m.dirty, e.Offset)
	return max(arrived, m.access(start+m.bus(SectorSize), e.Offset, e.Length))
}

// read takes from the drive's buffers what is there, and else from the media.
func (m *Mechanics) read(start time.Duration, offset, length int64) time.Duration {
	if n, ok := m.dirty[offset]; ok && length <= n {
		return start + m.bus(length)
	}
	if m.ahead.from <= offset && offset+length <= m.ahead.to {
		passed := m.ahead.begun + m.transfer(offset+length-m.ahead.from)
		return max(start, passed) + m.bus(length)
	}
	done := m.access(start, offset, length)
	track := int64(m.t.SectorsPerTrack) * SectorSize
	end := (offset + length + track - 1) / track * track
	m.ahead = span{from: offset, to: end, begun: done - m.transfer(length)}
	return done + m.bus(length)
}

// flush writes all that the media lacks, in one sweep from the actuator's place
// on.
func (m *Mechanics) flush(start time.Duration) time.Duration {
	offsets := make([]int64, 0, len(m.dirty))
	for o := range m.dirty {
		offsets = append(offsets, o)
	}
	slices.Sort(offsets)
	here := m.track * int64(m.t.SectorsPerTrack) * SectorSize
	first, _ := slices.BinarySearch(offsets, here)
	for _, o := range append(offsets[first:len(offsets):len(offsets)], offsets[:first]...) {
		start = m.access(start, o, m.dirty[o])
	}
	clear(m.dirty)
	return start
}

// access moves the actuator, waits for the sector and transfers.
func (m *Mechanics) access(start time.Duration, offset, length int64) time.Duration {
	sector := offset / SectorSize
	track := sector / int64(m.t.SectorsPerTrack)
	there := start + m.seek(track)
	m.track = (offset + length - 1) / SectorSize / int64(m.t.SectorsPerTrack)
	return there + m.wait(there, track, sector%int64(m.t.SectorsPerTrack)) + m.transfer(length)
}

// seek is the time that the actuator takes to a track.
func (m *Mechanics) seek(track int64) time.Duration {
	distance := max(track-m.track, m.track-track)
	if distance == 0 {
		return 0
	}
	way := math.Sqrt(float64(distance-1) / float64(m.tracks))
	return m.t.SeekMin + time.Duration(way*float64(m.t.SeekMax-m.t.SeekMin))
}

// wait is the time until the sector comes under the head.
func (m *Mechanics) wait(now time.Duration, track, sector int64) time.Duration {
	at := float64(sector)/float64(m.t.SectorsPerTrack) + float64(track)*m.skew
	_, at = math.Modf(at)
	head := float64(now%m.revolution) / float64(m.revolution)
	turn := at - head
	if turn < 0 {
		turn++
	}
	return time.Duration(turn * float64(m.revolution))
}

// transfer is the time that length bytes take under the head.
func (m *Mechanics) transfer(length int64) time.Duration {
	turns := float64(length) / SectorSize / float64(m.t.SectorsPerTrack)
	return time.Duration(turns * float64(m.revolution))
}

// bus is the time that length bytes take between host and drive.
func (m *Mechanics) bus(length int64) time.Duration {
	return time.Duration(float64(length) / float64(m.t.BusRate) * float64(time.Second))
}
