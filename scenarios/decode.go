package scenarios

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"powercut/guest/ops"
	"powercut/guest/workload"
)

// Parse reads one scenario. name stands for it in errors, which are all *Error.
// The overrides are applied to the document before it is judged. A matrix is for
// ParseAll.
func Parse(name string, data []byte, overrides ...Override) (Scenario, error) {
	all, err := ParseAll(name, data, overrides...)
	if err != nil {
		return Scenario{}, err
	}
	if all[0].Matrix.Of != "" && len(all) > 1 {
		return Scenario{}, &Error{File: name, Message: fmt.Sprintf("is a matrix of %d scenarios, and one is wanted", len(all))}
	}
	return all[0], nil
}

// parseDocument reads the document, which holds at least something.
func parseDocument(src *source, data []byte) (*node, error) {
	root, err := parseNode(src, data)
	if err != nil {
		return nil, err
	}
	if root == nil || root.kind == absent {
		start := place{source: src, line: 1, column: 1}
		return nil, start.errorf("is empty; a scenario needs at least %s", strings.Join(requiredFields(), ", "))
	}
	return root, nil
}

// finish applies the overrides to a document of src, and judges it.
func finish(src *source, root *node, overrides []Override) (Scenario, error) {
	for _, o := range overrides {
		if err := o.apply(root); err != nil {
			return Scenario{}, err
		}
	}
	d := decoder{values: map[string]place{"": root.place}, names: map[string]place{}, alone: src.alone}
	s := Default()
	if err := d.decode(reflect.ValueOf(&s).Elem(), root, spot{}); err != nil {
		return Scenario{}, err
	}
	if _, given := d.values["workload.size"]; !given && s.Workload.Kind == workload.Append {
		s.Workload.Size = s.Workload.full()
	}
	s.settle(&d)
	if slices.ContainsFunc(overrides, func(o Override) bool { return o.Path == "workload.calls" || o.Path == "workload" }) {
		inDocument := func(path string) bool { return d.at(path).source == src }
		s.Expect.forget(s.Workload.Calls, inDocument)
		s.Figures.forget(s.Workload.Calls, inDocument)
	}
	if err := s.check(&d); err != nil {
		return Scenario{}, err
	}
	return s, nil
}

// forget drops what is expected of calls that are not made, where the document
// says it: the calls were overridden, and what it expects of others is moot.
func (e *Expect) forget(calls []workload.Call, inDocument func(path string) bool) {
	v := reflect.ValueOf(e).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if bounds, ok := v.FieldByIndex(f.Index).Interface().(Bounds); ok {
			bounds.forget("expect."+fieldName(f), calls, inDocument)
		}
	}
	moot := func(c workload.Call) bool { return c != Every && !slices.Contains(calls, c) }
	var ratios []Ratio
	for i, r := range e.Ratios {
		if !moot(r.Over) && !moot(r.Under) || !inDocument(fmt.Sprintf("expect.ratios.%d", i)) {
			ratios = append(ratios, r)
		}
	}
	e.Ratios = ratios
}

// forget drops the bounds at path, where the document says them, on calls that are
// not made.
func (b Bounds) forget(path string, calls []workload.Call, inDocument func(path string) bool) {
	maps.DeleteFunc(b, func(c workload.Call, _ Bound) bool {
		return c != Every && !slices.Contains(calls, c) && inDocument(join(path, string(c)))
	})
}

// spot is where in the schema a value belongs.
type spot struct {
	path string // dotted; empty at the top
	tag  reflect.StructTag
}

func (s spot) below(name string, tag reflect.StructTag) spot {
	return spot{path: join(s.path, name), tag: tag}
}

