package scenarios

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Matrix makes many scenarios of one document: one for each combination of the
// values of its axes. ParseAll spells them out; the Scenarios that it returns have
// no Axes and no Rules any more, and say in Of and Cell where they come from.
type Matrix struct {
	Cases   Cases        `yaml:"cases,omitempty" doc:"a first axis of another kind: a mapping of names to mappings of fields, by dotted path, to the values that they have in that case"`
	Axes    Axes         `yaml:"axes,omitempty" doc:"fields of the scenario, by dotted path, each with a list of values; a --set of such a field takes it out of the matrix"`
	Rules   Rules        `yaml:"rules,omitempty" doc:"what is expected of some combinations in place of expect: each with when, axes and the values (one, or a list) for which it holds, and expect; of several rules for a field the last one holds"`
	Compare []Comparison `yaml:"compare,omitempty" max:"64" doc:"what must hold between the cells, where those that it is about were run; of several runs of a cell the medians count"`
	Of      string       `yaml:"of,omitempty" max:"120" doc:"of a scenario that a matrix made: the name of the matrix"`
	Cell    []string     `yaml:"cell,omitempty" max:"12" doc:"and its place there: field=value for each axis"`
}

// Cases, Axes and Rules stand for what only the document holds.
type (
	Cases map[string][]string
	Axes  map[string][]string
	Rules []string
)

// Limits of a matrix.
const (
	maxAxes  = 6
	maxCells = 256
)

// caseAxis is the name of the axis that cases make. Its values are mappings of
// fields, and have their names as texts.
const caseAxis = "case"

// axis is a field with the values that it takes in turn.
type axis struct {
	path   string
	place  place
	values []*node
}

// set gives the document one of the axis' values.
func (a axis) set(root, value *node) error {
	if a.path != caseAxis {
		return assign(root, a.path, value.clone(), value.place)
	}
	for _, f := range value.fields {
		if f.name == "name" || strings.HasPrefix(f.name, "matrix") {
			return f.place.errorf("matrix.cases: %s cannot be set by a case", f.name)
		}
		if err := assign(root, f.name, f.value.clone(), f.place); err != nil {
			return err
		}
	}
	return nil
}

// label is a value as rules and reports name it.
func (a axis) label(value *node) string {
	if a.path == caseAxis {
		return value.text
	}
	return value.flow()
}

// rule changes what is expected of the cells that it fits.
type rule struct {
	when   map[string][]string // by axis, the values that fit, as flow prints them
	expect []field
}

// matrix is what a document says of axes and rules.
type matrix struct {
	axes    []axis
	rules   []rule
	compare *node // nil: nothing
}

// ParseAll reads a document that holds one scenario, or a matrix of them; it
// returns them in the order of the axes, the last one changing fastest. Errors are
// those of Parse.
func ParseAll(name string, data []byte, overrides ...Override) ([]Scenario, error) {
	src := newSource(name, data)
	root, err := parseDocument(src, data)
	if err != nil {
		return nil, err
	}
	isMatrix := func(o Override) bool { return o.Path == "matrix" || strings.HasPrefix(o.Path, "matrix.") }
	for _, o := range overrides {
		if isMatrix(o) {
			if err := o.apply(root); err != nil {
				return nil, err
			}
		}
	}
	src.alone = slices.Contains(overrides, Alone)
	overrides = slices.DeleteFunc(slices.Clone(overrides), func(o Override) bool { return isMatrix(o) || o == Alone })
	m, err := takeMatrix(root)
	if err != nil {
		return nil, err
	}
	if m == nil {
		s, err := finish(src, root, overrides)
		return []Scenario{s}, err
	}
	return m.expand(src, root, overrides)
}

// takeMatrix removes axes and rules from the document; nil where it has none.
func takeMatrix(root *node) (*matrix, error) {
	n := root.get("matrix")
	if n == nil || n.kind != mapping || n.get("axes") == nil && n.get("rules") == nil && n.get("cases") == nil {
		return nil, nil
	}
	for _, f := range n.fields {
		if !slices.Contains([]string{"cases", "axes", "rules", "compare"}, f.name) {
			return nil, f.place.errorf("unknown field %q in matrix; allowed beside cases, axes, rules and compare: nothing", f.name)
		}
	}
	root.fields = slices.DeleteFunc(root.fields, func(f field) bool { return f.name == "matrix" })
	m := &matrix{compare: n.get("compare")}
	for _, read := range []func(*node) error{m.readCases, m.readAxes} {
		if err := read(n); err != nil {
			return nil, err
		}
	}
	return m, m.readRules(n.get("rules"))
}

