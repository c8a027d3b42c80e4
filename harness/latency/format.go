package latency

import (
	"math"
	"strconv"
)

// units from the shortest to the longest, in nanoseconds.
func units() []unit {
	return []unit{{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}}
}

type unit struct {
	ns   float64
	name string
}

// Format writes a time given in nanoseconds for a reader: three significant
// digits and the unit that leaves one to three of them before the point, such
// as "8.41 ms", "182 µs" and "1.20 s". Trailing zeros stay, for they were
// measured too. Above 999 s all digits of the seconds are written; what is not
// a number is "?".
func Format(ns float64) string {
	switch {
	case math.IsNaN(ns) || math.IsInf(ns, 0):
		return "?"
	case ns < 0:
		return "-" + Format(-ns)
	case ns == 0:
		return "0 ns"
	}
	all := units()
	for _, u := range all[:len(all)-1] {
		// What rounds to 1000 of a unit is 1.00 of the next.
		if ns/u.ns < 999.5 {
			return three(ns/u.ns) + " " + u.name
		}
	}
	last := all[len(all)-1]
	return three(ns/last.ns) + " " + last.name
}

// three writes v, which is not negative, with three significant digits, or with
// all the digits before its point where these are more.
func three(v float64) string {
	decimals := 0
	switch {
	case v < 9.995:
		decimals = 2
	case v < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
