// Package plot draws figures as SVG: the distribution of latencies, the timeline
// around a cut, the map of what survived, and the bill of each sync call.
//
// A Figure's text holds no fonts and no colours of its own: Style has them for light
// and dark, and File joins both into a file that stands alone.
package plot

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"strings"
)

// Style is the style sheet of all figures.
//
//go:embed plot.css
var Style string

// Figure is one SVG element.
type Figure struct {
	ID            string // unique on its page
	Name          string // of its file, without extension, such as fsync-latency
	Title         string
	Alt           string // what is to be seen in it, for those who do not see it
	Width, Height float64
	Fluid         bool   // as wide as there is room, of the same height: its body has no coordinates across but shares
	Body          string // the elements
}

// SVG is the figure as an element of an HTML page.
func (f Figure) SVG() string {
	size := fmt.Sprintf(`viewBox="0 0 %s %s"`, num(f.Width), num(f.Height))
	if f.Fluid {
		size = fmt.Sprintf(`width="100%%" height="%s"`, num(f.Height))
	}
	return fmt.Sprintf(`<svg class="plot" id="%s" %s role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>%s</svg>`,
		f.ID, size, f.ID, f.ID, f.ID, esc(f.Title), f.ID, esc(f.Alt), f.Body)
}

// File is the figure as a file of its own.
func (f Figure) File() string {
	view := ""
	if !f.Fluid {
		view = fmt.Sprintf(`viewBox="0 0 %s %s" `, num(f.Width), num(f.Height))
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" class="plot" %swidth="%s" height="%s" role="img"><title>%s</title><desc>%s</desc><style>%s</style><rect class="paper" width="100%%" height="100%%"/>%s</svg>
`, view, num(f.Width), num(f.Height), esc(f.Title), esc(f.Alt), Style, f.Body)
}

// pen gathers elements.
type pen struct{ strings.Builder }

func (p *pen) add(format string, a ...any) { fmt.Fprintf(p, format, a...) }

func (p *pen) rect(class string, x, y, w, h float64, title string) {
	p.add(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"`, class, num(x), num(y), num(w), num(h))
	if title == "" {
		p.add(`/>`)
		return
	}
	p.add(`><title>%s</title></rect>`, esc(title))
}

func (p *pen) line(class string, x1, y1, x2, y2 float64) {
	p.add(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, num(x1), num(y1), num(x2), num(y2))
}

// text writes at a point; anchor is start, middle or end.
func (p *pen) text(class, anchor string, x, y float64, s string) {
	p.add(`<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, num(x), num(y), esc(s))
}

func esc(s string) string { return html.EscapeString(s) }

// num writes a coordinate with two digits at most.
func num(x float64) string {
	s := fmt.Sprintf("%.2f", x)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// logScale maps from lo..hi to x..x+w.
type logScale struct{ lo, hi, x, w float64 }

func (s logScale) at(v float64) float64 {
	return s.x + s.w*(math.Log(v)-math.Log(s.lo))/(math.Log(s.hi)-math.Log(s.lo))
}

// ticks are 1, 2 and 5 times the powers of ten, or only the powers where there are
// many.
func (s logScale) ticks() []float64 {
	steps := []float64{1, 2, 5}
	switch decades := math.Log10(s.hi / s.lo); {
	case decades > 3.5:
		steps = steps[:1]
	case decades < 1.3:
		steps = []float64{1, 1.5, 2, 3, 4, 5, 7}
	}
	var list []float64
	for power := math.Pow(10, math.Floor(math.Log10(s.lo))); power <= s.hi; power *= 10 {
		for _, step := range steps {
			if v := power * step; v >= s.lo*(1-1e-9) && v <= s.hi*(1+1e-9) {
				list = append(list, v)
			}
		}
	}
	return list
}
