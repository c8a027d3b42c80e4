package html

import (
	"fmt"
	"strings"

	"powercut/harness/explore"
	"powercut/harness/report/evidence"
	"powercut/harness/report/plot"
	"powercut/harness/verdict"
)

// explored is what the page says of an exploration.
type explored struct {
	*explore.Report
	Decided int // states
	First   []brokenRow
	Map     *plot.Figure // nil where no state was read back that breaks a promise
}

// brokenRow is a state that breaks a promise.
type brokenRow struct {
	explore.Violation
	Short string // the state
}

// The bounds of what is shown of broken states.
const (
	maxBroken = 10  // in words
	maxMapped = 24  // in the map
	maxState  = 120 // bytes of a state's name
)

func newExplored(c *evidence.Call, f plot.Figure) *explored {
	if c.Explored == nil {
		return nil
	}
	s := c.Explored.States
	e := &explored{Report: c.Explored, Decided: s.Decided()}
	for _, v := range c.Explored.Violations[:min(len(c.Explored.Violations), maxBroken)] {
		short := v.State
		if len(short) > maxState {
			short = short[:strings.LastIndexByte(short[:maxState], ',')+1] + " …"
		}
		e.First = append(e.First, brokenRow{v, short})
	}
	if f.Body != "" {
		e.Map = &f
	}
	return e
}

// brokenStates are the first states that break a promise and were read back.
func brokenStates(c *evidence.Call) (list []plot.State) {
	if c.Explored == nil {
		return nil
	}
	most := 0
	for _, v := range c.Explored.Violations {
		if len(v.Runs) == 0 || len(list) == maxMapped {
			continue
		}
		most = max(most, v.Runs[len(v.Runs)-1].Last)
		position, _, _ := strings.Cut(v.State, " ")
		s := plot.State{Name: position}
		for _, r := range v.Runs {
			for range r.Last - r.First + 1 {
				s.Cells = append(s.Cells, r.Class)
			}
		}
		list = append(list, s)
	}
	for i := range list { // so that one op is one column
		list[i].Cells = append(list[i].Cells, make([]verdict.Class, most-len(list[i].Cells))...)
	}
	return list
}

// Summary sums up the states.
func (e *explored) Summary() string {
	s := e.States
	return fmt.Sprintf("%d states of %d cuts were decided: %d recovered by a guest, %d equal to one of these, %d equal in all that recovery looks at. Ended by %s.",
		e.Decided, e.Positions, s.Checked, s.Equal, s.Pruned, e.Ended)
}
