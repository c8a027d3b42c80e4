package scenarios

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Suite names many runs in one document: groups of scenarios, each crossed with
// lists of file systems, mount options, drives, kernels and seeds. ParseSuite reads
// one, and Cells spells it out. Its tags are those of Scenario.
type Suite struct {
	Name   string  `yaml:"name" required:"true" max:"60" doc:"how the suite is called"`
	About  string  `yaml:"about,omitempty" max:"160" doc:"one line for the report"`
	Groups []Group `yaml:"groups" required:"true" min:"1" max:"64" doc:"what is run; a cell that two groups name is run once"`

	file   string
	places *decoder
}

// Group is a part of a suite: every combination of what its lists name.
type Group struct {
	Scenarios   distinct         `yaml:"scenarios" required:"true" min:"1" max:"1000" doc:"names of scenarios, of cells of a matrix and of families; or files, ending in .yaml, by their path from the suite's folder"`
	Filesystems []FilesystemType `yaml:"filesystems,omitempty" min:"1" max:"16" doc:"in place of the scenarios' own"`
	Mounts      distinct         `yaml:"mounts,omitempty" min:"1" max:"64" doc:"mount options, in place of the scenarios' own"`
	Drives      *node            `yaml:"drives,omitempty" doc:"a mapping of names to mappings of fields of drive, such as cached: {write-cache: on}"`
	Kernels     distinct         `yaml:"kernels,omitempty" min:"1" max:"16" doc:"in place of the scenarios' own"`
	Seeds       *node            `yaml:"seeds,omitempty" doc:"such as 7 or 1-20; left out: 1"`
	Set         *node            `yaml:"set,omitempty" doc:"a mapping of fields of the scenarios, by dotted path, to values, such as workload.count: 50"`
	Rules       *node            `yaml:"rules,omitempty" doc:"what is expected of some cells in place of what their scenario expects: a list, each with when, a mapping as in exclude but without seed, and expect, as in a scenario; of several rules for a field the last one holds"`
	Exclude     *node            `yaml:"exclude,omitempty" doc:"combinations that are left out: a list of mappings of scenario, filesystem, mount, drive, kernel and seed to a value or a list of values"`
}

// distinct is a list of texts that are all different.
type distinct []string

// ParseSuite reads a suite. name is its file, or stands for it in errors, which are
// all *Error.
func ParseSuite(name string, data []byte) (*Suite, error) {
	src := newSource(name, data)
	start := place{source: src, line: 1, column: 1}
	root, err := parseNode(src, data)
	if err != nil {
		return nil, err
	}
	if root == nil || root.kind != mapping {
		return nil, start.errorf("is no suite; it is a mapping of %s", strings.Join(fieldNames(reflect.TypeFor[Suite]()), ", "))
	}
	d := &decoder{values: map[string]place{"": root.place}, names: map[string]place{}}
	s := &Suite{file: name, places: d}
	if err := d.decode(reflect.ValueOf(s).Elem(), root, spot{}); err != nil {
		return nil, err
	}
	if !nameForm.MatchString(s.Name) {
		return nil, d.at("name").errorf("name: %q is not a name; write lower-case letters, digits and single hyphens", s.Name)
	}
	return s, nil
}

// LoadSuite reads a suite's file. Its error is an *Error where the file could be read.
func LoadSuite(file string) (*Suite, error) {
	data, err := readLimited(file)
	if err != nil {
		return nil, fmt.Errorf("read suite: %w", err)
	}
	return ParseSuite(file, data)
}

// lattice is a group that is ready to be gone through.
type lattice struct {
	group   Group
	axes    []Axis
	set     []Override
	first   int // seed
	last    int
	rules   []change
	exclude []*condition
}

