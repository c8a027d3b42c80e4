package disk

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"powercut/harness/blocklog"
)

// ask lets a fault decide on requests, and returns the numbers, from 1, of those
// that it hits. A request is written "w3": a write of one sector at sector 3; so
// are "r3", "t3" and, of four sectors, "W3"; "f" is a flush, "f0" one of a disk of four
// sectors from sector 0 on; "u3" a write with FUA.
func ask(f Fault, seed uint64, requests ...string) (hit []int) {
	rules := newRules([]Fault{f}, seed)
	for i, text := range requests {
		r := asked{since: time.Duration(i) * time.Millisecond}
		switch text[0] {
		case 'f':
			r.on = OnFlush
		case 'r':
			r.on = OnRead
		case 't':
			r.on = OnTrim
		default:
			r.on, r.payload, r.durable = OnWrite, true, text[0] == 'u'
		}
		if len(text) > 1 {
			fmt.Sscan(text[1:], &r.offset)
			r.offset, r.length = r.offset*SectorSize, SectorSize
		}
		if text[0] == 'W' || r.on == OnFlush {
			r.length *= 4
		}
		if decide(rules, r) != (decision{}) {
			hit = append(hit, i+1)
		}
	}
	return hit
}

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    Fault
		requests string
		hit      []int
	}{
		{"flushes alone", Fault{Kind: FlushIgnored}, "w0 f w1 f r0", []int{2, 4}},
		{"the second", Fault{Kind: FlushIgnored, Select: Select{Nth: 2}}, "w0 f w1 f f", []int{4}},
		{"from the second", Fault{Kind: FlushIgnored, Select: Select{From: 2}}, "f f w0 f", []int{2, 4}},
		{"once", Fault{Kind: FlushIgnored, Select: Select{Once: true}}, "w0 f f", []int{2}},
		{"once, from the second", Fault{Kind: FlushIgnored, Select: Select{From: 2, Once: true}}, "f f f", []int{2}},
		{"later", Fault{Kind: FlushIgnored, Select: Select{After: 2 * time.Millisecond}}, "f f f f", []int{3, 4}},
		{"the second of the later ones", Fault{Kind: FlushIgnored, Select: Select{After: 2 * time.Millisecond, Nth: 2}}, "f f f f", []int{4}},
		{"FUA alone", Fault{Kind: FUAIgnored}, "w0 u0 f u1", []int{2, 4}},
		{"stall of any", Fault{Kind: Stalling, On: OnAny, Delay: 1}, "w0 f r0 t0", []int{1, 2, 3, 4}},
		{"slow reads", Fault{Kind: Slow, On: OnRead, Delay: 1}, "w0 f r0 t0", []int{3}},
		{"trims", Fault{Kind: Slow, On: OnTrim, Delay: 1}, "w0 f r0 t0", []int{4}},
		{"a range", Fault{Kind: TornWrite, On: OnWrite, Select: Select{Offset: 3 * SectorSize, Length: SectorSize}}, "w2 w3 w4 W0 W1 r3", []int{2, 4, 5}},
		{"a range within a sector", Fault{Kind: BitRot, Select: Select{Offset: 3*SectorSize + 7, Length: 1}}, "w2 w3 w4", []int{2}},
		{"the second in a range", Fault{Kind: BitRot, Select: Select{Offset: 0, Length: SectorSize, Nth: 2}}, "w0 w1 w0 w0", []int{3}},
		{"a failure is repeated", Fault{Kind: Failing, On: OnWrite, Select: Select{Nth: 2, Tries: 3}}, "w0 w1 w1 f r1 w1 w1", []int{2, 3, 6}},
		{"a repetition in pieces", Fault{Kind: Failing, On: OnWrite, Select: Select{Nth: 1, Tries: 3}}, "W0 w0 w4 w3 w0", []int{1, 2, 4}},
		{"a repetition is not counted", Fault{Kind: Failing, On: OnWrite, Select: Select{From: 2, Once: true, Tries: 2}}, "w0 w1 w1 w1", []int{2, 3}},
		{"as often as a driver tries", Fault{Kind: Failing, On: OnFlush, Select: Select{Nth: 1}}, "f f f f f f f f", []int{1, 2, 3, 4, 5, 6}},
		{"of one disk", Fault{Kind: FlushIgnored, Select: Select{Offset: 4 * SectorSize, Length: 1}}, "f f0 f4 f0 f4", []int{3, 5}},
		{"of one disk, the second", Fault{Kind: FlushIgnored, Select: Select{Length: 1, Nth: 2}}, "f0 f4 f0 f0", []int{3}},
		{"a repetition is of the same disk", Fault{Kind: Failing, On: OnFlush, Select: Select{Nth: 1, Tries: 3}}, "f0 f4 f0 f4 f0 f0", []int{1, 3, 5}},
		{"certain chance", Fault{Kind: FlushIgnored, Select: Select{Chance: 1}}, "f f f", []int{1, 2, 3}},
		{"a cache is no rule", Fault{Kind: BoundedCache, Size: 1 << 20}, "w0 f", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ask(c.fault, 1, strings.Fields(c.requests)...); !slices.Equal(got, c.hit) {
				t.Errorf("hit %v, want %v", got, c.hit)
			}
		})
	}
}

