package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Override replaces one value of a scenario's document before it is judged. Path
// is dotted, as in "workload.count". Value is a word, or a list or mapping in
// YAML's flow form: "[fsync, fdatasync]".
type Override struct {
	Path, Value string

	given *node // the value, where it stands in a suite; nil: Value is to be read
	alone bool  // this is Alone
}

// Alone changes nothing. It says that guests are given no module but the one that the
// scenario names, and a call that needs another is refused.
var Alone = Override{alone: true}

// ParseOverride reads "a.b=value".
func ParseOverride(text string) (Override, error) {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return Override{}, &Error{
			File:    "--set " + text,
			Message: "is not an override; write a field and a value, such as --set workload.count=100",
		}
	}
	return Override{Path: path, Value: value}, nil
}

// String prints the override as ParseOverride reads it.
func (o Override) String() string { return o.Path + "=" + o.Value }

// apply changes root. Naming a field of a value that is written in its short form
// (a timing profile, a bound for every call) keeps that value as its mapping's
// first field; naming a field of the cut replaces the cut; naming the cache mode drops
// the document's write-cache, and naming the back end its at-cut, which then follow.
func (o Override) apply(root *node) error {
	here := o.place()
	value, err := o.node(here)
	if err != nil {
		return err
	}
	return assign(root, o.Path, value, here)
}

// assign sets the value at a dotted path of root.
func assign(root *node, path string, value *node, here place) error {
	t := reflect.TypeFor[Scenario]()
	names := strings.Split(path, ".")
	at := root
	for i, name := range names {
		if err := at.open(t, strings.Join(names[:i], "."), here); err != nil {
			return err
		}
		if i == len(names)-1 {
			at.set(name, value)
			if path == "drive.cache" {
				at.dropWritten("write-cache") // which follows the mode
			}
			if path == "drive.backend" {
				root.dropWritten("at-cut") // which follows the back end
			}
			return nil
		}
		next := at.get(name)
		if next == nil || next.kind == absent {
			next = &node{kind: mapping, place: here}
			at.set(name, next)
		}
		at, t = next, typeBelow(t, name)
	}
	return nil
}

// dropWritten drops a field that the document gives; one from --set stays.
func (n *node) dropWritten(name string) {
	n.fields = slices.DeleteFunc(n.fields, func(f field) bool { return f.name == name && !f.value.loose })
}

// place is where the override stands.
func (o Override) place() place {
	if o.given != nil {
		return o.given.place
	}
	return place{source: &source{name: "--set " + o.String()}}
}

// node parses the value. What does not open a list, a mapping or quotes is a word.
func (o Override) node(here place) (*node, error) {
	if o.given != nil {
		n := o.given.clone()
		n.loosen()
		return n, nil
	}
	if o.Value == "" || !strings.ContainsRune("[{\"'", rune(o.Value[0])) {
		return &node{kind: textual, text: o.Value, place: here, loose: true}, nil
	}
	n, err := parseNode(here.source, []byte(o.Value))
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, here.errorf("has no value")
	}
	n.loosen()
	return n, nil
}

// loosen marks every scalar of n as one from --set.
func (n *node) loosen() {
	n.loose = true
	for _, item := range n.items {
		item.loosen()
	}
	for _, f := range n.fields {
		f.value.loosen()
	}
}

// open makes n, which the schema says is a t, a mapping that can take a field.
func (n *node) open(t reflect.Type, path string, here place) error {
	switch {
	case t == reflect.TypeFor[Cut]():
		n.kind, n.fields, n.place = mapping, nil, here
	case n.kind == mapping:
	case n.scalar() && t == reflect.TypeFor[Timing]():
		n.wrap("profile")
	case n.scalar() && t == reflect.TypeFor[Bounds]():
		n.wrap(string(Every))
	default:
		return here.errorf("%s is %s, which has no fields; set it as a whole", orScenario(path), article(n.kind))
	}
	return nil
}

// wrap turns the scalar n into a mapping that has n as its field name.
func (n *node) wrap(name string) {
	inner := *n
	*n = node{kind: mapping, place: n.place, fields: []field{{name: name, place: n.place, value: &inner}}}
}

// typeBelow returns the type of t's field, or nil where it has none of that name.
func typeBelow(t reflect.Type, name string) reflect.Type {
	if t == nil || !isMapping(t) {
		return nil
	}
	f, ok := fieldOf(t, name)
	if !ok {
		return nil
	}
	return f.Type
}

func orScenario(path string) string {
	if path == "" {
		return "the scenario"
	}
	return path
}

func article(k kind) string {
	if k == absent {
		return string(k)
	}
	return fmt.Sprintf("a %s", k)
}