// lattice reads what the decoder has left as it is.
func (s *Suite) lattice(number int) (l lattice, err error) {
	g := s.Groups[number]
	path := fmt.Sprintf("groups.%d", number)
	l.group = g
	if l.set, err = assignments(g.Set, "set", ""); err != nil {
		return l, err
	}
	l.list(s.places, "filesystem", "filesystem.type", path+".filesystems", words(g.Filesystems...))
	l.list(s.places, "mount", "filesystem.mount", path+".mounts", g.Mounts)
	if err := l.drives(g.Drives); err != nil {
		return l, err
	}
	l.list(s.places, "kernel", "kernel", path+".kernels", g.Kernels)
	if err := l.seeds(g.Seeds); err != nil {
		return l, err
	}
	if l.exclude, err = l.conditions(g.Exclude); err != nil {
		return l, err
	}
	l.rules, err = l.changes(g.Rules)
	return l, err
}

// list adds an axis of the texts that stand at a path of the suite.
func (l *lattice) list(d *decoder, name, field, path string, values []string) {
	a := Axis{Name: name}
	for i, v := range values {
		n := &node{kind: textual, text: v, place: d.at(fmt.Sprintf("%s.%d", path, i)), loose: true}
		a.Choices = append(a.Choices, Choice{Label: v, Set: []Override{given(field, n)}})
	}
	if len(values) > 0 {
		l.axes = append(l.axes, a)
	}
}

// given is an override that stands in a suite.
func given(path string, n *node) Override {
	return Override{Path: path, Value: n.flow(), given: n}
}

// drives adds an axis of named drives.
func (l *lattice) drives(n *node) error {
	if n == nil {
		return nil
	}
	if n.kind != mapping || len(n.fields) == 0 {
		return n.place.errorf("drives: must be a mapping of names to mappings of fields of drive, such as cached: {write-cache: on}")
	}
	a := Axis{Name: "drive"}
	for _, f := range n.fields {
		if !nameForm.MatchString(f.name) {
			return f.place.errorf("drives: %q is not a name; write lower-case letters, digits and single hyphens", f.name)
		}
		set, err := assignments(f.value, "drives."+f.name, "drive.")
		if err != nil {
			return err
		}
		a.Choices = append(a.Choices, Choice{Label: f.name, Set: set})
	}
	l.axes = append(l.axes, a)
	return nil
}

// assignments reads a mapping of fields of a scenario to values.
func assignments(n *node, what, prefix string) ([]Override, error) {
	if n == nil {
		return nil, nil
	}
	if n.kind != mapping {
		return nil, n.place.errorf("%s: must be a mapping of fields to values", what)
	}
	var list []Override
	for _, f := range n.fields {
		path := prefix + f.name
		if path == "name" || path == "matrix" || strings.HasPrefix(path, "matrix.") {
			return nil, f.place.errorf("%s: %s cannot be set by a suite", what, path)
		}
		v := f.value.clone()
		if v.kind == absent {
			return nil, f.place.errorf("%s: %s has no value", what, f.name)
		}
		list = append(list, given(path, v))
	}
	return list, nil
}

// maxSeeds bounds the seeds of a group.
const maxSeeds = 10_000

func (l *lattice) seeds(n *node) error {
	l.first, l.last = 1, 1
	if n == nil {
		return nil
	}
	r, err := ParseRange(n.text)
	if !n.scalar() || err != nil || r.Last-r.First >= maxSeeds {
		return n.place.errorf("seeds: %s is not a range of at most %d seeds from 1 on, such as 1-20", n.flow(), maxSeeds)
	}
	l.first, l.last = r.First, r.Last
	return nil
}

// The conditions of excludes and rules that are not about an axis.
const (
	scenarioKey = "scenario"
	seedKey     = "seed"
)

// condition fits some of the cells.
type condition struct {
	place place
	when  map[string][]string // by axis, scenarioKey or seedKey, the values that fit
	used  bool                // some cell fitted
}

// change is a rule: what is expected of the cells that fit.
type change struct {
	condition
	set []Override
}