// TestChance: a probability is met, follows from the seed, and differs between
// seeds.
func TestChance(t *testing.T) {
	f := Fault{Kind: FlushIgnored, Select: Select{Chance: 0.1}}
	requests := slices.Repeat([]string{"f"}, 10_000)
	a := ask(f, 1, requests...)
	if n := len(a); n < 800 || n > 1200 { // 1000 ± 6.7 standard deviations
		t.Errorf("hit %d of 10000", n)
	}
	if !slices.Equal(a, ask(f, 1, requests...)) {
		t.Error("one seed gives two answers")
	}
	if slices.Equal(a, ask(f, 2, requests...)) {
		t.Error("two seeds give one answer")
	}
}

// TestOrder: of faults that say the same kind of thing the first one counts, delays
// add up, and what fails suffers nothing else.
func TestOrder(t *testing.T) {
	flush := asked{on: OnFlush}
	write := asked{on: OnWrite, payload: true, length: 8 * SectorSize}
	ignored, late := Fault{Kind: FlushIgnored}, Fault{Kind: FlushLate, Delay: time.Second}
	torn, rot := Fault{Kind: TornWrite, On: OnWrite}, Fault{Kind: BitRot}
	slow := Fault{Kind: Slow, On: OnAny, Delay: time.Second}
	failing := Fault{Kind: Failing, On: OnAny}
	for _, c := range []struct {
		name   string
		faults []Fault
		asked  asked
		holds  func(d decision) bool
	}{
		{"ignored first", []Fault{ignored, late}, flush, func(d decision) bool { return d.noEffect && d.late == 0 }},
		{"late first", []Fault{late, ignored}, flush, func(d decision) bool { return d.noEffect && d.late == time.Second }},
		{"torn first", []Fault{torn, rot}, write, func(d decision) bool { return d.damage.Kind == blocklog.Torn }},
		{"rot first", []Fault{rot, torn}, write, func(d decision) bool { return d.damage.Kind == blocklog.Rot }},
		{"twice slow", []Fault{slow, slow}, write, func(d decision) bool { return d.slow == 2*time.Second }},
		{"failing", []Fault{torn, failing, slow}, write, func(d decision) bool {
			return d.errno == syscall.EIO && d.damage == blocklog.Spoil{} && d.slow == time.Second
		}},
		{"failing flush", []Fault{late, failing}, flush, func(d decision) bool {
			return d.errno == syscall.EIO && !d.noEffect && d.late == 0
		}},
	} {
		if d := decide(newRules(c.faults, 1), c.asked); !c.holds(d) {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// TestDamage: a tear takes sectors in a row, of several never all; rot flips a bit
// of each sector that it may.
func TestDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := asked{on: OnWrite, payload: true, offset: SectorSize * rapid.Int64Range(0, 50).Draw(t, "sector"), length: SectorSize * rapid.Int64Range(1, 40).Draw(t, "sectors")}
		seed := rapid.Uint64().Draw(t, "seed")
		d := decide(newRules([]Fault{{Kind: TornWrite, On: OnWrite}}, seed), r).damage
		if d.Kind != blocklog.Torn || d.From < 0 || d.To <= d.From || d.To > r.length || d.From%SectorSize != 0 || d.To%SectorSize != 0 {
			t.Fatalf("a write of %d bytes is torn at %+v", r.length, d)
		}
		if r.length > SectorSize && d.To-d.From == r.length {
			t.Fatalf("all of a write of %d bytes is torn off", r.length)
		}
		s := Select{Offset: rapid.Int64Range(0, 100*SectorSize).Draw(t, "offset"), Length: rapid.Int64Range(1, 20*SectorSize).Draw(t, "length")}
		d = decide(newRules([]Fault{{Kind: BitRot, Select: s}}, seed), r).damage
		if !r.overlaps(s.Offset, s.Length) {
			if d != (blocklog.Spoil{}) {
				t.Fatalf("rot outside of its range: %+v", d)
			}
			return
		}
		clean, spoilt := make([]byte, r.length), make([]byte, r.length)
		d.Flip(spoilt)
		for at := int64(0); at < r.length; at += SectorSize {
			place := r.offset + at
			within := place < s.Offset+s.Length && s.Offset < place+SectorSize
			if within == slices.Equal(clean[at:at+SectorSize], spoilt[at:at+SectorSize]) {
				t.Fatalf("sector at %d of a write at %d, range %d+%d: rotten %v", at, r.offset, s.Offset, s.Length, !within)
			}
		}
		d.Flip(spoilt)
		if !slices.Equal(clean, spoilt) {
			t.Fatal("to flip twice is not to flip")
		}
	})
}
