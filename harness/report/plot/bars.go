package plot

import (
	"fmt"
	"math"
	"strings"
)

// Bar is one bar of a row: Value in any unit, as Text writes it.
type Bar struct {
	Name  string // what it stands for, such as theirs
	Class string // of Style
	Value float64
	From  float64 // where the bar stands for a range, its beginning; Value is its end
	Text  string
}

// BarRow is a group of bars that belong together.
type BarRow struct {
	Label string
	Bars  []Bar
}

// The bars' geometry.
const (
	barsWidth = 640
	barsLeft  = 250
	barHigh   = 12
	barsGap   = 10
	manifold  = 30 // where the longest bar is so many times the shortest the scale is logarithmic
)

// Bars draws rows of bars on one scale, and a legend of their names. The scale is
// logarithmic where lengths would tell nothing otherwise, and the legend says so.
func Bars(id, title string, rows []BarRow) Figure {
	p := &pen{}
	lo, hi := math.Inf(1), 0.0
	names := map[string]bool{}
	y := 16.0
	x := float64(barsLeft)
	for _, r := range rows {
		for _, b := range r.Bars {
			if b.Value > 0 {
				lo, hi = math.Min(lo, b.Value), math.Max(hi, b.Value)
			}
			if !names[b.Name] {
				names[b.Name] = true
				p.rect(b.Class, x, 4, 10, 10, "")
				p.text("", "start", x+14, 13, b.Name)
				x += 30 + 7*float64(len(b.Name))
			}
		}
	}
	length := func(v float64) float64 { return v / hi * (barsWidth - barsLeft - 80) }
	if hi > manifold*lo {
		scale := logScale{lo / 2, hi, 0, barsWidth - barsLeft - 80}
		length = func(v float64) float64 { return scale.at(max(v, lo/2)) }
		p.text("", "start", x, 13, "(logarithmic)")
	}
	y += 8
	var alts []string
	for _, r := range rows {
		var said []string
		p.text("strong", "end", barsLeft-8, y+10, r.Label)
		for _, b := range r.Bars {
			from := 0.0
			if b.From > 0 {
				from = length(b.From)
			}
			p.rect(b.Class, barsLeft+from, y, length(b.Value)-from, barHigh-2, "")
			p.text("", "start", barsLeft+length(b.Value)+5, y+9, b.Text)
			said = append(said, b.Name+" "+b.Text)
			y += barHigh
		}
		alts = append(alts, r.Label+": "+strings.Join(said, ", "))
		y += barsGap
	}
	return Figure{ID: id, Name: id, Title: title, Alt: fmt.Sprintf("%s.", strings.Join(alts, "; ")), Width: barsWidth, Height: y, Body: p.String()}
}
