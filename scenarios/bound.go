package scenarios

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"powercut/guest/workload"
)

// Unit is what a Bound counts.
type Unit string

// The units.
const (
	Number Unit = "number" // any quantity, such as writes per op or a ratio
	Ops    Unit = "ops"    // a whole number of ops
	Time   Unit = "time"   // nanoseconds, written with a unit: 7.5ms
)

// Operator is how a Bound compares.
type Operator string

// The operators. The empty one compares for equality.
const (
	Equal   Operator = ""
	AtLeast Operator = ">="
	Above   Operator = ">"
	AtMost  Operator = "<="
	Below   Operator = "<"
	Within  Operator = ".." // from Value to High, both included
	Some    Operator = "some"
)

// Bound is a condition on a number, as a scenario writes it: "0", ">= 2", "< 5ms",
// "7.5ms..9.16ms", or (of ops) "some", which is at least one.
type Bound struct {
	Operator Operator
	Value    float64 // in nanoseconds where Unit is Time; 0 with Some
	High     float64 // with Within
	Unit     Unit
}

// maxBound limits a bound's value, so that each is an exact float64: 10^15, as
// nanoseconds 11 days.
const maxBound = 1e15

// Holds reports whether x, in nanoseconds where the unit is Time, is within the
// bound. It never holds of a NaN.
func (b Bound) Holds(x float64) bool {
	switch b.Operator {
	case AtLeast:
		return x >= b.Value
	case Above:
		return x > b.Value
	case AtMost:
		return x <= b.Value
	case Below:
		return x < b.Value
	case Within:
		return x >= b.Value && x <= b.High
	case Some:
		return x >= 1
	default:
		return x == b.Value
	}
}

// least is the smallest number at or above which the bound can hold.
func (b Bound) least() float64 {
	switch b.Operator {
	case AtMost, Below:
		return 0
	case Some:
		return 1
	case Above:
		return math.Nextafter(b.Value, math.Inf(1))
	default:
		return b.Value
	}
}

// ParseBound reads a Bound on a number of the given unit. A bound that nothing
// can fulfil, such as "< 0", is an error.
func ParseBound(text string, unit Unit) (Bound, error) {
	b := Bound{Unit: unit}
	text = strings.TrimSpace(text)
	if text == string(Some) && unit == Ops {
		b.Operator = Some
		return b, nil
	}
	low, high, within := strings.Cut(text, "..")
	if within {
		b.Operator = Within
		var errs [2]error
		b.Value, errs[0] = parseNumber(low, unit)
		b.High, errs[1] = parseNumber(high, unit)
		if b.High < b.Value && errs == [2]error{} {
			return Bound{}, errors.New("is a range whose end lies before its beginning")
		}
		return b, errors.Join(errs[:]...)
	}
	b.Operator, text = cutOperator(text)
	var err error
	b.Value, err = parseNumber(text, unit)
	if err == nil && b.Operator == Below && b.Value == 0 {
		err = errors.New("can never hold; nothing is below 0")
	}
	return b, err
}

// cutOperator takes the comparison off the front of text.
func cutOperator(text string) (Operator, string) {
	for _, op := range []Operator{AtLeast, AtMost, Above, Below} {
		if rest, ok := strings.CutPrefix(text, string(op)); ok {
			return op, rest
		}
	}
	text = strings.TrimPrefix(text, "=")
	return Equal, strings.TrimPrefix(text, "=")
}

// parseNumber reads a number of the unit, not negative.
func parseNumber(text string, unit Unit) (float64, error) {
	text = strings.TrimSpace(text)
	if unit == Time {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || float64(d) > maxBound {
			return 0, boundError(unit)
		}
		return float64(d), nil
	}
	if !decimal(text) || unit == Ops && !digits(text) {
		return 0, boundError(unit)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x > maxBound {
		return 0, fmt.Errorf("is too large; at most %.0f", maxBound)
	}
	return x, nil
}

// boundError says how a bound of the unit is written.
func boundError(unit Unit) error { return errors.New("is not a bound; write " + boundForm(unit)) }

// boundForm gives examples of bounds of the unit.
func boundForm(unit Unit) string {
	switch unit {
	case Ops:
		return "a number of ops such as 0, a comparison such as \">= 1\", a range such as 2..5, or some"
	case Time:
		return "a comparison of durations such as \"< 5ms\", or a range such as 7.5ms..9.16ms"
	default:
		return "a number such as 0, a comparison such as \">= 2\", or a range such as 2..2.5"
	}
}

// String prints the bound so that ParseBound reads it back.
func (b Bound) String() string {
	switch b.Operator {
	case Some:
		return string(Some)
	case Within:
		return b.format(b.Value) + ".." + b.format(b.High)
	case Equal:
		return b.format(b.Value)
	default:
		return string(b.Operator) + " " + b.format(b.Value)
	}
}

func (b Bound) format(x float64) string {
	if b.Unit == Time {
		return formatDuration(time.Duration(x))
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// Bounds is a condition for each sync call. What stands at Every holds for each
// call that is not named. In a file a bound alone is the one for Every.
type Bounds map[workload.Call]Bound

// For returns the condition on call, and whether there is one.
func (b Bounds) For(call workload.Call) (Bound, bool) {
	if bound, ok := b[call]; ok {
		return bound, true
	}
	bound, ok := b[Every]
	return bound, ok
}

// keys lists the calls of b, in the order of workload.Calls, Every first.
func (b Bounds) keys() []workload.Call {
	var keys []workload.Call
	for _, call := range append([]workload.Call{Every}, workload.Calls...) {
		if _, ok := b[call]; ok {
			keys = append(keys, call)
		}
	}
	return keys
}

// Ratio is a condition on the latency of one sync call over that of another,
// written "fsync / O_DSYNC >= 2.5".
type Ratio struct {
	Over, Under workload.Call
	Bound       Bound // of Unit Number
}

var errRatio = errors.New("is not a ratio; write two calls and a bound, such as \"fsync / O_DSYNC >= 2.5\"")

// ParseRatio reads a Ratio.
func ParseRatio(text string) (Ratio, error) {
	over, rest, ok := strings.Cut(text, "/")
	rest = strings.TrimSpace(rest)
	end := strings.IndexAny(rest, " <>=")
	if !ok || end < 0 {
		return Ratio{}, errRatio
	}
	r := Ratio{Over: workload.Call(strings.TrimSpace(over)), Under: workload.Call(rest[:end])}
	for _, call := range []workload.Call{r.Over, r.Under} {
		if !slices.Contains(workload.Calls, call) {
			return Ratio{}, fmt.Errorf("is not a ratio: the call %s", unknown(string(call), words(workload.Calls...)))
		}
	}
	if r.Over == r.Under {
		return Ratio{}, errors.New("compares a call with itself")
	}
	bound, err := ParseBound(rest[end:], Number)
	if err != nil {
		return Ratio{}, errRatio
	}
	r.Bound = bound
	return r, nil
}

// Holds reports whether the latencies over and under, of the calls of these
// names, are within the ratio. It never holds where under is 0.
func (r Ratio) Holds(over, under float64) bool {
	return under != 0 && r.Bound.Holds(over/under)
}

// String prints the ratio so that ParseRatio reads it back.
func (r Ratio) String() string {
	bound := r.Bound.String()
	if r.Bound.Operator == Equal {
		bound = "= " + bound
	}
	return fmt.Sprintf("%s / %s %s", r.Over, r.Under, bound)
}
