package scenarios

import "strings"

// Axis is a field, or several at once, that takes several values in turn, whatever
// the scenarios are that it is applied to.
type Axis struct {
	Name    string // as cells name it, such as kernel
	Choices []Choice
}

// Choice is a value of an axis.
type Choice struct {
	Label string     // as cells name it, such as debian:6.1
	Set   []Override // what makes a scenario have it
}

// FieldAxis is an axis of one field: of the values at a dotted path.
func FieldAxis(path string, values ...string) Axis {
	a := Axis{Name: path}
	for _, v := range values {
		a.Choices = append(a.Choices, Choice{Label: v, Set: []Override{{Path: path, Value: v}}})
	}
	return a
}

// Cross returns what Find does, once for each combination of the axes' values, the
// last axis changing fastest. Each scenario has a name of its own. Its errors are
// those of Find.
func Cross(arg string, axes []Axis, overrides ...Override) ([]Scenario, error) {
	var all []Scenario
	for point := range points(axes) {
		found, err := Find(arg, append(overrides[:len(overrides):len(overrides)], point.overrides()...)...)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			all = append(all, s.at(point))
		}
	}
	return all, nil
}

// point is a combination: a choice of each of several axes.
type point []coordinate

type coordinate struct {
	axis string
	Choice
}

func (p point) overrides() []Override {
	var list []Override
	for _, c := range p {
		list = append(list, c.Set...)
	}
	return list
}

// place is where a suite gives the field its value, or else otherwise.
func (p point) place(field string, otherwise place) place {
	for _, o := range p.overrides() {
		if o.Path == field && o.given != nil {
			return o.given.place
		}
	}
	return otherwise
}

func (p point) String() string {
	var parts []string
	for _, c := range p {
		parts = append(parts, c.axis+"="+c.Label)
	}
	return strings.Join(parts, ", ")
}

// points yields every combination; without axes the empty one.
func points(axes []Axis) func(func(point) bool) {
	return func(yield func(point) bool) {
		var choose func(chosen point) bool
		choose = func(chosen point) bool {
			if len(chosen) == len(axes) {
				return yield(chosen)
			}
			a := axes[len(chosen)]
			for _, c := range a.Choices {
				if !choose(append(chosen[:len(chosen):len(chosen)], coordinate{a.Name, c})) {
					return false
				}
			}
			return true
		}
		choose(nil)
	}
}

// at names the scenario after the point that it is at. One that stands alone becomes a
// cell of a matrix of its name. The cells of a matrix stay together, as cells of a
// matrix that is named after the point, so that what it compares is still found.
func (s Scenario) at(p point) Scenario {
	if len(p) == 0 {
		return s
	}
	var names []string
	for _, c := range p {
		names = append(names, slug(c.axis, c.Label))
	}
	suffix := strings.Join(names, "-")
	if s.Matrix.Of != "" {
		cell := s.CellName()
		s.Matrix.Of += "-" + suffix
		s.Name = s.Matrix.Of + "-" + cell
		return s
	}
	s.Matrix.Of = s.Name
	s.Name += "-" + suffix
	for _, c := range p {
		s.Matrix.Cell = append(s.Matrix.Cell, c.axis+"="+c.Label)
	}
	return s
}
