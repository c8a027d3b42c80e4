package scenarios

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/disk"
)

// drawFault draws a fault that ParseFault takes, of a drive of so many bytes.
func drawFault(t *rapid.T, size int64) Fault {
	form := rapid.SampledFrom(faultForms()).Draw(t, "kind")
	f := Fault{Kind: form.kind}
	delay := func(label string) time.Duration {
		return time.Duration(rapid.Int64Range(int64(minDelay), int64(maxDelay)).Draw(t, label))
	}
	if form.delay {
		f.Delay = delay("delay")
	}
	if form.size {
		f.Size = rapid.Int64Range(minCache, 1<<40).Draw(t, "cache")
	}
	if form.targets != nil {
		f.On = rapid.SampledFrom(form.targets).Draw(t, "target")
	}
	for _, option := range form.options {
		if !rapid.Bool().Draw(t, option) {
			continue
		}
		s := &f.Select
		switch option {
		case optNth:
			s.Nth = rapid.IntRange(1, maxNth).Draw(t, "nth")
		case optFrom:
			if s.Nth == 0 {
				s.From = rapid.IntRange(1, maxNth).Draw(t, "from")
			}
		case optRange:
			s.Offset = rapid.Int64Range(0, size-1).Draw(t, "offset")
			s.Length = rapid.Int64Range(1, size-s.Offset).Draw(t, "length")
		case optAfter:
			s.After = delay("after")
		case optChance:
			s.Chance = rapid.Float64Range(1e-9, 1).Draw(t, "p")
		case optTries:
			s.Tries = rapid.IntRange(1, maxTries).Draw(t, "tries")
		case optOnce:
			s.Once = s.Nth == 0
		default:
			t.Fatalf("option %s is not drawn", option)
		}
	}
	return f
}

// drawFaults draws a list of faults that go together on the drive of s.
func drawFaults(t *rapid.T, s Scenario) []Fault {
	var list []Fault
	for range rapid.IntRange(0, 4).Draw(t, "faults") {
		list = append(list, drawFault(t, s.Filesystem.DriveSize()))
	}
	cached := s.Drive.WriteCache || hasFault(list, disk.CacheUnadvertised)
	var out []Fault
	for _, f := range list {
		habit := f.Kind == disk.BoundedCache || f.Kind == disk.Destaging
		switch f.Kind {
		case disk.BoundedCache, disk.Destaging, disk.FlushLate, disk.Stalling:
			if s.Filesystem.ExternalJournal > 0 {
				continue
			}
		}
		if f.ofOneDisk() && s.Filesystem.ExternalJournal == 0 {
			continue
		}
		if !slices.Contains(out, f) && (!habit || cached && !hasFault(out, f.Kind)) {
			out = append(out, f)
		}
	}
	return out
}

// TestFaultRoundTrip: a fault reads back equal from what it prints, whatever the
// order of its words, and prints nothing else then.
func TestFaultRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFault(t, 1<<40)
		words := strings.Fields(f.String())
		mixed := append(words[:1:1], rapid.Permutation(words[1:]).Draw(t, "order")...)
		for _, text := range []string{f.String(), strings.Join(mixed, "  ")} {
			got, err := ParseFault(text)
			if err != nil || got != f {
				t.Fatalf("%q reads as %+v, %v; want %+v", text, got, err, f)
			}
		}
	})
}

func TestFaultSpellings(t *testing.T) {
	for text, want := range map[string]Fault{
		"flush-ignored":                   {Kind: disk.FlushIgnored},
		"fua-ignored":                     {Kind: disk.FUAIgnored},
		"cache-unadvertised":              {Kind: disk.CacheUnadvertised},
		"flush-ignored nth=3":             {Kind: disk.FlushIgnored, Select: disk.Select{Nth: 3}},
		"flush-late 50ms":                 {Kind: disk.FlushLate, Delay: 50 * time.Millisecond},
		"eio write nth=10":                {Kind: disk.Failing, On: disk.OnWrite, Select: disk.Select{Nth: 10}},
		"eio flush from=5 tries=1":        {Kind: disk.Failing, On: disk.OnFlush, Select: disk.Select{From: 5, Tries: 1}},
		"eio read range=1MiB+4KiB once":   {Kind: disk.Failing, On: disk.OnRead, Select: disk.Select{Offset: 1 << 20, Length: 4096, Once: true}},
		"stall 2s write nth=7":            {Kind: disk.Stalling, Delay: 2 * time.Second, On: disk.OnWrite, Select: disk.Select{Nth: 7}},
		"slow 10ms read p=0.1 after=1.5s": {Kind: disk.Slow, Delay: 10 * time.Millisecond, On: disk.OnRead, Select: disk.Select{Chance: 0.1, After: 1500 * time.Millisecond}},
		"torn write nth=9":                {Kind: disk.TornWrite, On: disk.OnWrite, Select: disk.Select{Nth: 9}},
		"bit-rot range=4MiB+512":          {Kind: disk.BitRot, Select: disk.Select{Offset: 4 << 20, Length: 512}},
		"cache 2MiB":                      {Kind: disk.BoundedCache, Size: 2 << 20},
		"destage 30ms":                    {Kind: disk.Destaging, Delay: 30 * time.Millisecond},
	} {
		got, err := ParseFault(text)
		if err != nil || got != want {
			t.Errorf("%q reads as %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestFaultForms: each kind says how it is written, and every option has a value's
// name or needs none.
func TestFaultForms(t *testing.T) {
	for _, f := range faultForms() {
		if f.meaning == "" || !strings.HasPrefix(f.String(), string(f.kind)) {
			t.Errorf("kind %s: %q, %q", f.kind, f, f.meaning)
		}
		for _, o := range f.options {
			if optionValues()[o] == "" && o != optOnce {
				t.Errorf("option %s of %s has no value", o, f.kind)
			}
		}
	}
}

// FuzzParseFault: no text makes ParseFault panic, and what it takes prints so that
// it reads back equal.
func FuzzParseFault(f *testing.F) {
	for _, text := range []string{"eio write nth=10", "slow 10ms any p=0.5 once", "cache 2MiB", "bit-rot range=1+1", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseFault(text)
		if err != nil {
			var at *faultError
			if errors.As(err, &at) && (at.at < 0 || at.at >= len(text)) {
				t.Fatalf("the error of %q is at byte %d", text, at.at)
			}
			return
		}
		if again, err := ParseFault(got.String()); err != nil || again != got {
			t.Fatalf("%q prints %q, which reads as %+v, %v", text, got, again, err)
		}
	})
}
