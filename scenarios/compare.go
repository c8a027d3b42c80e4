package scenarios

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"powercut/guest/workload"
)

// Measure is a latency of one sync call that a Comparison is about.
type Measure string

// The measures. InDrive is the part of the mean during which a request of the op was
// with the drive, by the host's clock: what a guest's processor, or a busy host,
// adds between requests is not in it.
const (
	Mean    Measure = "mean"
	P50     Measure = "p50"
	P99     Measure = "p99"
	Max     Measure = "max"
	InDrive Measure = "drive"
)

// Term names one figure of a matrix: that of a call in a cell, which is named as its
// scenario is, without the matrix's own name. The call of a workload of ops is OpsCall.
type Term struct {
	Call workload.Call
	Cell string
}

// Comparison is a condition on a ratio between two cells of a matrix, or two calls,
// written "mean of fsync in large / fsync in small 1.1..2".
type Comparison struct {
	Measure     Measure
	Over, Under Term
	Bound       Bound // of Unit Number
}

var (
	errComparison  = errors.New(`is not a comparison; write a measure (mean, p50, p99, max, drive), two calls, each with its cell, and a bound, such as "mean of fsync in large / fsync in small >= 2"`)
	comparisonForm = regexp.MustCompile(`^(mean|p50|p99|max|drive) of (\S+) in (\S+) / (\S+) in (\S+) +(.+)$`)
)

// ParseComparison reads a Comparison.
func ParseComparison(text string) (Comparison, error) {
	m := comparisonForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Comparison{}, errComparison
	}
	c := Comparison{
		Measure: Measure(m[1]),
		Over:    Term{workload.Call(m[2]), m[3]}, Under: Term{workload.Call(m[4]), m[5]},
	}
	for _, call := range []workload.Call{c.Over.Call, c.Under.Call} {
		if call != OpsCall && !slices.Contains(workload.Calls, call) {
			return Comparison{}, fmt.Errorf("is not a comparison: the call %s", unknown(string(call), append(words(workload.Calls...), string(OpsCall))))
		}
	}
	if c.Over == c.Under {
		return Comparison{}, errors.New("compares a figure with itself")
	}
	var err error
	if c.Bound, err = ParseBound(m[6], Number); err != nil {
		return Comparison{}, errComparison
	}
	return c, nil
}

// String prints the comparison so that ParseComparison reads it back.
func (c Comparison) String() string {
	return fmt.Sprintf("%s of %s in %s / %s in %s %s", c.Measure, c.Over.Call, c.Over.Cell, c.Under.Call, c.Under.Cell, c.Bound)
}

// known says which of the comparison's terms is none of the cells', by name without
// the matrix's.
func (c Comparison) known(cells map[string]Scenario) error {
	for _, t := range []Term{c.Over, c.Under} {
		s, ok := cells[t.Cell]
		if !ok {
			var names []string
			for name := range cells {
				names = append(names, name)
			}
			slices.Sort(names)
			return fmt.Errorf("%s is no cell of this matrix; its cells: %s", t.Cell, strings.Join(names, ", "))
		}
		if !slices.Contains(s.Workload.Calls, t.Call) {
			return fmt.Errorf("in %s, %s", t.Cell, s.notMade(t.Call))
		}
	}
	return nil
}
