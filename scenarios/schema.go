package scenarios

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"powercut/guest/ops"
	"powercut/guest/workload"
)

// fieldName is the name of a struct field in the file.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// optional reports whether a zero value is left out when the field is written.
func optional(f reflect.StructField) bool {
	return strings.HasSuffix(f.Tag.Get("yaml"), ",omitempty")
}

func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if fieldName(f) == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() {
			names = append(names, fieldName(f))
		}
	}
	return names
}

// boundKeys lists what may be a key of Bounds.
func boundKeys() []string { return append(words(workload.Calls...), string(Every)) }

// requiredFields lists the dotted paths of all fields without a default, those of
// Timing, which has one as a whole, left out.
func requiredFields() []string {
	var paths []string
	walk(reflect.TypeFor[Scenario](), "", func(path string, f reflect.StructField) {
		if f.Tag.Get("required") != "" && !strings.HasPrefix(path, "drive.timing.") {
			paths = append(paths, path)
		}
	})
	return paths
}

// walk calls visit for each field of t and of the structs within, in their order.
func walk(t reflect.Type, path string, visit func(path string, f reflect.StructField)) {
	for _, f := range reflect.VisibleFields(t) {
		below := join(path, fieldName(f))
		visit(below, f)
		if isMapping(f.Type) {
			walk(f.Type, below, visit)
		}
	}
}

// isMapping reports whether t is a struct that a file writes as a mapping, field
// by field.
func isMapping(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[Range]() &&
		t != reflect.TypeFor[Ratio]() && t != reflect.TypeFor[Bound]() && t != reflect.TypeFor[Fault]() && t != reflect.TypeFor[Comparison]() && t != reflect.TypeFor[ops.Op]()
}

// form says what a value of type t looks like: "one of on, off", "a size".
func form(t reflect.Type, tag reflect.StructTag) string {
	if allowed := choices(t); allowed != nil {
		return "one of " + strings.Join(allowed, ", ")
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 1.5s"
	case reflect.TypeFor[Size]():
		return "a size such as 512000 or 4KiB"
	case reflect.TypeFor[Rate]():
		return "a rate such as 66MB/s"
	case reflect.TypeFor[Range]():
		return "a range of ops such as 150-200"
	case reflect.TypeFor[Ratio]():
		return `a ratio such as "fsync / O_DSYNC >= 2.5"`
	case reflect.TypeFor[Comparison]():
		return `a comparison such as "mean of fsync in large / fsync in small >= 2"`
	case reflect.TypeFor[Fault]():
		return `a fault such as flush-ignored or "eio write nth=10"`
	case reflect.TypeFor[ops.Op]():
		return `an op such as "write a 4KiB"`
	case reflect.TypeFor[Bound]():
		return boundForm(Unit(tag.Get("unit")))
	case reflect.TypeFor[Bounds]():
		return boundForm(Unit(tag.Get("unit"))) + "; or a mapping of " + strings.Join(boundKeys(), ", ") + " to such"
	case reflect.TypeFor[Timing]():
		return "one of " + strings.Join(choices(reflect.TypeFor[Profile]()), ", ") + "; or a mapping of " + strings.Join(fieldNames(t), ", ")
	case reflect.TypeFor[Cut]():
		return "a mapping of exactly one of " + strings.Join(fieldNames(t), ", ")
	}
	switch t {
	case reflect.TypeFor[Axes]():
		return "a mapping of fields to lists of values"
	case reflect.TypeFor[Cases]():
		return "a mapping of names to mappings of fields"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "a mapping of " + strings.Join(fieldNames(t), ", ")
	case reflect.Slice:
		return "a list, each " + form(t.Elem(), "")
	case reflect.Bool:
		return "on or off"
	case reflect.Int:
		return "a whole number"
	default:
		return "a text"
	}
}

// inRange holds v against the field's min and max.
func inRange(v reflect.Value, n *node, at spot) error {
	if at.tag.Get("min") == "" && at.tag.Get("max") == "" {
		return nil
	}
	size, what := magnitude(v)
	low, high := limit(v.Type(), at.tag.Get("min")), limit(v.Type(), at.tag.Get("max"))
	if size >= low && (at.tag.Get("max") == "" || size <= high) {
		return nil
	}
	if what == "" {
		return n.place.errorf("%s: %s is out of range; allowed: %s", at, n.text, limits(at.tag))
	}
	return n.place.errorf("%s: has %d %s; allowed: %s", at, size, what, limits(at.tag))
}

// magnitude returns what min and max bound: the number itself, or a length and
// the name of what it counts.
func magnitude(v reflect.Value) (size int64, counts string) {
	switch v.Kind() {
	case reflect.Slice:
		return int64(v.Len()), "entries"
	case reflect.String:
		return int64(utf8.RuneCountInString(v.String())), "characters"
	default:
		return v.Int(), ""
	}
}

// limit reads a min or max tag for a value of type t; an empty one is 0. The tags
// are constants of this package, and a test holds that each can be read.
func limit(t reflect.Type, word string) int64 {
	switch t {
	case reflect.TypeFor[time.Duration]():
		d, _ := time.ParseDuration(word)
		return int64(d)
	case reflect.TypeFor[Size]():
		n, _ := ParseSize(word)
		return int64(n)
	case reflect.TypeFor[Rate]():
		n, _ := ParseRate(word)
		return int64(n)
	}
	n, _ := strconv.ParseInt(word, 10, 64)
	return n
}

// limits prints the min and max tags.
func limits(tag reflect.StructTag) string {
	low, high := tag.Get("min"), tag.Get("max")
	switch {
	case low == "" && high == "":
		return ""
	case low == "":
		return "up to " + high
	case high == "":
		return "from " + low
	default:
		return fmt.Sprintf("%s to %s", low, high)
	}
}
