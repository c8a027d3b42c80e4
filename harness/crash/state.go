package crash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
)

// State names one possible content of the media after a cut: the position of the
// cut, and what of the writes that are volatile there did not reach the media. In the
// text form
//
//	57                          all did
//	57 without 21-24,30[0-2,5]  none of requests 21 to 24, and not sectors 0 to 2 and 5 of request 30
//
// sectors are counted from the beginning of the request.
type State struct {
	Cut     int    // position: the events before it happened, and no other
	Missing []Loss // ascending by request
}

// Loss is what is missing of one request: all of it, or some of its sectors. The
// zero value lacks nothing.
type Loss struct {
	Request uint64
	Sectors []int64 // from the request's beginning, ascending; none: all of it is missing
}

func (m Loss) none() bool { return m.Request == 0 }

// all tells whether nothing of the request reached the media.
func (m Loss) all(e *blocklog.Event) bool {
	return !m.none() && (len(m.Sectors) == 0 || int64(len(m.Sectors)) == sectorsOf(e))
}

// whole lacks all of a request.
func whole(e *blocklog.Event) Loss { return Loss{Request: e.Request} }

// scattered lacks each unit of a request, which the drive writes whole, with a chance of
// one half. Units are of that many bytes; 0: a sector's.
func scattered(e *blocklog.Event, unit int64, random *rand.Rand) Loss {
	m := Loss{Request: e.Request}
	lost := false
	for i := range sectorsOf(e) {
		if at := e.Offset + i*disk.SectorSize; i == 0 || at%max(unit, disk.SectorSize) == 0 {
			lost = random.IntN(2) != 0
		}
		if lost {
			m.Sectors = append(m.Sectors, i)
		}
	}
	switch int64(len(m.Sectors)) {
	case 0:
		return Loss{}
	case sectorsOf(e):
		return whole(e)
	}
	return m
}

func sectorsOf(e *blocklog.Event) int64 { return e.Length / disk.SectorSize }

// check demands that the request has the sectors that are missing of it.
func (m Loss) check(e *blocklog.Event) error {
	if n := len(m.Sectors); n > 0 && m.Sectors[n-1] >= sectorsOf(e) {
		return fmt.Errorf("request %d has %d sectors, and no sector %d", m.Request, sectorsOf(e), m.Sectors[n-1])
	}
	return nil
}

// kept calls each for the runs of sectors, from one up to another, that did reach
// the media.
func (m Loss) kept(e *blocklog.Event, each func(from, to int64)) {
	if m.all(e) {
		return
	}
	from := int64(0)
	for _, s := range m.Sectors {
		if from < s {
			each(from, s)
		}
		from = s + 1
	}
	if n := sectorsOf(e); from < n {
		each(from, n)
	}
}

// without separates the cut from what is missing, in a state's text.
const without = " without "

// String is the state's text form. ParseState reads it.
func (s State) String() string {
	b := strconv.AppendInt(nil, int64(s.Cut), 10)
	for i := 0; i < len(s.Missing); {
		b = append(b, [2]string{without, ","}[min(i, 1)]...)
		m, next := s.Missing[i], i+1
		for ; len(m.Sectors) == 0 && next < len(s.Missing) && follows(s.Missing[next-1], s.Missing[next]); next++ {
		}
		b = appendRange(b, m.Request, s.Missing[next-1].Request)
		if len(m.Sectors) > 0 {
			b = appendSectors(b, m.Sectors)
		}
		i = next
	}
	return string(b)
}

// follows tells whether b is, as a whole, the request after a.
func follows(a, b Loss) bool { return len(b.Sectors) == 0 && b.Request == a.Request+1 }

