package bench

import (
	"fmt"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
)

const (
	kib = int64(1 << 10)
	mib = int64(1 << 20)
)

// maxCopied is the rate, in bytes a second, up to which a drive's bus is measured by
// long writes: the harness itself has to receive, check and record them.
const maxCopied = 1e9

func writing(at, n int64) step {
	return step{Event: blocklog.Event{Op: blocklog.Write, Offset: at, Length: n}}
}

func forcing(at, n int64) step {
	s := writing(at, n)
	s.FUA = true
	return s
}

func reading(at, n int64) step {
	return step{Event: blocklog.Event{Op: blocklog.Read, Offset: at, Length: n}}
}

func flushing() step { return step{Event: blocklog.Event{Op: blocklog.Flush}} }

func (s step) clocked() step {
	s.timed = true
	return s
}

// rotatingTrials are those of a rotating drive of size bytes.
func rotatingTrials(t disk.Rotating, size int64) []trial {
	track := int64(t.SectorsPerTrack) * disk.SectorSize
	tracks := size / track
	again := forcing(size/2, 4*kib).clocked()
	out := []trial{
		{text: "rewrite a sector, cache off: a revolution", steps: []step{again}, repeats: 40},
		{text: "rewrite a sector, FUA: a revolution", cache: true, steps: []step{again}, repeats: 40},
	}
	for _, distance := range []int64{1, tracks / 100, tracks / 3, tracks - 2} {
		out = append(out, seekTrial(track, tracks, distance))
	}
	stream := trial{text: "read on and on", repeats: 5}
	begin := size / 4
	for n := range int64(32) {
		s := reading(begin+n*128*kib, 128*kib)
		if s.timed = n > 0; s.timed {
			stream.bytes += s.Length
		}
		stream.steps = append(stream.steps, s)
	}
	return append(out, stream,
		trial{text: "write 64 KiB into the cache", cache: true, repeats: 40, steps: []step{writing(size/8, 64*kib).clocked()}},
		flushTrial(track, tracks, 1), flushTrial(track, tracks, 32))
}

// seekTrial goes to and fro between two tracks. On one of them the place is another
// one each time, round the disk, so that the mean wait for a sector is half a turn.
func seekTrial(track, tracks, distance int64) trial {
	const places = 24
	t := trial{text: fmt.Sprintf("seek over %d of %d tracks, wait for a sector", distance, tracks), repeats: 3}
	from := (tracks - distance) / 2
	for n := range int64(places) {
		at := n * (track / disk.SectorSize) / places * disk.SectorSize
		t.steps = append(t.steps, forcing(from*track, disk.SectorSize).clocked(), forcing((from+distance)*track+at, disk.SectorSize).clocked())
	}
	return t
}

// flushTrial flushes n pieces that lie all over the disk. A write to the media comes
// first, so that the disk's angle is known.
func flushTrial(track, tracks, n int64) trial {
	t := trial{text: fmt.Sprintf("flush %d dirty blocks", n), cache: true, repeats: 5, steps: []step{forcing(0, disk.SectorSize)}}
	for i := range n {
		at := (i*7%n + 1) * (tracks / (n + 1)) * track // in no order
		t.steps = append(t.steps, writing(at+i*(track/disk.SectorSize)/n*disk.SectorSize, 4*kib))
	}
	t.steps = append(t.steps, flushing().clocked())
	return t
}

// solidTrials are those of a solid-state drive.
func solidTrials(t disk.SolidState) []trial {
	out := []trial{
		{text: "read 4 KiB", cache: true, repeats: 300, steps: []step{reading(1<<30, 4*kib).clocked()}},
		{text: "read 1 MiB", cache: true, repeats: 40, bytes: mib, steps: []step{reading(1<<30, mib).clocked()}},
		{text: "write 4 KiB into the cache", cache: true, repeats: 300, steps: []step{writing(0, 4*kib).clocked()}},
		{text: "write 8 KiB, FUA", cache: true, repeats: 100, steps: []step{forcing(0, 8*kib).clocked()}},
		{text: "write 8 KiB, cache off", repeats: 100, steps: []step{writing(0, 8*kib).clocked()}},
		{text: "flush with nothing dirty", cache: true, repeats: 300, steps: []step{flushing().clocked()}},
	}
	if t.BusRate <= maxCopied {
		out = append(out, trial{text: "write 1 MiB into the cache", cache: true, repeats: 40, bytes: mib, steps: []step{writing(0, mib).clocked()}})
	}
	for _, n := range []int64{1, 8 * int64(t.Channels)} {
		f := trial{text: fmt.Sprintf("flush %d dirty blocks", n), cache: true, repeats: 40}
		for i := range n {
			f.steps = append(f.steps, writing(i*7*t.Page, 4*kib))
		}
		f.steps = append(f.steps, flushing().clocked())
		out = append(out, f)
	}
	return out
}