// readCases makes an axis of the cases.
func (m *matrix) readCases(n *node) error {
	cases := n.get(caseAxis + "s")
	if cases == nil {
		return nil
	}
	if cases.kind != mapping || len(cases.fields) == 0 || len(cases.fields) > maxCells {
		return cases.place.errorf("matrix.cases: must be a mapping of 1 to %d names to mappings of fields, such as small: {workload.size: 1MiB}", maxCells)
	}
	a := axis{path: caseAxis, place: cases.place}
	for _, f := range cases.fields {
		if !nameForm.MatchString(f.name) {
			return f.place.errorf("matrix.cases: %q is not a name; write lower-case letters, digits and single hyphens", f.name)
		}
		if f.value.kind != mapping {
			return f.place.errorf("matrix.cases: %s must be a mapping of fields, by dotted path, to values", f.name)
		}
		v := f.value.clone()
		v.text = f.name
		a.values = append(a.values, v)
	}
	m.axes = append(m.axes, a)
	return nil
}

func (m *matrix) readAxes(n *node) error {
	axes := n.get("axes")
	if axes == nil && len(m.axes) > 0 {
		return nil
	}
	if axes == nil || axes.kind != mapping || len(axes.fields) == 0 || len(axes.fields) > maxAxes {
		at := n.place
		if axes != nil {
			at = axes.place
		}
		return at.errorf("matrix.axes: must be a mapping of 1 to %d fields to lists of values, such as drive.cache: [writeback, none]", maxAxes)
	}
	cells := 1
	for _, a := range m.axes {
		cells *= len(a.values)
	}
	for _, f := range axes.fields {
		if f.value.kind != sequence || len(f.value.items) == 0 {
			return f.place.errorf("matrix.axes: %s must have a list of values", f.name)
		}
		if f.name == "name" || f.name == caseAxis || f.name == "matrix" || strings.HasPrefix(f.name, "matrix.") {
			return f.place.errorf("matrix.axes: %s cannot be an axis; the names of the scenarios are made from their values", f.name)
		}
		for i, v := range f.value.items {
			if slices.ContainsFunc(f.value.items[:i], func(w *node) bool { return w.flow() == v.flow() }) {
				return v.place.errorf("matrix.axes: %s has the value %s twice", f.name, v.flow())
			}
		}
		m.axes = append(m.axes, axis{f.name, f.place, f.value.items})
		cells *= len(f.value.items)
		if cells > maxCells {
			return f.place.errorf("matrix.axes: more than %d combinations", maxCells)
		}
	}
	return nil
}

func (m *matrix) readRules(n *node) error {
	if n == nil {
		return nil
	}
	if n.kind != sequence {
		return n.place.errorf("matrix.rules: must be a list, each with when and expect")
	}
	for _, item := range n.items {
		when, expect := item.get("when"), item.get("expect")
		if len(item.fields) != 2 || when == nil || expect == nil || when.kind != mapping || expect.kind != mapping {
			return item.place.errorf("matrix.rules: a rule has exactly two fields, both mappings: when, such as {drive.cache: unsafe}, and expect, such as {lost: some}")
		}
		r := rule{when: map[string][]string{}, expect: expect.fields}
		for _, f := range when.fields {
			fits, err := m.fitting(f)
			if err != nil {
				return err
			}
			r.when[f.name] = fits
		}
		m.rules = append(m.rules, r)
	}
	return nil
}

// fitting returns the values that a condition of a rule asks for: f.value itself,
// or any of its items.
func (m *matrix) fitting(f field) ([]string, error) {
	i := slices.IndexFunc(m.axes, func(a axis) bool { return a.path == f.name })
	if i < 0 {
		return nil, f.place.errorf("matrix.rules: %s is not an axis", f.name)
	}
	known := func(n *node) bool {
		return slices.ContainsFunc(m.axes[i].values, func(v *node) bool { return m.axes[i].label(v) == n.flow() })
	}
	if known(f.value) {
		return []string{f.value.flow()}, nil
	}
	if f.value.kind != sequence || len(f.value.items) == 0 {
		return nil, f.value.place.errorf("matrix.rules: %s is never %s; see its values in axes", f.name, f.value.flow())
	}
	var fits []string
	for _, item := range f.value.items {
		if !known(item) {
			return nil, item.place.errorf("matrix.rules: %s is never %s; see its values in axes", f.name, item.flow())
		}
		fits = append(fits, item.flow())
	}
	return fits, nil
}

