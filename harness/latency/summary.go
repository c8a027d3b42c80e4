// Package latency sums up how long sync calls took.
package latency

import "slices"

// Summary describes a set of latencies. All times are nanoseconds; all are 0
// where N is 0. The percentiles are exact and nearest-rank: the p-th is the
// smallest latency of the set that at least p percent of the set do not exceed,
// so each is a latency that was measured, never one interpolated.
type Summary struct {
	N    int     `json:"n" doc:"latencies that were measured"`
	Mean float64 `json:"mean_ns" doc:"their mean, nanoseconds"`
	P50  int64   `json:"p50_ns" doc:"the median, nanoseconds (nearest rank)"`
	P99  int64   `json:"p99_ns" doc:"the 99th percentile, nanoseconds (nearest rank)"`
	Max  int64   `json:"max_ns" doc:"the longest, nanoseconds"`
}

// Summarise sums up latencies given in nanoseconds, in any order. It leaves ns
// as it is.
func Summarise(ns []int64) Summary {
	if len(ns) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(ns))
	return Summary{
		N:    len(sorted),
		Mean: mean(sorted),
		P50:  percentile(sorted, 50),
		P99:  percentile(sorted, 99),
		Max:  sorted[len(sorted)-1],
	}
}

// percentile returns the nearest-rank percentile p (1 to 100) of a sorted,
// non-empty set: the element of rank ⌈p·n/100⌉, counted from 1.
func percentile(sorted []int64, p int) int64 {
	rank := (p*len(sorted) + 99) / 100
	return sorted[rank-1]
}

// mean adds up distances from the smallest element, so that the sum neither
// overflows nor loses the nanoseconds of a set of large, close values.
func mean(sorted []int64) float64 {
	least := sorted[0]
	var sum float64
	for _, v := range sorted {
		sum += float64(v) - float64(least)
	}
	return float64(least) + sum/float64(len(sorted))
}