// String is the path as errors name it: of a list's entry, that of the list, for
// the error's position tells which entry it is.
func (s spot) String() string {
	if dot := strings.LastIndexByte(s.path, '.'); dot >= 0 && digits(s.path[dot+1:]) {
		return s.path[:dot]
	}
	return s.path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// decoder fills a Scenario from nodes, and remembers where each value stood.
type decoder struct {
	values map[string]place // by dotted path
	names  map[string]place // of the fields' names, by dotted path
	alone  bool             // see Alone
}

// at returns the place of the value at path or, where the document does not
// mention it, of what encloses it.
func (d *decoder) at(path string) place {
	for {
		if p, ok := d.values[path]; ok {
			return p
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
}

// decode sets v, which holds its default, from n.
func (d *decoder) decode(v reflect.Value, n *node, at spot) error {
	d.values[at.path] = n.place
	if raw, ok := v.Addr().Interface().(**node); ok { // a suite reads it itself
		*raw = n
		return nil
	}
	if n.kind == absent {
		return n.place.errorf("%s has no value; leave it out, or give %s", at, form(v.Type(), at.tag))
	}
	switch target := v.Addr().Interface().(type) {
	case *Timing:
		return d.timing(target, n, at)
	case *Bounds:
		return d.bounds(target, n, at)
	case *Range, *Ratio, *Bound, *Fault, *Comparison, *ops.Op:
		return d.scalar(v, n, at)
	case *Cases, *Axes, *Rules: // taken out of every document that has them where they belong
		return n.place.errorf("%s: stands in a document of its own, beside cases, axes, rules and compare alone", at)
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(v, n, at)
	case reflect.Slice:
		return d.list(v, n, at)
	default:
		return d.scalar(v, n, at)
	}
}

// structure sets the fields that n names, and demands those that are required.
func (d *decoder) structure(v reflect.Value, n *node, at spot) error {
	if n.kind != mapping {
		return n.wrong(v.Type(), at)
	}
	t := v.Type()
	for _, f := range n.fields {
		d.names[join(at.path, f.name)] = f.place
		sf, ok := fieldOf(t, f.name)
		if !ok {
			return f.place.errorf("unknown field %q%s%s; allowed: %s", f.name, in(at.path),
				didYouMean(f.name, fieldNames(t)), strings.Join(fieldNames(t), ", "))
		}
		if err := d.decode(v.FieldByIndex(sf.Index), f.value, at.below(f.name, sf.Tag)); err != nil {
			return err
		}
	}
	for _, sf := range reflect.VisibleFields(t) {
		name := fieldName(sf)
		if sf.Tag.Get("required") != "" && n.get(name) == nil {
			return n.place.errorf("the field %s is missing; it is %s", join(at.path, name), form(sf.Type, sf.Tag))
		}
	}
	return d.nested(v, n, at)
}

// nested demands the required fields of the mappings that n leaves out.
func (d *decoder) nested(v reflect.Value, n *node, at spot) error {
	for _, sf := range reflect.VisibleFields(v.Type()) {
		name := fieldName(sf)
		if sf.Type.Kind() != reflect.Struct || choices(sf.Type) != nil || n.get(name) != nil {
			continue
		}
		for _, inner := range reflect.VisibleFields(sf.Type) {
			if inner.Tag.Get("required") != "" && v.FieldByIndex(sf.Index).FieldByIndex(inner.Index).IsZero() {
				return n.place.errorf("the field %s is missing; it is %s",
					join(join(at.path, name), fieldName(inner)), form(inner.Type, inner.Tag))
			}
		}
	}
	return nil
}

// in says in which mapping, unless it is the scenario itself.
func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

// list sets a slice from n. An empty list is the nil slice.
func (d *decoder) list(v reflect.Value, n *node, at spot) error {
	if n.kind != sequence {
		return n.wrong(v.Type(), at)
	}
	out := reflect.Zero(v.Type())
	for i, item := range n.items {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := d.decode(value, item, at.below(strconv.Itoa(i), "")); err != nil {
			return err
		}
		for j := range i {
			if !repeats(v.Type()) && value.Comparable() && out.Index(j).Equal(value) {
				return item.place.errorf("%s: %q is in the list twice", at, item.text)
			}
		}
		out = reflect.Append(out, value)
	}
	v.Set(out)
	return inRange(v, n, at)
}

// repeats tells whether a list may hold one thing twice.
func repeats(list reflect.Type) bool {
	return list == reflect.TypeFor[[]string]() || list == reflect.TypeFor[[]ops.Op]()
}

// scalar sets v from a single word or text.
func (d *decoder) scalar(v reflect.Value, n *node, at spot) error {
	if !n.scalar() {
		return n.wrong(v.Type(), at)
	}
	if err := setScalar(v, n, at); err != nil {
		return err
	}
	return inRange(v, n, at)
}

func setScalar(v reflect.Value, n *node, at spot) error {
	word := n.text
	if allowed := choices(v.Type()); allowed != nil {
		if !slices.Contains(allowed, word) {
			return n.place.errorf("%s: %s", at, unknown(word, allowed))
		}
		v.SetString(word)
		return nil
	}
	var err error
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		*target, err = parseDuration(word)
	case *Size:
		*target, err = ParseSize(word)
	case *Rate:
		*target, err = ParseRate(word)
	case *Range:
		*target, err = ParseRange(word)
	case *Bound:
		*target, err = ParseBound(word, Unit(at.tag.Get("unit")))
	case *Ratio:
		*target, err = ParseRatio(word)
	case *Comparison:
		*target, err = ParseComparison(word)
	case *Fault:
		if *target, err = ParseFault(word); err != nil {
			return n.inside(err).errorf("%s: %v", at, err)
		}
	case *ops.Op:
		if *target, err = ops.Parse(word); err != nil {
			return n.inside(err).errorf("%s: %v", at, err)
		}
	case *int:
		if *target, err = strconv.Atoi(word); err != nil {
			err = fmt.Errorf("is not %s", form(v.Type(), at.tag))
		}
	case *bool:
		*target, err = parseSwitch(word)
	case *string:
		return setText(target, n, at)
	default:
		panic("scenario field of unforeseen type " + v.Type().String())
	}
	if err != nil {
		return n.place.errorf("%s: %q %v", at, word, err)
	}
	return nil
}

// parseSwitch reads a word for on or off.
func parseSwitch(word string) (bool, error) {
	switch strings.ToLower(word) {
	case "on", "yes", "true":
		return true, nil
	case "off", "no", "false":
		return false, nil
	}
	return false, fmt.Errorf("is neither on nor off; allowed: on, off, yes, no, true, false")
}

// setText sets a text of one line.
func setText(target *string, n *node, at spot) error {
	if n.kind != textual && !n.loose {
		return n.place.errorf("%s: %s is a %s, and must be a text: put it in quotes", at, n.text, n.kind)
	}
	value := strings.TrimSpace(n.text)
	if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return n.place.errorf("%s: %q has characters that cannot be printed; write one line of plain text", at, value)
	}
	*target = value
	return nil
}

// wrong says that n is not the kind of value that t is.
func (n *node) wrong(t reflect.Type, at spot) error {
	what := "the scenario"
	if at.path != "" {
		what = at.String()
	}
	is := string(n.kind)
	if n.scalar() {
		is = fmt.Sprintf("%q", n.text)
	} else {
		is = "a " + is
	}
	return n.place.errorf("%s is %s, and must be %s", what, is, form(t, at.tag))
}

// timing sets t from a profile's name, or from a mapping over a profile.
func (d *decoder) timing(t *Timing, n *node, at spot) error {
	base, below := n.get("profile"), at.below("profile", "")
	if n.scalar() {
		base, below = n, at
	}
	if base != nil {
		if err := d.decode(reflect.ValueOf(&t.Profile).Elem(), base, below); err != nil {
			return err
		}
		*t = t.Profile.Timing()
	}
	if n.scalar() {
		return nil
	}
	if err := d.structure(reflect.ValueOf(t).Elem(), n, at); err != nil {
		return err
	}
	for _, f := range n.fields {
		if err := t.checkField(f, at.path); err != nil {
			return err
		}
	}
	return t.check(d, at.path)
}

// bounds sets b from a bound for every call, or from a mapping of calls.
func (d *decoder) bounds(b *Bounds, n *node, at spot) error {
	if n.kind == sequence {
		return n.wrong(reflect.TypeFor[Bounds](), at)
	}
	if *b == nil {
		*b = Bounds{}
	}
	if n.scalar() {
		return d.bound(*b, Every, n, at)
	}
	for _, f := range n.fields {
		below := at.below(f.name, at.tag)
		d.names[below.path] = f.place
		if allowed := boundKeys(); !slices.Contains(allowed, f.name) {
			return f.place.errorf("%s: the call %s", at.path, unknown(f.name, allowed))
		}
		if err := d.bound(*b, workload.Call(f.name), f.value, below); err != nil {
			return err
		}
	}
	if len(*b) == 0 {
		*b = nil
	}
	return nil
}

func (d *decoder) bound(b Bounds, call workload.Call, n *node, at spot) error {
	var bound Bound
	if err := d.decode(reflect.ValueOf(&bound).Elem(), n, at); err != nil {
		return err
	}
	b[call] = bound
	return nil
}
