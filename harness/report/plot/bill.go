package plot

import (
	"fmt"
	"strings"
	"time"

	"powercut/harness/latency"
)

// Cost is what an op of one call cost, in the mean.
type Cost struct {
	Call                        string
	Data, Journal, Other, Flush float64 // requests
	Drive                       time.Duration
	Latency                     time.Duration
}

// The bill's geometry.
const (
	billWidth = 430
	billLeft  = 86
	billRow   = 46
	billBar   = 15
)

// Bill draws for each call the requests of an op, and its time: the part in which the
// drive had a request to serve, and the rest.
func Bill(id string, costs []Cost) Figure {
	p := &pen{}
	most, longest := 1.0, time.Duration(1)
	for _, c := range costs {
		most = max(most, c.Data+c.Journal+c.Other+c.Flush)
		longest = max(longest, c.Latency)
	}
	const room = billWidth - billLeft - 92
	y := 8.0
	var alts []string
	for _, c := range costs {
		p.text("strong", "end", billLeft-8, y+12, c.Call)
		x := float64(billLeft)
		for _, part := range []struct {
			class string
			n     float64
		}{{"data", c.Data}, {"journal", c.Journal}, {"other", c.Other}, {"flush", c.Flush}} {
			if part.n > 0 {
				w := part.n / most * room
				p.rect(part.class, x, y, w, billBar, fmt.Sprintf("%s: %.2f an op", part.class, part.n))
				x += w
			}
		}
		sum := fmt.Sprintf("%.2f requests", c.Data+c.Journal+c.Other+c.Flush)
		p.text("", "start", x+6, y+12, sum)
		busy := min(float64(c.Drive)/float64(longest), 1) * room
		all := float64(c.Latency) / float64(longest) * room
		p.rect("read", billLeft, y+billBar+3, busy, billBar-5, "the drive at work: "+latency.Format(float64(c.Drive)))
		p.rect("wait", billLeft+busy, y+billBar+3, max(all-busy, 0), billBar-5, "the rest: guest and host")
		p.text("", "start", billLeft+max(all, busy)+6, y+billBar+12, latency.Format(float64(c.Latency)))
		alts = append(alts, fmt.Sprintf("%s: %.2f data writes, %.2f journal writes, %.2f other writes and %.2f flushes an op, %s, of which the drive was at work for %s",
			c.Call, c.Data, c.Journal, c.Other, c.Flush, latency.Format(float64(c.Latency)), latency.Format(float64(c.Drive))))
		y += billRow
	}
	return Figure{ID: id, Name: "bill", Title: "What an op cost", Width: billWidth, Height: y, Body: p.String(), Alt: strings.Join(alts, "; ") + "."}
}
