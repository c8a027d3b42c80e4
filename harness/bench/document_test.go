package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		got  Figure
		want bool
	}{
		{Figure{Value: 20}.atLeast(20), true},
		{Figure{Value: 19.99}.atLeast(20), false},
		{Figure{Value: 1.15}.atMost(1.15), true},
		{Figure{Value: 1.16}.atMost(1.15), false},
		{Figure{Value: math.NaN()}.atMost(1), false},
		{Figure{Value: math.NaN()}.atLeast(1), false},
	} {
		if c.got.Held != c.want {
			t.Errorf("%v, at least %v: held is %v", c.got.Value, c.got.AtLeast, c.got.Held)
		}
	}
	kept, over, skipped := Figure{Held: true}, Figure{}, Figure{Skipped: "not here"}
	for _, c := range []struct {
		figures []Figure
		want    bool
	}{
		{nil, true},
		{[]Figure{kept, skipped}, true},
		{[]Figure{kept, over, skipped}, false},
	} {
		if got := held(c.figures); got != c.want {
			t.Errorf("held(%+v) = %v", c.figures, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []int64
		want float64
	}{
		{[]int64{7}, 7},
		{[]int64{9, 1}, 5},
		{[]int64{9, 1, 2}, 2},
		{[]int64{4, 3, 1000, 1}, 3.5},
	} {
		if got := median(c.of); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.of, got, c.want)
		}
	}
	if got := median([]float64(nil)); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
	values := []int64{3, 1, 2}
	median(values)
	if d := cmp.Diff([]int64{3, 1, 2}, values); d != "" {
		t.Errorf("median changed its argument:\n%s", d)
	}
}

// sample is a document with each kind of figure.
func sample() *Document {
	return &Document{
		Schema: Schema, Machine: Machine{Release: "6.1", QEMU: "7.2", Accelerator: "tcg", Processors: 2, Load: 1.5}, Elapsed: 72,
		Figures: []Figure{
			Figure{
				Name: ForkFigure, Text: "fork against cold boot", Value: 25.04, Unit: Times,
				Parts: []Part{timed("cold boot", []int64{5e9}), timed("fork", []int64{2e8})},
			}.atLeast(20),
			Figure{Name: ShareFigure, Text: "share", Value: 1.5, Unit: Percent, Parts: []Part{}}.atMost(1),
			{Name: DriveFigure, Text: "drive", Unit: Times, Bound: 1.15, Skipped: "nbdkit is not installed", Parts: []Part{}},
		},
		Phases: []Phase{{Name: "fork", Median: 120.25, Samples: 5}},
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, sample()); err != nil {
		t.Fatal(err)
	}
	want := `guest Linux 6.1, QEMU 7.2 (tcg), 2 processors, load 1.5

figure                  measured  wanted
fork against cold boot      25 ×  ≥ 20 ×    ok
    cold boot 5.00 s, fork 200 ms
share                      1.5 %  ≤ 1 %     OVER
drive                          -  ≤ 1.15 ×  skipped
    nbdkit is not installed

where the time of a run goes (barrier-on, fdatasync)
  fork    120 ms

NOT within bounds (72 s)
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
	if err := Table(broken{}, sample()); !errors.Is(err, errBroken) {
		t.Errorf("a writer that fails gives %v", err)
	}
}

var errBroken = errors.New("no paper")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestJSONRoundTrip(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, sample()); err != nil {
		t.Fatal(err)
	}
	var got Document
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), &got); d != "" {
		t.Errorf("document (-want +got):\n%s", d)
	}
}

// TestFieldsAreDocumented: the page on the JSON names each field, and no other.
func TestFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/bench-json.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if rest, ok := strings.CutPrefix(line, "- `"); ok {
			path, _, _ := strings.Cut(rest, "`")
			got = append(got, path)
		}
	}
	if d := cmp.Diff(paths(reflect.TypeFor[Document](), ""), got); d != "" {
		t.Errorf("documented fields (-type +page):\n%s", d)
	}
	for _, name := range []string{ForkFigure, RoundTripFigure, ShareFigure, DriveFigure, MixedFigure, SmallFigure} {
		if !strings.Contains(string(page), fmt.Sprintf("| `%s` |", name)) {
			t.Errorf("figure %s is not documented", name)
		}
	}
}

// paths lists the JSON paths of a struct, in order.
func paths(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, prefix+name)
		below, step := f.Type, "."
		if below.Kind() == reflect.Slice {
			below, step = below.Elem(), "[]."
		}
		if below.Kind() == reflect.Struct {
			out = append(out, paths(below, prefix+name+step)...)
		}
	}
	return out
}
