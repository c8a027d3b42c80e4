package verdict

import (
	"fmt"
	"slices"
	"strings"

	"powercut/guest/workload"
)

// badSize says what is wrong with the file's size, or nothing. Between what was
// promised and what the ops that had begun can have made of it each size is
// right.
func (j *judge) badSize() string {
	if !j.exists {
		return "" // Setup says so
	}
	least, most := int64(0), j.plan.SizeAfter(j.started)
	if j.acked[0] {
		least = j.plan.SizeAfter(0)
	}
	for k := j.started; k > 0; k-- {
		least = max(least, j.promised(k).End())
	}
	switch {
	case j.stat > most && !j.rounded(most):
		return fmt.Sprintf("%d bytes, but no op that had begun makes it larger than %d", j.stat, most)
	case j.stat < least:
		return fmt.Sprintf("%d bytes, but %d were acknowledged", j.stat, least)
	case j.size < j.stat:
		return fmt.Sprintf("%d bytes, but only %d of them could be read", j.stat, j.size)
	}
	return ""
}

// rounded tells whether the file ends where a checker would have moved its end
// from most, or from a smaller size, and holds zeros behind most.
func (j *judge) rounded(most int64) bool {
	if j.rounding <= 0 || j.plan.Kind != workload.Append {
		return false
	}
	if j.stat != (most+j.rounding-1)/j.rounding*j.rounding || j.size < j.stat {
		return false
	}
	for from := most; from < j.size; from += chunk {
		if slices.ContainsFunc(j.data.Range(from, min(from+chunk, j.size)), func(b byte) bool { return b != 0 }) {
			return false
		}
	}
	return true
}

// describe puts a level into words.
func (j *judge) describe(level int32) string {
	switch {
	case level == ended && !j.exists:
		return "the file is missing"
	case level == ended:
		return fmt.Sprintf("the file ends at %d", j.size)
	case level == blank:
		return "zeros"
	case level == 0:
		return "the content from before op 1"
	default:
		return fmt.Sprintf("the content of op %d", level)
	}
}

// quoted is how many foreign bytes are shown.
const quoted = 8

// quote shows the first foreign bytes of an extent that begins with one.
func (j *judge) quote(e workload.Extent) string {
	var text strings.Builder
	noun := "byte"
	for off := e.Offset; off < min(e.End(), e.Offset+quoted) && j.stranger(off); off++ {
		if off > e.Offset {
			noun = "bytes"
		}
		fmt.Fprintf(&text, " 0x%02x", j.data.Range(off, off+1)[0])
	}
	return noun + text.String() + " that no op wrote there"
}
