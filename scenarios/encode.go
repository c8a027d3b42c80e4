package scenarios

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
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
		return formatDuration(value)
	case bool:
		return formatSwitch(value)
	case Size:
		return word(value.String())
	case Timing:
		if value == value.Profile.Timing() {
			return string(value.Profile)
		}
	case Bounds:
		return value.encode()
	case Rate:
		return value.String()
	case Range:
		return value.String()
	case Ratio:
		return value.String()
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
		return v.String()
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
		return word(b[Every].String())
	}
	var out yaml.MapSlice
	for _, call := range keys {
		out = append(out, yaml.MapItem{Key: string(call), Value: word(b[call].String())})
	}
	return out
}

// word is text as it stands in a file: digits without the quotes that keep other
// texts from being read as numbers.
func word(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && digits(text) {
		return n
	}
	return text
}

// plain is a word that the YAML library would put in quotes for the sake of
// readers of YAML 1.1, to whom on and off are not words.
type plain string

// MarshalYAML returns the word as it is.
func (p plain) MarshalYAML() ([]byte, error) { return []byte(p), nil }

func formatSwitch(on bool) plain {
	if on {
		return "on"
	}
	return "off"
}
