package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"powercut/harness/latency"
)

// Bound is a time that is drawn into a distribution, such as one revolution.
type Bound struct {
	At   time.Duration
	Name string
}

// Range is what an axis of latencies covers, in nanoseconds.
type Range struct{ Lo, Hi float64 }

// RangeOf is one that all samples have room in, and the bounds that are near them.
func RangeOf(bounds []Bound, samples ...[]int64) Range {
	r := Range{math.Inf(1), 0}
	for _, s := range samples {
		for _, ns := range s {
			v := math.Max(float64(ns), 1)
			r.Lo, r.Hi = math.Min(r.Lo, v), math.Max(r.Hi, v)
		}
	}
	if r.Hi == 0 {
		return Range{1e3, 1e6}
	}
	for _, b := range bounds {
		if v := float64(b.At); v > r.Lo/5 && v < r.Hi*1.2 {
			r.Lo, r.Hi = math.Min(r.Lo, v), math.Max(r.Hi, v)
		}
	}
	return Range{r.Lo / 1.15, r.Hi * 1.15}
}

// The distribution's geometry.
const (
	latencyWidth  = 430
	latencyLeft   = 40
	latencyRight  = 14
	histogramTop  = 34
	histogramHigh = 120
	cdfTop        = histogramTop + histogramHigh + 18
	cdfHigh       = 90
)

// Latency draws how long the acknowledged ops of a call took: how many of them how
// long, both on logarithmic axes, and below it the share that took no longer.
func Latency(id, call string, ns []int64, bounds []Bound, r Range) Figure {
	sorted := slices.Sorted(slices.Values(ns))
	f := Figure{
		ID: id, Name: call + "-latency", Title: "Latency of " + call, Width: latencyWidth, Height: cdfTop + cdfHigh + 40,
		Alt: latencyAlt(call, sorted, bounds),
	}
	x := logScale{r.Lo, r.Hi, latencyLeft, latencyWidth - latencyLeft - latencyRight}
	p := &pen{}
	p.axis(x)
	if len(sorted) > 0 {
		p.histogram(x, sorted)
		p.cdf(x, sorted)
	} else {
		p.text("", "middle", latencyWidth/2, histogramTop+60, "no op was acknowledged")
	}
	p.bounds(x, bounds)
	f.Body = p.String()
	return f
}

func latencyAlt(call string, sorted []int64, bounds []Bound) string {
	s := latency.Summarise(sorted)
	if s.N == 0 {
		return "No op of " + call + " was acknowledged."
	}
	text := fmt.Sprintf("Histogram and cumulative distribution of %d acknowledged ops: half took no longer than %s, 99 of 100 no longer than %s, the longest %s.",
		s.N, latency.Format(float64(s.P50)), latency.Format(float64(s.P99)), latency.Format(float64(s.Max)))
	if len(bounds) > 0 {
		below := 0
		for _, v := range sorted {
			if v < int64(bounds[0].At) {
				below++
			}
		}
		text += fmt.Sprintf(" %s is %s; %d of the ops took less.", bounds[0].Name, latency.Format(float64(bounds[0].At)), below)
	}
	return text
}

// axis draws the time axis below both panels, and its grid through them.
func (p *pen) axis(x logScale) {
	last := math.Inf(-1)
	for _, v := range x.ticks() {
		at := x.at(v)
		p.line("rule", at, histogramTop, at, cdfTop+cdfHigh)
		if at-last > 50 {
			anchor := "middle"
			if at > latencyWidth-28 {
				at, anchor = latencyWidth-2, "end"
			}
			p.text("", anchor, at, cdfTop+cdfHigh+16, short(v))
			last = at
		}
	}
	p.text("", "end", latencyWidth-latencyRight, cdfTop+cdfHigh+33, "latency, logarithmic")
}

// short writes a time in nanoseconds without the zeros at its end, for an axis.
func short(ns float64) string {
	number, unit, _ := strings.Cut(latency.Format(ns), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + unit
}

// bins cuts the axis into bars of equal width, and counts.
func bins(x logScale, sorted []int64) (counts []int, width float64) {
	n := min(max(int(x.w/9), 10), 60)
	counts = make([]int, n)
	for _, v := range sorted {
		i := int((x.at(math.Max(float64(v), 1)) - x.x) / x.w * float64(n))
		counts[min(max(i, 0), n-1)]++
	}
	return counts, x.w / float64(n)
}

func (p *pen) histogram(x logScale, sorted []int64) {
	counts, width := bins(x, sorted)
	most := float64(slices.Max(counts))
	high := func(n float64) float64 { return histogramHigh * math.Log1p(n) / math.Log1p(most) }
	base := float64(histogramTop + histogramHigh)
	last := math.Inf(1)
	for _, tick := range []float64{1, 3, 10, 30, 100, 300, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6} {
		y := base - high(tick)
		if tick > most || last-y < 13 {
			continue
		}
		last = y
		p.line("rule", x.x, y, x.x+x.w, y)
		p.text("", "end", x.x-5, y+4, fmt.Sprint(tick))
	}
	p.text("", "start", 2, histogramTop-8, "ops")
	for i, n := range counts {
		if n > 0 {
			from := float64(i) * width
			p.rect("bar", x.x+from+.5, base-high(float64(n)), width-1, high(float64(n)), fmt.Sprintf("%d ops", n))
		}
	}
	p.line("axis", x.x, base, x.x+x.w, base)
}

// maxSteps bounds the steps of the drawn curve: more than there are pixels.
const maxSteps = 400

func (p *pen) cdf(x logScale, sorted []int64) {
	base := float64(cdfTop + cdfHigh)
	for _, share := range []float64{0, .5, 1} {
		y := base - share*cdfHigh
		p.line("rule", x.x, y, x.x+x.w, y)
		p.text("", "end", x.x-5, y+4, fmt.Sprintf("%.0f%%", share*100))
	}
	p.add(`<path class="cdf" d="M%s %s`, num(x.x), num(base))
	step := max(len(sorted)/maxSteps, 1)
	for i := 0; ; i += step {
		i = min(i, len(sorted)-1)
		p.add("H%sV%s", num(x.at(math.Max(float64(sorted[i]), 1))), num(base-cdfHigh*float64(i+1)/float64(len(sorted))))
		if i == len(sorted)-1 {
			break
		}
	}
	p.add(`H%s"/>`, num(x.x+x.w))
	p.line("axis", x.x, base, x.x+x.w, base)
}

func (p *pen) bounds(x logScale, bounds []Bound) {
	last := math.Inf(-1)
	for _, b := range bounds {
		v := float64(b.At)
		if v < x.lo || v > x.hi {
			continue
		}
		at := x.at(v)
		p.line("bound", at, histogramTop-12, at, cdfTop+cdfHigh)
		name := b.Name
		if last < 0 {
			name += " · " + short(v)
		}
		if wide := float64(len(name)) * 6.5; at-last > wide/2+6 || last < 0 {
			middle := min(max(at, wide/2+2), latencyWidth-wide/2-2)
			p.text("boundname", "middle", middle, histogramTop-17, name)
			last = middle + wide/2
		}
	}
}
