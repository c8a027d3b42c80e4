package report

import (
	"errors"
	"fmt"
	"strings"

	"powercut/harness/latency"
)

// tolerable is the share of its time for which a guest may have waited for the host,
// and its times still tell of it.
const tolerable = 0.1

// ErrBusy ends runs of which nothing was wrong but times.
var ErrBusy = errors.New("times are not as expected, and this machine was too busy to judge them: QEMU waited for a processor for more than a tenth of a run; run again on a quiet machine")

// TooBusy tells whether this machine was too busy to judge a time of the call.
func (c *Call) TooBusy() bool { return c.HostWait != nil && *c.HostWait > tolerable }

// Unjudged tells whether nothing is wrong with a run but times that this machine was too
// busy to judge.
func (d *Document) Unjudged() bool {
	busy := false
	for _, e := range d.Expectations {
		if busy = busy || e.Busy; !e.Held && !e.Busy {
			return false
		}
	}
	return busy
}

// busy says of which rows the mean says more of the host than of guest and drive; ""
// where of none.
func busy(rows []*beside) string {
	var of []string
	for _, r := range rows {
		if held := Median(r.host); held > tolerable*Median(r.taken) {
			of = append(of, fmt.Sprintf("%s (%s of %s)", strings.TrimLeft(r.scenario+" "+r.call, " "), latency.Format(held), latency.Format(Median(r.taken))))
		}
	}
	if len(of) == 0 {
		return ""
	}
	return "this machine was too busy to judge the mean of " + strings.Join(of, ", ") + ", for which QEMU had to wait for a processor"
}

// busy says where the host was; the rows of a page are of one scenario.
func (p *page) busy(rows []*beside) {
	var own []*beside
	for _, r := range rows {
		one := *r
		one.scenario = ""
		own = append(own, &one)
	}
	if s := busy(own); s != "" {
		p.hang(10, amber, "  BUSY", s)
	}
}