func (l *lattice) conditions(n *node) ([]*condition, error) {
	if n == nil {
		return nil, nil
	}
	if n.kind != sequence {
		return nil, n.place.errorf("exclude: must be a list of mappings, such as {kernel: debian:5.10, mount: barrier=0}")
	}
	var list []*condition
	for _, item := range n.items {
		c, err := l.condition("exclude", item)
		if err != nil {
			return nil, err
		}
		list = append(list, &c)
	}
	return list, nil
}

func (l *lattice) changes(n *node) ([]change, error) {
	if n == nil {
		return nil, nil
	}
	if n.kind != sequence {
		return nil, n.place.errorf("rules: must be a list, each with when and expect")
	}
	var list []change
	for _, item := range n.items {
		when, expect := item.get("when"), item.get("expect")
		if len(item.fields) != 2 || when == nil || expect == nil {
			return nil, item.place.errorf("rules: a rule has exactly two fields: when, such as {mount: barrier=0}, and expect, such as {lost: some}")
		}
		c, err := l.condition("rules", when)
		if err != nil {
			return nil, err
		}
		set, err := assignments(expect, "rules", "expect.")
		if err != nil {
			return nil, err
		}
		list = append(list, change{c, set})
	}
	return list, nil
}

// condition reads a mapping of axes to the values that fit.
func (l *lattice) condition(what string, n *node) (condition, error) {
	c := condition{place: n.place, when: map[string][]string{}}
	keys := l.keys(what)
	if n.kind != mapping || len(n.fields) == 0 {
		return c, n.place.errorf("%s: must be a mapping of %s to values", what, strings.Join(keys, ", "))
	}
	for _, f := range n.fields {
		if !slices.Contains(keys, f.name) {
			return c, f.place.errorf("%s: %q is nothing that this group lists%s; allowed: %s", what, f.name, didYouMean(f.name, keys), strings.Join(keys, ", "))
		}
		values := []*node{f.value}
		if f.value.kind == sequence {
			values = f.value.items
		}
		for _, v := range values {
			if known := l.labels(f.name); known != nil && !slices.Contains(known, v.flow()) {
				return c, v.place.errorf("%s: the %s %s", what, f.name, unknown(v.flow(), known))
			}
			c.when[f.name] = append(c.when[f.name], v.flow())
		}
	}
	return c, nil
}

// keys lists what a condition may be about. What is expected cannot depend on a seed.
func (l *lattice) keys(what string) []string {
	keys := []string{scenarioKey}
	for _, a := range l.axes {
		keys = append(keys, a.Name)
	}
	if what == "rules" {
		return keys
	}
	return append(keys, seedKey)
}

// labels lists an axis' values; nil for what is no axis.
func (l *lattice) labels(axis string) []string {
	var list []string
	for _, a := range l.axes {
		for _, c := range a.Choices {
			if a.Name == axis {
				list = append(list, c.Label)
			}
		}
	}
	return list
}

// fits tells whether a cell fits: it has any of names, is at p, and has that seed;
// "" is a seed that fits no condition on seeds.
func (c *condition) fits(names []string, p point, seed string) bool {
	for key, values := range c.when {
		has := slices.ContainsFunc(p, func(at coordinate) bool { return at.axis == key && slices.Contains(values, at.Label) })
		switch key {
		case scenarioKey:
			has = slices.ContainsFunc(names, func(n string) bool { return slices.Contains(values, n) })
		case seedKey:
			has = slices.Contains(values, seed)
		}
		if !has {
			return false
		}
	}
	c.used = true
	return true
}

// relative returns a scenario's name as Find takes it: a file is relative to the suite.
func (s *Suite) relative(arg string) string {
	if strings.HasSuffix(arg, ".yaml") && !filepath.IsAbs(arg) {
		arg = filepath.Join(filepath.Dir(s.file), arg)
		if !filepath.IsAbs(arg) {
			arg = "./" + arg
		}
	}
	return arg
}
