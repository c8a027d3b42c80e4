package scenarios

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"powercut/guest/ops"
)

// Marshal returns the scenario as YAML, every default written out. Parse reads it
// back to an equal value.
func (s Scenario) Marshal() ([]byte, error) {
	out, err := yaml.Marshal(encode(reflect.ValueOf(s)))
	if err != nil {
		return nil, fmt.Errorf("write scenario %s: %w", s.Name, err)
	}
	return out, nil
}

// encode turns v into what the YAML library writes as the format has it.
func encode(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return plain(formatDuration(value))
	case bool:
		return formatSwitch(value)
	case Switch:
		return plain(value)
	case Size:
		return plain(value.String())
	case Timing:
		return value.encode()
	case Bounds:
		return value.encode()
	case Rate:
		return plain(value.String())
	case Range:
		return plain(value.String())
	case Ratio:
		return plain(value.String())
	case Comparison:
		return word(value.String())
	case Fault:
		return word(value.String())
	case ops.Op:
		return word(value.String())
	case Workload:
		if value.Kind == OpsKind { // the other fields mean nothing
			return yaml.MapSlice{{Key: "kind", Value: plain(value.Kind)}, {Key: "ops", Value: encode(reflect.ValueOf(value.Ops))}}
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = encode(v.Index(i))
		}
		return items
	case reflect.String:
		return word(v.String())
	default:
		return v.Interface()
	}
}

func encodeStruct(v reflect.Value) yaml.MapSlice {
	var out yaml.MapSlice
	for _, f := range reflect.VisibleFields(v.Type()) {
		value := v.FieldByIndex(f.Index)
		if optional(f) && empty(value) {
			continue
		}
		out = append(out, yaml.MapItem{Key: fieldName(f), Value: encode(value)})
	}
	return out
}

// empty reports whether v is zero, or has no entries.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func (b Bounds) encode() any {
	keys := b.keys()
	if len(keys) == 1 && keys[0] == Every {
		return b[Every].encode()
	}
	var out yaml.MapSlice
	for _, call := range keys {
		out = append(out, yaml.MapItem{Key: string(call), Value: b[call].encode()})
	}
	return out
}

// encode prints the bound. A comparison needs quotes: to YAML, > begins a text of
// several lines.
func (b Bound) encode() plain {
	if strings.HasPrefix(b.String(), ">") {
		return plain(`"` + b.String() + `"`)
	}
	return plain(b.String())
}

// word is text as it stands in a file: with quotes where YAML could take it for
// anything but a text.
func word(text string) plain {
	if simple.MatchString(text) && !reserved.MatchString(text) {
		return plain(text)
	}
	return plain(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`)
}

var (
	// simple texts begin with a letter and have no mark with a meaning in YAML.
	simple = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_./=,;()+-]|:[A-Za-z0-9]| [A-Za-z0-9_./=()])*$`)
	// reserved words are no texts to some reader of YAML.
	reserved = regexp.MustCompile(`(?i)^(null|true|false|yes|no|on|off|y|n|nan|inf)$`)
)

// plain is a piece of YAML.
type plain string

// MarshalYAML returns it as it is.
func (p plain) MarshalYAML() ([]byte, error) { return []byte(p), nil }

func formatSwitch(on bool) plain {
	if on {
		return "on"
	}
	return "off"
}
