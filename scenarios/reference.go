package scenarios

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"powercut/guest/ops"
	"powercut/harness/disk"
)

// Reference returns the documentation of the format in Markdown: a table of every
// field, then how values are written, then the timing profiles and their sources. It is made from
// the tags of Scenario and from Default, which are also what Parse goes by.
func Reference() string {
	var b strings.Builder
	b.WriteString("| field | type | default | allowed | meaning |\n|---|---|---|---|---|\n")
	defaults := reflect.ValueOf(Default())
	walk(reflect.TypeFor[Scenario](), "", func(path string, f reflect.StructField) {
		row(&b, "`"+path+"`", typeName(f.Type, f.Tag), defaultOf(defaults, path, f), allowedOf(f.Type, f.Tag), f.Tag.Get("doc"))
	})
	b.WriteString("\n| type | written as |\n|---|---|\n")
	for _, t := range notations() {
		row(&b, t.name, t.text)
	}
	b.WriteString("\n")
	operations(&b)
	faults(&b)
	profiles(&b)
	return b.String()
}

// operations writes how each op is written, and what it does.
func operations(b *strings.Builder) {
	b.WriteString("| op | what it does |\n|---|---|\n")
	for _, f := range ops.Forms() {
		row(b, "`"+f.String()+"`", f.Meaning)
	}
	b.WriteString("\nA FILE is a path or a descriptor that is open, such as @h; a path is below the root of the file system, which is `.` itself. " +
		"An op that may fail ends with `allow` and the errors that it may fail with, such as `allow ENOENT`.\n\n")
}

// faults writes how each kind of fault is written, and what it does.
func faults(b *strings.Builder) {
	b.WriteString("| fault | what it does |\n|---|---|\n")
	for _, f := range faultForms() {
		row(b, "`"+f.String()+"`", f.meaning)
	}
	b.WriteString("\n| a fault selects by | those of its requests, once op 1 has begun, that |\n|---|---|\n")
	for _, o := range [][2]string{
		{"`nth=N`", "are the N-th, counted from 1 among those that `range` and `after` agree to"},
		{"`from=N`", "are the N-th, so counted, or later"},
		{"`range=OFFSET+LENGTH`", "overlap these bytes of the drive, as sizes: `1MiB+4KiB`. The bytes of an external journal's disk follow those of the file system's, and a flush overlaps all of its disk"},
		{"`after=DURATION`", "arrive that long after op 1 began"},
		{"`p=PROBABILITY`", "the seed picks, each with that probability"},
		{"`once`", "are the first that all else agrees to"},
		{"`tries=N`", "(`eio`) or repeat one that failed, which fails N times in a row: the guest's driver tries again before it gives up; default " + fmt.Sprint(disk.Tries)},
	} {
		row(b, o[0], o[1])
	}
}

// row writes one line of a table.
func row(b *strings.Builder, cells ...string) {
	for _, cell := range cells {
		b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}

// typeName names the type of a field for the reference.
func typeName(t reflect.Type, tag reflect.StructTag) string {
	if choices(t) != nil {
		return "word"
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Bounds]():
		return "bounds on " + tag.Get("unit")
	case reflect.TypeFor[Timing]():
		return "word or mapping"
	case reflect.TypeFor[Axes](), reflect.TypeFor[Cases]():
		return "mapping"
	case reflect.TypeFor[Rules]():
		return "list of mappings"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + typeName(t.Elem(), "") + "s"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "switch"
	case reflect.Int:
		return "number"
	}
	if isMapping(t) {
		return "mapping"
	}
	return strings.ToLower(t.Name()) // size, rate, range, ratio
}

// allowedOf says what a field may hold.
func allowedOf(t reflect.Type, tag reflect.StructTag) string {
	if t.Kind() == reflect.Slice {
		return joinNonEmpty("; ", strings.Join(choices(t.Elem()), ", "), counted(tag, "entries"))
	}
	switch {
	case choices(t) != nil:
		return strings.Join(choices(t), ", ")
	case t == reflect.TypeFor[Timing]():
		return strings.Join(choices(reflect.TypeFor[Profile]()), ", ")
	case t.Kind() == reflect.Bool:
		return "on, off"
	case t.Kind() == reflect.String:
		return counted(tag, "characters")
	default:
		return limits(tag)
	}
}

func counted(tag reflect.StructTag, what string) string {
	if limits(tag) == "" {
		return ""
	}
	return limits(tag) + " " + what
}

func joinNonEmpty(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

// defaultOf prints the default of the field at path.
func defaultOf(defaults reflect.Value, path string, f reflect.StructField) string {
	if strings.HasPrefix(path, "drive.timing.") && f.Tag.Get("required") == "" {
		return "the profile's"
	}
	if f.Tag.Get("required") != "" {
		return "*required*"
	}
	v := defaults
	for name := range strings.SplitSeq(path, ".") {
		sf, _ := fieldOf(v.Type(), name)
		v = v.FieldByIndex(sf.Index)
	}
	if isMapping(v.Type()) && v.Type() != reflect.TypeFor[Timing]() || optional(f) && empty(v) {
		return ""
	}
	text, err := yaml.MarshalWithOptions(encode(v), yaml.Flow(true))
	if err != nil {
		panic(fmt.Sprintf("print default of %s: %v", path, err)) // a test prints them all
	}
	return "`" + strings.TrimSpace(string(text)) + "`"
}

// notation says how values of a type are written.
type notation struct{ name, text string }

func notations() []notation {
	return []notation{
		{"text", "one line of printable characters; in quotes where YAML would read a number"},
		{"switch", "`on` or `off`; also `yes` and `no`, `true` and `false`"},
		{"size", "bytes: `512000`, or with a unit: `k`, `K`, `KiB`, `M`, `MiB`, `G`, `GiB` count 1024s, `kB`, `MB`, `GB` count 1000s"},
		{"rate", "a size per second: `66MB/s`"},
		{"duration", "a number and `ns`, `us`, `ms`, `s`, `m` or `h`: `0.8ms`, `1m30s`"},
		{"range", "of ops, both included: `150-200`"},
		{"bounds", "one bound for every call, or a mapping of calls to bounds, in which `" + string(Every) + "` stands for those that are not named"},
		{"bound on ops", boundForm(Ops)},
		{"bound on number", boundForm(Number)},
		{"bound on time", boundForm(Time)},
		{"fault", "its kind, what the kind needs, and which requests it hits: see below"},
		{"comparison", "of a matrix: a measure (`mean`, `p50`, `p99`, `max`, or `drive`, which is the part of the mean that a request was with the drive), two calls (`ops` of a workload of ops) with their cells, which are named without the matrix's name, and a bound on number: `mean of fsync in large / fsync in small >= 2`"},
		{"ratio", "two calls and a bound on number: `fsync / O_DSYNC >= 2.5`"},
	}
}

// profiles writes the values of each timing profile as a table, and where they come
// from.
func profiles(b *strings.Builder) {
	b.WriteString("\nThe timing profiles. Data sheets are quoted from memory; \"assumed\" marks what nobody has measured or published.\n")
	for _, p := range Profiles() {
		if p.Kind() == Untimed {
			continue
		}
		fmt.Fprintf(b, "\n%s, a %s drive:\n\n| field | value | source |\n|---|---|---|\n", p, p.Kind())
		timing := reflect.ValueOf(p.Timing())
		for _, s := range p.Sources() {
			f, _ := fieldOf(timing.Type(), s.Field)
			row(b, s.Field, fmt.Sprint(encode(timing.FieldByIndex(f.Index))), s.Text)
		}
	}
}
