package compare

import (
	"fmt"
	"strings"

	"powercut/harness/report"
	"powercut/harness/verdict"
)

// Verdict is a change of what became of acknowledged writes.
type Verdict struct {
	Scenario string  `json:"scenario" doc:"name of the scenario"`
	Call     string  `json:"call,omitempty" doc:"the sync call, where it is about one"`
	What     string  `json:"what" doc:"lost, foreign, recovery, or the text of an expectation"`
	Old      string  `json:"old" doc:"what it was, such as 0 of 150"`
	New      string  `json:"new" doc:"the same of the new runs"`
	Outcome  Outcome `json:"outcome" doc:"regression, improvement, change or same"`
}

func (v Verdict) outcome() Outcome { return v.Outcome }

// tally adds up what became of the ops of one call over several runs.
type tally struct {
	runs, unrecovered    int
	acked, lost, foreign int // of the runs that were read back
	class                verdict.RecoveryClass
}

func add(calls []found) tally {
	var t tally
	for _, c := range calls {
		t.runs++
		if c.Recovery.Class != verdict.Recovered {
			t.unrecovered++
			t.class = c.Recovery.Class
			continue
		}
		t.acked += c.Counts.Acked
		t.lost += c.Counts.Lost
		t.foreign += c.Counts.Foreign
	}
	return t
}

// recovery says how many recoveries failed, and how the last of them did.
func (t tally) recovery() string {
	if t.unrecovered == 0 {
		return "recovered"
	}
	return fmt.Sprintf("%s in %d of %d", t.class, t.unrecovered, t.runs)
}

// verdicts are the changes of a pair: of each call, and then of expectations that the
// calls have not told of already.
func (p pair) verdicts() []Verdict {
	var list []Verdict
	told := map[string]bool{}
	note := func(call, what, old, changed string, outcome Outcome) {
		told[call+": "+what] = true
		list = append(list, Verdict{p.name, call, what, old, changed, outcome})
	}
	for _, call := range p.calls() {
		was, is := add(callsOf(p.old, call)), add(callsOf(p.new, call))
		if o := appears(was.unrecovered, is.unrecovered); o != Same {
			note(call, "recovery", was.recovery(), is.recovery(), o)
		}
		for _, part := range []struct {
			what     string
			was, now int
		}{{"lost", was.lost, is.lost}, {"foreign", was.foreign, is.foreign}} {
			if o := appears(part.was, part.now); o != Same && was.unrecovered < was.runs && is.unrecovered < is.runs {
				note(call, part.what, fmt.Sprintf("%d of %d", part.was, was.acked), fmt.Sprintf("%d of %d", part.now, is.acked), o)
			}
		}
	}
	return append(list, p.expectations(told)...)
}

// appears tells what it means that something bad happened so often, and so often.
// More or less of it is a matter of where the power went.
func appears(was, is int) Outcome {
	switch {
	case was == 0 && is > 0:
		return Regression
	case was > 0 && is == 0:
		return Improvement
	}
	return Same
}

// met counts in how many runs an expectation held.
type met struct{ held, runs int }

func (m met) String() string {
	if m.runs == 0 {
		return "not expected"
	}
	return fmt.Sprintf("met in %d of %d", m.held, m.runs)
}

func expectations(docs []*report.Document) (order []string, by map[string]met) {
	by = map[string]met{}
	for _, d := range docs {
		for _, e := range d.Expectations {
			m, known := by[e.Text]
			if !known {
				order = append(order, e.Text)
			}
			m.runs++
			if e.Held {
				m.held++
			}
			by[e.Text] = m
		}
	}
	return order, by
}

// expectations are those that are met less often, or more often, than they were.
func (p pair) expectations(told map[string]bool) []Verdict {
	var list []Verdict
	_, before := expectations(p.old)
	order, after := expectations(p.new)
	for _, text := range order {
		was, is := before[text], after[text]
		if tells(told, text) {
			continue
		}
		call, what, ok := strings.Cut(text, ": ")
		if !ok || len(callsOf(p.new, call)) == 0 {
			call, what = "", text
		}
		v := Verdict{Scenario: p.name, Call: call, What: what, Old: was.String(), New: is.String()}
		// Shares of runs, without a division by none.
		switch d := is.held*max(was.runs, 1) - was.held*is.runs; {
		case was.runs == 0 && is.held < is.runs, was.runs > 0 && d < 0:
			v.Outcome = Regression
		case was.runs > 0 && d > 0:
			v.Outcome = Improvement
		default:
			continue
		}
		list = append(list, v)
	}
	return list
}

// tells tells whether one of the changes says what an expectation would: "fsync: lost"
// is about "fsync: lost 0".
func tells(told map[string]bool, text string) bool {
	for change := range told {
		if strings.HasPrefix(text, change+" ") {
			return true
		}
	}
	return false
}
