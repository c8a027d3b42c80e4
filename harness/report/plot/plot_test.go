package plot

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/verdict"
)

// wellFormed reads a figure's file as XML.
func wellFormed(f Figure) error {
	d := xml.NewDecoder(strings.NewReader(f.File()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
}

// number takes the first group of a pattern out of a body, as a number.
func number(t *testing.T, body, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no %s in %s", pattern, body)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestBoundPlace: the line of one revolution stands where a latency of that length
// does, and what lies outside of the axis is not drawn.
func TestBoundPlace(t *testing.T) {
	turn := Bound{time.Minute / 7200, "1 revolution"}
	f := Latency("a", "fsync", []int64{1e6, 100e6}, []Bound{turn, {time.Hour, "an hour"}}, Range{1e6, 100e6})
	want := latencyLeft + (latencyWidth-latencyLeft-latencyRight)*math.Log10(8.3333)/2
	if got := number(t, f.Body, `class="bound" x1="([0-9.]+)"`); math.Abs(got-want) > 0.02 {
		t.Errorf("the line stands at %v, want %v", got, want)
	}
	if strings.Contains(f.Body, "an hour") || !strings.Contains(f.Alt, "1 of the ops took less") {
		t.Errorf("%s\n%s", f.Body, f.Alt)
	}
}

// TestBins: each latency is in one bar, and each bar in its place.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOfN(rapid.Int64Range(0, 1e10), 1, 200).Draw(t, "ns")
		r := RangeOf(nil, ns)
		x := logScale{r.Lo, r.Hi, 40, 376}
		counts, width := bins(x, ns)
		n := 0
		for _, c := range counts {
			n += c
		}
		if n != len(ns) || math.Abs(width*float64(len(counts))-x.w) > 1e-6 {
			t.Fatalf("%d of %d latencies in bars of %v", n, len(ns), width)
		}
		for _, v := range ns {
			if at := x.at(math.Max(float64(v), 1)); at < x.x || at > x.x+x.w {
				t.Fatalf("%d stands at %v", v, at)
			}
		}
		if err := wellFormed(Latency("a", "fsync", ns, nil, r)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLossIsSeen: however many blocks share a cell, a lost or foreign one is to be
// seen; without one nothing is crossed.
func TestLossIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := make([]verdict.Class, rapid.IntRange(1, 30_000).Draw(t, "n"))
		for i := range cells {
			cells[i] = verdict.Kept
		}
		states := []State{{"what the cut left", cells}}
		for range rapid.IntRange(0, 3).Draw(t, "more states") {
			states = append(states, State{"another", cells})
		}
		clear := Survival("a", "fsync", states)
		if strings.Contains(clear.Body, `class="lost"`) || strings.Contains(clear.Body, `class="mark"`) {
			t.Fatal("a loss is drawn where there is none")
		}
		class := rapid.SampledFrom([]verdict.Class{verdict.Lost, verdict.Foreign, verdict.Torn, verdict.Unpromised, verdict.Absent, verdict.Early}).Draw(t, "class")
		cells[rapid.IntRange(0, len(cells)-1).Draw(t, "at")] = class
		f := Survival("a", "fsync", states)
		if !strings.Contains(f.Body, fmt.Sprintf(`class="%s"`, class)) || !strings.Contains(f.Alt, "1 "+string(class)) {
			t.Fatalf("one block of %d is %s, and is not to be seen", len(cells), class)
		}
		if err := wellFormed(f); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCells: each cell is drawn once.
func TestCells(t *testing.T) {
	for _, n := range []int{1, 33, maxCells, maxCells + 1, 20_000} {
		f := Survival("a", "fsync", []State{{"s", make([]verdict.Class, n)}})
		if got, want := strings.Count(f.Body, "h9v9h-9z"), ceil(n, PerCell(n)); got != want || got > maxCells {
			t.Errorf("%d blocks: %d cells, want %d", n, got, want)
		}
	}
}

// TestTimelineLanes: requests that overlap lie in two rows, an open one ends at the
// cut and is marked, an unknown place is none.
func TestTimelineLanes(t *testing.T) {
	line := Timeline{
		From: -100,
		Ops:  []TimedOp{{Number: 7, Class: "lost", From: -90, To: -10, Acked: true}, {Number: 8, From: -5}},
		Requests: []TimedRequest{
			{Class: "data", From: -80, To: -40},
			{Class: "data", From: -60, To: -50},
			{Class: "data", From: -30, To: 0, Open: true},
			{Class: "flush", From: -30, To: -20},
		},
	}
	rows, _ := line.rows()
	if len(rows) != 2 || rows[0].rows != 2 || rows[1].rows != 1 || rows[0].class != "data" || rows[1].class != "flush" {
		t.Fatalf("%+v", rows)
	}
	f := line.Figure("a", "fsync")
	if strings.Count(f.Body, `class="ack"`) != 1 || strings.Count(f.Body, " open\"") != 1 || !strings.Contains(f.Body, ">7</text>") {
		t.Errorf("%s", f.Body)
	}
	if err := wellFormed(f); err != nil {
		t.Error(err)
	}
	if !strings.Contains(f.Alt, "2 ops before the cut, 1 of them acknowledged, and the 4 requests") {
		t.Error(f.Alt)
	}
}

func TestTicks(t *testing.T) {
	for us, want := range map[float64]string{0: "cut", -500: "−500 µs", -1000: "−1 ms", 2.5e6: "+2.5 s", -0.02: "−20 ns"} {
		if got := tickName(us); got != want {
			t.Errorf("%v is %s, want %s", us, got, want)
		}
	}
	for least, want := range map[float64]float64{1: 1, 1.1: 2, 30: 50, 51: 100, 0.3: 0.5} {
		if got := niceStep(least); math.Abs(got-want) > 1e-9 {
			t.Errorf("no less than %v is %v, want %v", least, got, want)
		}
	}
}

// TestBill: bars are as long as what they stand for.
func TestBill(t *testing.T) {
	f := Bill("b", []Cost{
		{Call: "fsync", Data: 1, Journal: 2, Flush: 1, Drive: time.Millisecond, Latency: 4 * time.Millisecond},
		{Call: "<none>", Latency: 2 * time.Millisecond},
	})
	data, journal := number(t, f.Body, `class="data"[^>]* width="([0-9.]+)"`), number(t, f.Body, `class="journal"[^>]* width="([0-9.]+)"`)
	busy, rest := number(t, f.Body, `class="read"[^>]* width="([0-9.]+)"`), number(t, f.Body, `class="wait"[^>]* width="([0-9.]+)"`)
	if math.Abs(journal-2*data) > 0.02 || math.Abs(rest-3*busy) > 0.02 {
		t.Errorf("data %v, journal %v, drive %v, rest %v", data, journal, busy, rest)
	}
	if err := wellFormed(f); err != nil {
		t.Error(err)
	}
}

// A range is drawn from its beginning to its end, on the scale of all bars.
func TestBarOfRange(t *testing.T) {
	f := Bars("b", "b", []BarRow{{Label: "r", Bars: []Bar{{Name: "n", Value: 10}, {Name: "n", From: 5, Value: 10}}}})
	const longest = barsWidth - barsLeft - 80
	for _, want := range []string{
		fmt.Sprintf(`x="%d" y="24" width="%d"`, barsLeft, longest),
		fmt.Sprintf(`x="%d" y="36" width="%d"`, barsLeft+longest/2, longest/2),
	} {
		if !strings.Contains(f.Body, want) {
			t.Errorf("there is no %s in\n%s", want, f.Body)
		}
	}
}
