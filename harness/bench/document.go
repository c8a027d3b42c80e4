package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Schema names the version of Document.
const Schema = "powercut/bench/1"

// Document is all that was measured. Its JSON is described, field by field, in
// docs/bench-json.md.
type Document struct {
	Schema  string   `json:"schema"`
	Quick   bool     `json:"quick"` // few rounds: the figures vary more
	Machine Machine  `json:"machine"`
	Figures []Figure `json:"figures"`
	Phases  []Phase  `json:"phases"` // of a run, in their order
	Elapsed float64  `json:"elapsed_seconds"`
	Held    bool     `json:"held"` // every figure that was taken is within its bound
}

// Machine is what was measured on.
type Machine struct {
	Release     string  `json:"release"` // of the guest's kernel
	QEMU        string  `json:"qemu"`    // version
	Accelerator string  `json:"accelerator"`
	Reason      string  `json:"accelerator_reason"`
	Processors  int     `json:"processors"`
	Load        float64 `json:"load"` // average of the last minute, before the first figure
}

// The names of the figures.
const (
	ForkFigure      = "fork"
	RoundTripFigure = "ledger-round-trip"
	ShareFigure     = "ledger-share"
	DriveFigure     = "drive-latency"
	MixedFigure     = "memory-mixed-writes"
	SmallFigure     = "memory-small-writes"
)

// The units of a figure and its parts.
const (
	Times       = "×"
	Percent     = "%"
	MiB         = "MiB"
	Nanoseconds = "ns"
	Count       = "count"
	MBs         = "MB/s" // 10⁶ bytes a second
	PerSecond   = "/s"
)

// Figure is one value with the bound that it is held against.
type Figure struct {
	Name    string  `json:"name"`
	Text    string  `json:"text"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"at_least"` // the bound is a lower one
	Held    bool    `json:"held"`
	Skipped string  `json:"skipped,omitempty"` // why it was not taken; Value is then 0 and Held false
	Parts   []Part  `json:"parts"`
}

// Part is something that a figure was made of.
type Part struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Samples int     `json:"samples"` // that Value is the median of; 1 for a plain number
}

// Phase is a piece of a run, and its median duration in milliseconds.
type Phase struct {
	Name    string  `json:"name"`
	Median  float64 `json:"median_ms"`
	Samples int     `json:"samples"`
}

// atLeast and atMost hold a figure against its bound.
func (f Figure) atLeast(bound float64) Figure {
	f.Bound, f.AtLeast, f.Held = bound, true, f.Value >= bound
	return f
}

func (f Figure) atMost(bound float64) Figure {
	f.Bound, f.Held = bound, f.Value <= bound
	return f
}

// held tells whether every figure that was taken is within its bound.
func held(figures []Figure) bool {
	return !slices.ContainsFunc(figures, func(f Figure) bool { return f.Skipped == "" && !f.Held })
}

// median of a non-empty set; of an even number of values it is the mean of the
// middle two. It leaves the values as they are.
func median[N int64 | float64](values []N) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (float64(s[(n-1)/2]) + float64(s[n/2])) / 2
}

// timed is a part that is the median of times in nanoseconds.
func timed[N int64 | float64](name string, ns []N) Part {
	return Part{Name: name, Value: median(ns), Unit: Nanoseconds, Samples: len(ns)}
}

// JSON writes a document, indented. It fails where w does.
func JSON(w io.Writer, d any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("write bench document: %w", err)
	}
	return nil
}
