package report

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJSONReadsBack(t *testing.T) {
	for _, d := range []*Document{ext3Overwrite(), barrierOff()} {
		var b bytes.Buffer
		if err := JSON(&b, d); err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(&b)
		dec.DisallowUnknownFields()
		var back Document
		if err := dec.Decode(&back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d.listed(), &back); diff != "" {
			t.Error(diff)
		}
	}
}

// TestJSONLeavesDocument: what is written is a copy, lists and all.
func TestJSONLeavesDocument(t *testing.T) {
	d := ext3Overwrite()
	if err := JSON(new(bytes.Buffer), d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ext3Overwrite(), d); diff != "" {
		t.Error(diff)
	}
}

func TestJSONNotFinite(t *testing.T) {
	d := ext3Overwrite()
	d.Calls[0].Bill.Flushes = math.NaN()
	var b bytes.Buffer
	if err := JSON(&b, d); err == nil || b.Len() > 0 {
		t.Errorf("error %v after %d bytes", err, b.Len())
	}
}

// TestFieldsComplete: every field that JSON writes is described, and nothing else is.
func TestFieldsComplete(t *testing.T) {
	described := map[string]bool{}
	for line := range strings.Lines(Fields()) {
		if path, rest, ok := strings.Cut(strings.TrimPrefix(line, "- `"), "` ("); ok {
			described[path] = true
			if _, meaning, _ := strings.Cut(rest, "): "); strings.TrimSpace(meaning) == "" {
				t.Errorf("%s has no meaning: give its field a doc tag", path)
			}
		}
	}
	written := map[string]bool{}
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return JSON(b, barrierOff()) },
		func(b *bytes.Buffer) error { return JSON(b, ext3Overwrite()) },
		func(b *bytes.Buffer) error { return JSON(b, aMatrix()[0]) },
		func(b *bytes.Buffer) error { return JSON(b, onQcow2()) },
		func(b *bytes.Buffer) error { return JSON(b, withFigures(0)) },
		func(b *bytes.Buffer) error { return JSON(b, ofOps()) },
		func(b *bytes.Buffer) error { return JSONAll(b, onBusyHost()) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(b.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		paths(written, "", v)
	}
	for path := range written {
		if path = strings.TrimPrefix(path, "runs[]."); !described[path] { // the runs of a Combined are described before it
			t.Errorf("%s is written and not described", path)
		}
	}
	for path := range described {
		if !written[path] && !written["runs[]."+path] {
			t.Errorf("%s is described and never written", path)
		}
	}
}

// paths gathers the path of every field of v, in the notation of Fields.
func paths(to map[string]bool, prefix string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			path := strings.TrimPrefix(prefix+"."+name, ".")
			to[path] = true
			paths(to, path, inner)
		}
	case []any:
		for _, inner := range v {
			paths(to, prefix+"[]", inner)
		}
	}
}

// TestMeaningsFresh: no meaning is left over from a field that is gone.
func TestMeaningsFresh(t *testing.T) {
	used := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for f := range fieldsOf(typ) {
			used[typ.String()+"."+f.Name] = f.Tag.Get("doc") == ""
			if _, below := kindOf(f.Type); below != nil {
				walk(below)
			}
		}
	}
	walk(reflect.TypeFor[Document]())
	for name := range meanings() {
		if !used[name] {
			t.Errorf("nothing uses the meaning of %s", name)
		}
	}
}