// expand makes the scenarios. A field that an override sets is no axis any more,
// though rules still ask for its value.
func (m *matrix) expand(src *source, root *node, overrides []Override) ([]Scenario, error) {
	set := map[string]string{}
	for _, o := range overrides {
		if i := slices.IndexFunc(m.axes, func(a axis) bool { return a.path == o.Path }); i >= 0 {
			value, err := o.node(o.place())
			if err != nil {
				return nil, err
			}
			set[o.Path] = value.flow()
		}
	}
	axes := slices.DeleteFunc(slices.Clone(m.axes), func(a axis) bool { _, is := set[a.path]; return is })
	var all []Scenario
	cells := map[string]Scenario{}
	for cell := range combinations(axes) {
		s, err := m.cell(src, root.clone(), axes, cell, set, overrides)
		if err != nil {
			return nil, err
		}
		name := s.CellName()
		if _, twice := cells[name]; twice {
			return nil, m.axes[0].place.errorf("matrix.axes: two combinations are called %s", s.Name)
		}
		cells[name] = s
		all = append(all, s)
	}
	if len(overrides) > 0 { // which may have changed the cells and their calls
		return all, nil
	}
	return all, m.checkCompare(all, cells)
}

// checkCompare demands of comparisons that what they are about is there.
func (m *matrix) checkCompare(all []Scenario, cells map[string]Scenario) error {
	for i, c := range all[0].Matrix.Compare {
		if err := c.known(cells); err != nil {
			return m.compare.items[i].place.errorf("matrix.compare: %v", err)
		}
	}
	return nil
}

// CellName is the name of a scenario that a matrix made, without the matrix's.
func (s Scenario) CellName() string { return strings.TrimPrefix(s.Name, s.Matrix.Of+"-") }

// combinations yields every choice of one value for each axis.
func combinations(axes []axis) func(func([]*node) bool) {
	return func(yield func([]*node) bool) {
		var choose func(chosen []*node) bool
		choose = func(chosen []*node) bool {
			if len(chosen) == len(axes) {
				return yield(chosen)
			}
			for _, v := range axes[len(chosen)].values {
				if !choose(append(chosen[:len(chosen):len(chosen)], v)) {
					return false
				}
			}
			return true
		}
		choose(nil)
	}
}

// cell makes one scenario of root, which it changes.
func (m *matrix) cell(src *source, root *node, axes []axis, chosen []*node, set map[string]string, overrides []Override) (Scenario, error) {
	values := maps.Clone(set)
	note := &node{kind: sequence, place: root.place}
	var names []string
	for i, a := range axes {
		v := chosen[i]
		label := a.label(v)
		values[a.path] = label
		if err := a.set(root, v); err != nil {
			return Scenario{}, err
		}
		note.items = append(note.items, &node{kind: textual, text: a.path + "=" + label, place: v.place})
		names = append(names, slug(a.path, label))
	}
	for _, r := range m.rules {
		if !r.fits(values) {
			continue
		}
		for _, f := range r.expect {
			if _, known := fieldOf(reflect.TypeFor[Expect](), f.name); !known {
				return Scenario{}, f.place.errorf("unknown field %q in expect; allowed: %s", f.name, strings.Join(fieldNames(reflect.TypeFor[Expect]()), ", "))
			}
			if err := assign(root, "expect."+f.name, f.value.clone(), f.place); err != nil {
				return Scenario{}, err
			}
		}
	}
	if name := root.get("name"); name != nil && len(axes) > 0 {
		of := &node{kind: textual, text: name.text, place: name.place}
		root.set("name", &node{kind: textual, text: name.text + "-" + strings.Join(names, "-"), place: name.place})
		fields := []field{{"of", name.place, of}, {"cell", root.place, note}}
		if m.compare != nil {
			fields = append(fields, field{"compare", m.compare.place, m.compare.clone()})
		}
		root.set("matrix", &node{kind: mapping, place: root.place, fields: fields})
	}
	return finish(src, root, overrides)
}

func (r rule) fits(values map[string]string) bool {
	for path, fits := range r.when {
		if !slices.Contains(fits, values[path]) {
			return false
		}
	}
	return true
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// slug is a value as it stands in a scenario's name: "barrier=1" is barrier-1, and
// an empty list of drive.faults no-faults.
func slug(path, value string) string {
	text := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(value), "-"), "-")
	if text == "" {
		return "no-" + path[strings.LastIndexByte(path, '.')+1:]
	}
	return text
}

// flow prints a value in one line, as an override takes it.
func (n *node) flow() string {
	if n.scalar() {
		return n.text
	}
	var parts []string
	inner := func(n *node) string {
		if n.scalar() && (n.text == "" || strings.ContainsAny(n.text, ",:#[]{}\"' ")) {
			return fmt.Sprintf("%q", n.text)
		}
		return n.flow()
	}
	for _, item := range n.items {
		parts = append(parts, inner(item))
	}
	for _, f := range n.fields {
		parts = append(parts, f.name+": "+inner(f.value))
	}
	if n.kind == sequence {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// clone copies a value.
func (n *node) clone() *node {
	c := *n
	c.items, c.fields = nil, nil
	for _, item := range n.items {
		c.items = append(c.items, item.clone())
	}
	for _, f := range n.fields {
		c.fields = append(c.fields, field{f.name, f.place, f.value.clone()})
	}
	return &c
}
