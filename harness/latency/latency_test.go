package latency

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSummarise(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	tests := map[string]struct {
		ns   []int64
		want Summary
	}{
		"empty":               {nil, Summary{}},
		"one":                 {[]int64{7}, Summary{N: 1, Mean: 7, P50: 7, P99: 7, Max: 7}},
		"two":                 {[]int64{9, 4}, Summary{N: 2, Mean: 6.5, P50: 4, P99: 9, Max: 9}},
		"three":               {[]int64{3, 1, 2}, Summary{N: 3, Mean: 2, P50: 2, P99: 3, Max: 3}},
		"hundred, descending": {hundred, Summary{N: 100, Mean: 50.5, P50: 50, P99: 99, Max: 100}},
		"no overflow": {
			[]int64{math.MaxInt64, math.MaxInt64},
			Summary{N: 2, Mean: math.MaxInt64, P50: math.MaxInt64, P99: math.MaxInt64, Max: math.MaxInt64},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Summarise(tt.ns); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestSummariseByDefinition holds the percentiles against the definition of
// nearest rank, which does not sort.
func TestSummariseByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOfN(rapid.Int64Range(0, 1e12), 1, 300).Draw(t, "ns")
		before := slices.Clone(ns)
		s := Summarise(ns)
		if !slices.Equal(ns, before) {
			t.Fatal("the input was changed")
		}
		for p, got := range map[int]int64{50: s.P50, 99: s.P99, 100: s.Max} {
			if want := nearestRank(ns, p); got != want {
				t.Fatalf("p%d is %d, want %d", p, got, want)
			}
		}
		if s.N != len(ns) || s.Mean < float64(slices.Min(ns)) || s.Mean > float64(s.Max)*(1+1e-12) {
			t.Fatalf("%+v", s)
		}
	})
}

// nearestRank finds the smallest member that at least p percent do not exceed.
func nearestRank(ns []int64, p int) int64 {
	best := int64(math.MaxInt64)
	for _, v := range ns {
		notAbove := 0
		for _, other := range ns {
			if other <= v {
				notAbove++
			}
		}
		if 100*notAbove >= p*len(ns) {
			best = min(best, v)
		}
	}
	return best
}

func TestFormat(t *testing.T) {
	tests := []struct {
		ns   float64
		want string
	}{
		{0, "0 ns"},
		{1, "1.00 ns"},
		{9.994, "9.99 ns"},
		{9.996, "10.0 ns"},
		{182, "182 ns"},
		{999.4, "999 ns"},
		{999.6, "1.00 µs"},
		{182_000, "182 µs"},
		{99_940, "99.9 µs"},
		{99_960, "100 µs"},
		{8_410_000, "8.41 ms"},
		{24_350_000, "24.4 ms"},
		{999_600_000, "1.00 s"},
		{1_200_000_000, "1.20 s"},
		{75e9, "75.0 s"},
		{1234e9, "1234 s"},
		{-8_410_000, "-8.41 ms"},
		{math.NaN(), "?"},
		{math.Inf(1), "?"},
	}
	for _, tt := range tests {
		if got := Format(tt.ns); got != tt.want {
			t.Errorf("Format(%v) is %q, want %q", tt.ns, got, tt.want)
		}
	}
}

// TestFormatReadsBack: what is printed has three digits and means what was given.
func TestFormatReadsBack(t *testing.T) {
	scale := map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Float64Range(1, 999e9).Draw(t, "ns")
		number, name, _ := strings.Cut(Format(ns), " ")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		if digits := len(strings.ReplaceAll(number, ".", "")); digits != 3 {
			t.Fatalf("%s has %d digits", number, digits)
		}
		if back := v * scale[name]; math.Abs(back-ns) > ns*0.005001 {
			t.Fatalf("%v reads %s %s, which is %v", ns, number, name, back)
		}
	})
}
