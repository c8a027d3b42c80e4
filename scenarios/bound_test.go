package scenarios

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/workload"
)

func TestBoundHolds(t *testing.T) {
	tests := []struct {
		text   string
		unit   Unit
		inside []float64
		out    []float64
	}{
		{"0", Ops, []float64{0}, []float64{1, -1}},
		{"= 3", Ops, []float64{3}, []float64{2, 4}},
		{"== 3", Ops, []float64{3}, []float64{2, 4}},
		{"some", Ops, []float64{1, 2, 1e6}, []float64{0}},
		{">= 1", Ops, []float64{1, 2}, []float64{0}},
		{"2..5", Ops, []float64{2, 3, 5}, []float64{1, 6}},
		{">= 2", Number, []float64{2, 2.1}, []float64{1.99}},
		{">2", Number, []float64{2.01}, []float64{2, 1}},
		{"<= 2.5", Number, []float64{0, 2.5}, []float64{2.51}},
		{"< 2.5", Number, []float64{0, 2.49}, []float64{2.5}},
		{"2.5 .. 3", Number, []float64{2.5, 3}, []float64{2.4, 3.01}},
		{"7.5ms..9.16ms", Time, []float64{7.5e6, 8.333e6, 9.16e6}, []float64{7.49e6, 9.17e6, 8.3}},
		{"< 1s", Time, []float64{0, 999e6}, []float64{1e9}},
		{"> 250us", Time, []float64{250001}, []float64{250000}},
	}
	for _, test := range tests {
		b, err := ParseBound(test.text, test.unit)
		if err != nil {
			t.Errorf("ParseBound(%q, %s): %v", test.text, test.unit, err)
			continue
		}
		for _, x := range test.inside {
			if !b.Holds(x) {
				t.Errorf("%q does not hold of %v", test.text, x)
			}
		}
		for _, x := range append(test.out, math.NaN()) {
			if b.Holds(x) {
				t.Errorf("%q holds of %v", test.text, x)
			}
		}
	}
}

func TestBoundErrors(t *testing.T) {
	for _, test := range []struct {
		text string
		unit Unit
	}{
		{"", Ops},
		{"few", Ops},
		{"-1", Ops},
		{"0.5", Ops},
		{"1ms", Ops},
		{"5..2", Ops},
		{"1..", Ops},
		{"..1", Ops},
		{"< 0", Ops},
		{">= ", Ops},
		{"=> 1", Ops},
		{">= 1 2", Ops},
		{"9999999999999999", Ops},
		{"some", Number},
		{"1e3", Number},
		{"NaN", Number},
		{"Inf", Number},
		{"some", Time},
		{"5", Time},
		{"-5ms", Time},
		{"< 0s", Time},
		{"300h..2000h", Time},
	} {
		if b, err := ParseBound(test.text, test.unit); err == nil {
			t.Errorf("ParseBound(%q, %s) = %v, want an error", test.text, test.unit, b)
		}
	}
}

// drawBound draws a bound of the unit that some number fulfils.
func drawBound(t *rapid.T, unit Unit) Bound {
	operators := []Operator{Equal, AtLeast, Above, AtMost, Below, Within}
	if unit == Ops {
		operators = append(operators, Some)
	}
	number := func(label string) float64 {
		if unit == Number {
			return rapid.Float64Range(0, 1e6).Draw(t, label)
		}
		return float64(rapid.Int64Range(0, maxBound).Draw(t, label))
	}
	b := Bound{Operator: rapid.SampledFrom(operators).Draw(t, "operator"), Unit: unit}
	if b.Operator != Some {
		b.Value = number("value")
	}
	if b.Operator == Below {
		b.Value = max(b.Value, 1)
	}
	if b.Operator == Within {
		b.High = max(b.Value, number("high"))
	}
	return b
}

// TestBoundRoundTrip: whatever is printed reads back as the same bound, and holds
// of what the bound is about.
func TestBoundRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]Unit{Number, Ops, Time}).Draw(t, "unit")
		b := drawBound(t, unit)
		if got, err := ParseBound(b.String(), unit); err != nil || got != b {
			t.Fatalf("%#v prints %q, which reads as %#v, %v", b, b, got, err)
		}
		if !b.Holds(b.least()) {
			t.Errorf("%q does not hold of %v, the least of which it can", b, b.least())
		}
		calls := rapid.Permutation(workload.Calls).Draw(t, "calls")
		r := Ratio{Over: calls[0], Under: calls[1], Bound: drawBound(t, Number)}
		if got, err := ParseRatio(r.String()); err != nil || got != r {
			t.Errorf("%#v prints %q, which reads as %#v, %v", r, r, got, err)
		}
	})
}

func TestRatio(t *testing.T) {
	for _, text := range []string{"fsync / O_DSYNC >= 2.5", "fsync/O_DSYNC>=2.5", " fsync  /  O_DSYNC  >=  2.5 "} {
		r, err := ParseRatio(text)
		if err != nil {
			t.Fatal(err)
		}
		if r.Over != workload.Fsync || r.Under != workload.ODsync || !r.Holds(25, 10) || r.Holds(24, 10) || r.Holds(25, 0) {
			t.Errorf("ParseRatio(%q) = %#v", text, r)
		}
	}
	for _, text := range []string{"", "/", "fsync", "fsync / O_DSYNC", "fsync / O_DSYNC some", "fsync / O_DSYNC >= -1", "fsync O_DSYNC >= 1", "every / fsync > 1"} {
		if r, err := ParseRatio(text); err == nil {
			t.Errorf("ParseRatio(%q) = %#v, want an error", text, r)
		}
	}
}

func TestBoundsFor(t *testing.T) {
	one, two := Bound{Value: 1}, Bound{Value: 2}
	b := Bounds{Every: one, workload.Fsync: two}
	if got, ok := b.For(workload.Fsync); got != two || !ok {
		t.Errorf("For(fsync) = %v, %v", got, ok)
	}
	if got, ok := b.For(workload.OSync); got != one || !ok {
		t.Errorf("For(O_SYNC) = %v, %v", got, ok)
	}
	if got, ok := (Bounds{workload.Fsync: two}).For(workload.OSync); ok {
		t.Errorf("For(O_SYNC) without every = %v, %v", got, ok)
	}
}
