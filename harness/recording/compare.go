package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cespare/xxhash/v2"

	"powercut/harness/blocklog"
	"powercut/harness/logwrites"
)

// Comparison is how a log of another tool agrees with the recording.
type Comparison struct {
	Intervals int   // between the other log's flushes; those without writes left out
	Bytes     int64 // written in them
	// Difference names the first place at which the two logs do not say the same;
	// empty: there is none.
	Difference string
	// Extra is the number of flushes in them that only the drive has seen. Where QEMU
	// makes a flush of a write's FUA, blklogwrites misses the first one.
	Extra int
	// Beyond is the number of intervals that the recording has after the end of the
	// other log. QEMU counts nothing after the last flush.
	Beyond int
}

// Compare holds what the recording wrote against a log of the same drive, kept by
// dm-log-writes or blklogwrites: between any two flushes each sector must have been
// given the same contents, in the same order. Order among sectors, and how writes
// were cut into requests, do not count, nor do flushes with nothing to flush. The
// drive may have seen more flushes than the other log has, but each that the other
// log has. The other log may end early, at a flush.
//
// Where the other log is damaged, what it has up to its last flush before the damage is
// compared, and where no difference is found in that, the error is a *logwrites.Damage.
func (r *Recording) Compare(file string) (*Comparison, error) {
	if r.Damage != nil {
		return nil, r.Damage
	}
	if err := r.oneDisk(); err != nil {
		return nil, fmt.Errorf("compare with %s: %w", file, err)
	}
	ours, err := r.intervals()
	if err != nil {
		return nil, err
	}
	theirs, err := readIntervals(file, r.Log.Size)
	var damage *logwrites.Damage
	if err != nil && (!errors.As(err, &damage) || len(theirs) == 0) {
		return nil, fmt.Errorf("compare with %s: %w", file, err)
	}
	c := &Comparison{}
	for _, b := range theirs {
		if len(ours) == 0 {
			c.Difference = fmt.Sprintf("the other log has a flush after the writes from entry %d on, and the drive was sent none", b.first)
			return c, nil
		}
		a := ours[0]
		for ours = ours[1:]; a.bytes < b.bytes && len(ours) > 0; ours = ours[1:] {
			a.join(ours[0])
			c.Extra++
		}
		if c.Difference = a.differs(b); c.Difference != "" {
			return c, nil
		}
		c.Intervals++
		c.Bytes += b.bytes
	}
	c.Beyond = len(ours)
	if damage != nil {
		return c, fmt.Errorf("compare with %s: %w", file, damage)
	}
	return c, nil
}

// interval is what was written between two flushes.
type interval struct {
	sectors map[int64][]uint64 // by number: hashes of the contents it was given
	first   uint64             // request or entry
	bytes   int64
	where   string // what first counts
}

// sorter cuts a sequence of writes and flushes into intervals.
type sorter struct {
	where string
	done  []interval
	open  interval
}

func (s *sorter) flush() {
	if s.open.sectors != nil {
		s.done = append(s.done, s.open)
	}
	s.open = interval{}
}

// write notes that length bytes at offset became those of data from at; nil: zeros.
func (s *sorter) write(number uint64, offset, length int64, data io.ReaderAt, at int64) error {
	if s.open.sectors == nil {
		s.open = interval{sectors: map[int64][]uint64{}, first: number, where: s.where}
	}
	s.open.bytes += length
	buf := make([]byte, logwrites.SectorSize)
	for done := int64(0); done < length; done += int64(len(buf)) {
		if data != nil {
			if _, err := data.ReadAt(buf, at+done); err != nil {
				return fmt.Errorf("read data of %s %d: %w", s.where, number, err)
			}
		}
		sector := (offset + done) / int64(len(buf))
		s.open.sectors[sector] = append(s.open.sectors[sector], xxhash.Sum64(buf))
	}
	return nil
}

// intervals are the recording's, up to its last flush.
func (r *Recording) intervals() ([]interval, error) {
	s := &sorter{where: "request"}
	open := map[uint64]blocklog.Event{}
	for _, e := range r.Log.Events[:r.Cut] {
		switch {
		case e.Op == blocklog.Read:
		case e.Kind == blocklog.Arrive:
			open[e.Request] = e
		case e.Op == blocklog.Flush:
			s.flush()
		case e.Errno == 0:
			var data io.ReaderAt
			if e.Op == blocklog.Write {
				data = r.Log
			}
			if err := s.write(e.Request, e.Offset, e.Length, data, open[e.Request].DataAt); err != nil {
				return nil, err
			}
		}
	}
	return s.done, nil
}

// readIntervals are those of another tool's log, up to its last flush. Where it is
// damaged the error is a *logwrites.Damage: a log that ended with its machine can be cut
// short.
func readIntervals(file string, drive int64) ([]interval, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	log, err := logwrites.NewReader(f, size)
	if err != nil {
		return nil, err
	}
	log.Drive = drive
	s := &sorter{where: "entry"}
	for {
		e, err := log.Next()
		if err == io.EOF {
			return s.done, nil
		}
		if err != nil {
			return s.done, err
		}
		if err := s.entry(log, e); err != nil {
			return nil, err
		}
	}
}

func (s *sorter) entry(log *logwrites.Reader, e logwrites.Entry) error {
	if e.Flags&logwrites.Flush != 0 {
		s.flush()
	}
	var data io.ReaderAt
	if e.DataAt != 0 {
		data = log
	}
	if e.Length == 0 {
		return nil
	}
	return s.write(uint64(e.Number), e.Offset, e.Length, data, e.DataAt)
}

// join adds what was written in the next interval.
func (a *interval) join(next interval) {
	a.bytes += next.bytes
	for n, sums := range next.sectors {
		a.sectors[n] = append(a.sectors[n], sums...)
	}
}

// differs names the first sector that the two intervals do not agree on.
func (a interval) differs(b interval) string {
	numbers := make([]int64, 0, len(a.sectors))
	for n := range a.sectors {
		numbers = append(numbers, n)
	}
	for n := range b.sectors {
		if a.sectors[n] == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		x, y := a.sectors[n], b.sectors[n]
		if slices.Equal(x, y) {
			continue
		}
		what := "other contents"
		if len(x) != len(y) {
			what = fmt.Sprintf("%d writes in the recording, %d in the other log", len(x), len(y))
		}
		return fmt.Sprintf("sector %d, between the flushes around %s %d (%s %d): %s", n, a.where, a.first, b.where, b.first, what)
	}
	return ""
}
