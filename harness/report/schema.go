package report

import (
	"encoding/json"
	"fmt"
	"reflect"

	"powercut/harness/trace"
)

// DocumentSchema is the JSON Schema (draft 2020-12) of Document, made of the type
// itself. A document may hold fields that it does not name: a new optional field
// leaves the version as it is.
func DocumentSchema() []byte { return SchemaOf(reflect.TypeFor[Document](), Schema) }

// CombinedSchema is that of Combined.
func CombinedSchema() []byte { return SchemaOf(reflect.TypeFor[Combined](), SummarySchema) }

// object is a JSON object. Its members are sorted by name when it is written.
type object = map[string]any

// SchemaOf is that of a struct whose field schema holds the version.
func SchemaOf(t reflect.Type, version string) []byte {
	s := structSchema(t)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = version
	s["properties"].(object)["schema"] = object{"const": version}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps of strings, lists and maps can be written
	}
	return append(b, '\n')
}

// structSchema describes a struct: each exported field by its json tag.
func structSchema(t reflect.Type) object {
	properties, required := object{}, []string{}
	addFields(t, properties, &required)
	return object{"type": "object", "properties": properties, "required": required}
}

func addFields(t reflect.Type, properties object, required *[]string) {
	for f := range fieldsOf(t) {
		if f.Anonymous {
			addFields(f.Type, properties, required)
			continue
		}
		name, optional := jsonName(f)
		s := typeSchema(f.Type)
		if f.Type.Kind() == reflect.Pointer && !optional {
			s = object{"anyOf": []object{s, {"type": "null"}}}
		}
		s["description"] = meaning(t, f)
		properties[name] = s
		if !optional {
			*required = append(*required, name)
		}
	}
}

// typeSchema describes a value as encoding/json writes it.
func typeSchema(t reflect.Type) object {
	switch t.Kind() {
	case reflect.String:
		if t == reflect.TypeFor[trace.Reason]() {
			return object{"enum": append(trace.LostReasons(), trace.Unknown, "")}
		}
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": typeSchema(t.Elem())}
	case reflect.Struct:
		return structSchema(t)
	}
	panic(fmt.Sprintf("report: a document has no place for a %s", t))
}