func appendSectors(b []byte, sectors []int64) []byte {
	b = append(b, '[')
	for i := 0; i < len(sectors); {
		next := i + 1
		for ; next < len(sectors) && sectors[next] == sectors[next-1]+1; next++ {
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRange(b, uint64(sectors[i]), uint64(sectors[next-1]))
		i = next
	}
	return append(b, ']')
}

// appendRange appends first, or first-last where they differ.
func appendRange(b []byte, first, last uint64) []byte {
	b = strconv.AppendUint(b, first, 10)
	if last != first {
		b = strconv.AppendUint(append(b, '-'), last, 10)
	}
	return b
}

// maxRange bounds the numbers that a range in a state's text may stand for.
const maxRange = 1 << 20

// ParseState reads the text form of a state. Requests and sectors stand in ascending
// order. Whether a log has such a state is found when it is built.
func ParseState(text string) (State, error) {
	s, err := parseState(text)
	if err != nil {
		return State{}, fmt.Errorf("read crash state %q: %w; it is a position, such as 57, or a position and what is missing, such as 57 without 21-24,30[0-2,5]", text, err)
	}
	return s, nil
}

func parseState(text string) (State, error) {
	cut, rest, some := strings.Cut(text, without)
	at, err := strconv.ParseUint(cut, 10, 31)
	if err != nil {
		return State{}, fmt.Errorf("%q is no position", cut)
	}
	s := State{Cut: int(at)}
	if !some {
		return s, nil
	}
	for _, item := range splitItems(rest) {
		list, err := parseItem(item)
		if err != nil {
			return State{}, err
		}
		if n := len(s.Missing); n > 0 && s.Missing[n-1].Request >= list[0].Request {
			return State{}, fmt.Errorf("request %d does not follow request %d", list[0].Request, s.Missing[n-1].Request)
		}
		s.Missing = append(s.Missing, list...)
	}
	return s, nil
}

// splitItems splits at the commas that are not in brackets.
func splitItems(text string) []string {
	depth := 0
	var out []string
	from := 0
	for i, c := range text {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			out, from = append(out, text[from:i]), i+1
		}
	}
	return append(out, text[from:])
}

// parseItem reads one request with or without sectors, or a range of requests.
func parseItem(text string) ([]Loss, error) {
	number, sectors, some := strings.Cut(text, "[")
	first, last, err := parseRange(number)
	if err != nil {
		return nil, err
	}
	if first == 0 {
		return nil, fmt.Errorf("there is no request 0")
	}
	if !some {
		var out []Loss
		for n := first; n <= last; n++ {
			out = append(out, Loss{Request: n})
		}
		return out, nil
	}
	m := Loss{Request: first}
	inner, closed := strings.CutSuffix(sectors, "]")
	if first != last || !closed {
		return nil, fmt.Errorf("%q is no request with sectors", text)
	}
	for part := range strings.SplitSeq(inner, ",") {
		from, to, err := parseRange(part)
		if err != nil {
			return nil, err
		}
		if n := len(m.Sectors); n > 0 && m.Sectors[n-1] >= int64(from) {
			return nil, fmt.Errorf("sector %d does not follow sector %d", from, m.Sectors[n-1])
		}
		for n := from; n <= to; n++ {
			m.Sectors = append(m.Sectors, int64(n))
		}
	}
	return []Loss{m}, nil
}

// parseRange reads first or first-last.
func parseRange(text string) (first, last uint64, err error) {
	a, b, two := strings.Cut(text, "-")
	if first, err = strconv.ParseUint(a, 10, 62); err == nil && two {
		last, err = strconv.ParseUint(b, 10, 62)
	} else {
		last = first
	}
	if err != nil || last < first || last-first > maxRange {
		return 0, 0, fmt.Errorf("%q is neither a number nor a range of them", text)
	}
	return first, last, nil
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// Equal tells whether two states are the same.
func (s State) Equal(o State) bool {
	return s.Cut == o.Cut && slices.EqualFunc(s.Missing, o.Missing, func(a, b Loss) bool {
		return a.Request == b.Request && slices.Equal(a.Sectors, b.Sectors)
	})
}
