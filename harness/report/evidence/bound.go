package evidence

import (
	"fmt"
	"time"

	"powercut/harness/latency"
	"powercut/scenarios"
)

// Bound is a time that the drive's timing makes special: no sync call that has to do
// that on the drive can take less.
type Bound struct {
	At   time.Duration
	Name string // a few words
	Why  string // a sentence, without a point at its end; empty where the bound before it says it
}

// Bounds are those of a drive, ascending. There are none where the drive answers at
// once: what a call takes there is the host's and the guest's time.
func Bounds(d scenarios.Drive, bytes int64) []Bound {
	t := d.Timing
	switch t.Profile.Kind() {
	case scenarios.Rotating:
		return revolutions(t)
	case scenarios.SolidState:
		return flash(t, d.Volatile(), bytes)
	}
	return nil
}

// maxRevolutions is how many are drawn.
const maxRevolutions = 5

func revolutions(t scenarios.Timing) []Bound {
	list := []Bound{{
		At: t.Revolution(), Name: "1 revolution",
		Why: fmt.Sprintf("one turn of a disk of %d rpm: what has just passed under the head, such as the sector written a moment ago, comes round again after it", t.RPM),
	}}
	for n := 2; n <= maxRevolutions; n++ {
		list = append(list, Bound{At: time.Duration(n) * t.Revolution(), Name: fmt.Sprint(n)})
	}
	list[1].Why = "two turns, and so on: writes that wait for one another, such as data, journal and commit, each miss a turn"
	return list
}

func flash(t scenarios.Timing, volatile bool, bytes int64) []Bound {
	transfer := t.Overhead + time.Duration(float64(max(bytes, 4096))/float64(t.BusRate)*float64(time.Second))
	list := []Bound{{At: transfer, Name: "transfer", Why: "the overhead of a command, and the write's way over the bus"}}
	if volatile && t.Flush > 0 {
		list = append(list, Bound{
			At: transfer + t.Overhead + t.Flush + t.FlushPage, Name: "write + flush",
			Why: "a write that the cache takes, and a flush of one page",
		})
	}
	if t.FUA > 0 {
		list = append(list, Bound{At: transfer + t.FUA, Name: "FUA write", Why: "a write that is on the media when it is answered"})
	}
	if len(list) == 3 && list[1].At > list[2].At {
		list[1], list[2] = list[2], list[1]
	}
	return list
}

// Time is At for a reader.
func (b Bound) Time() string { return latency.Format(float64(b.At)) }
