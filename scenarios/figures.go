package scenarios

import (
	"strings"

	"powercut/guest/workload"
)

// Figures are what somebody published of the same work on another system. A report
// shows them beside what the run measured.
type Figures struct {
	Of   string `yaml:"of" max:"240" doc:"the system that they were measured on, and by whom"`
	Per  int    `yaml:"per,omitempty" min:"1" max:"10000000" doc:"ops that a figure is for, such as 1000 where the time of a loop of 1000 was published; left out: 1"`
	Mean Bounds `yaml:"mean,omitempty" unit:"time" doc:"for each call its figure, such as 8.41ms, or a range where one was published: per op, or for as many ops as per says"`
	Why  string `yaml:"why,omitempty" max:"400" doc:"one line: what makes the two agree or differ"`
}

// Ops is the number of ops that a figure is for.
func (f Figures) Ops() int { return max(f.Per, 1) }

// checkFigures demands that figures are of calls that are made, say what they were
// measured on, and are there for each call that is held to them.
func (s Scenario) checkFigures(d *decoder) error {
	f := s.Figures
	if len(f.Mean) > 0 && f.Of == "" {
		return d.at("figures").errorf("figures.of: is missing; say on which system the figures were measured")
	}
	if err := s.checkBounds(d, "figures.mean", f.Mean); err != nil {
		return err
	}
	for call, bound := range f.Mean {
		if bound.Operator != Equal && bound.Operator != Within || bound.Value == 0 {
			return d.at(join("figures.mean", string(call))).errorf("figures.mean: %q is not a figure; write a duration such as 8.41ms, or a range such as 0.2s..9s", bound)
		}
	}
	for _, call := range s.Workload.Calls {
		if _, held := s.Expect.Figures.For(call); !held {
			continue
		}
		if _, known := f.Mean.For(call); !known {
			return d.at("expect.figures").errorf("expect.figures: there is no figure of %s; those of figures.mean: %s",
				call, strings.Join(words(f.Mean.keys()...), ", "))
		}
	}
	return nil
}

// forget drops the figures of calls that are not made.
func (f *Figures) forget(calls []workload.Call, inDocument func(path string) bool) {
	f.Mean.forget("figures.mean", calls, inDocument)
}
