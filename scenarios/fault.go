package scenarios

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"powercut/harness/disk"
)

// Fault is something wrong with a drive, on purpose, or a habit of its cache. It is
// written as its kind, what the kind needs, and which requests it hits:
//
//	flush-ignored
//	flush-late 50ms from=5
//	eio write nth=10
//	eio read range=1MiB+4KiB once
//	slow 10ms read p=0.1
//	torn write nth=9
//	cache 2MiB
//
// package disk says what each does.
type Fault disk.Fault

// faultForm says how a kind of fault is written.
type faultForm struct {
	kind    disk.FaultKind
	delay   bool          // a duration follows
	size    bool          // a size follows
	targets []disk.Target // one of these follows
	options []string      // what it may select requests by
	meaning string
}

// The options of a fault.
const (
	optNth    = "nth"
	optFrom   = "from"
	optRange  = "range"
	optAfter  = "after"
	optChance = "p"
	optTries  = "tries"
	optOnce   = "once"
)

// faultForms lists every kind of fault.
func faultForms() []faultForm {
	every := []disk.Target{disk.OnRead, disk.OnWrite, disk.OnFlush, disk.OnTrim, disk.OnAny}
	placed := []string{optNth, optFrom, optRange, optAfter, optChance, optOnce}
	return []faultForm{
		{kind: disk.FlushIgnored, options: placed, meaning: "a flush is answered and does nothing"},
		{kind: disk.FlushLate, delay: true, options: []string{optNth, optFrom, optAfter, optChance, optOnce}, meaning: "a flush is answered at once, and takes effect that much later"},
		{kind: disk.FUAIgnored, options: placed, meaning: "a FUA write, or with the write cache off any, is cached like any other"},
		{kind: disk.CacheUnadvertised, meaning: "the drive has a cache and does not say so"},
		{kind: disk.Failing, targets: every, options: append(placed[:len(placed):len(placed)], optTries), meaning: "the request is not carried out, and is answered with EIO"},
		{kind: disk.Stalling, delay: true, targets: every, options: placed, meaning: "from the request on nothing is answered for that long"},
		{kind: disk.Slow, delay: true, targets: every, options: placed, meaning: "the request is answered that much later"},
		{kind: disk.TornWrite, targets: []disk.Target{disk.OnWrite}, options: placed, meaning: "only a part of the write's sectors reaches the drive, which answers it all the same"},
		{kind: disk.BitRot, options: placed, meaning: "the write is stored with one bit flipped in each sector, those of the range where there is one"},
		{kind: disk.BoundedCache, size: true, meaning: "no fault: the cache holds that much, and writes back its oldest to take more"},
		{kind: disk.Destaging, delay: true, meaning: "no fault: what has been in the cache for that long is written back"},
	}
}

// Limits of what a fault says.
const (
	minDelay = time.Microsecond
	maxDelay = 10 * time.Minute
	minCache = disk.SectorSize
	maxNth   = 1_000_000_000
	maxTries = 1000
)

// faultError is what is wrong with a fault's text, and at which byte of it.
type faultError struct {
	at  int
	err error
}

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// Offset is where in the text the error is, in bytes.
func (e *faultError) Offset() int { return e.at }

// ParseFault reads a Fault.
func ParseFault(text string) (Fault, error) {
	words := split(text)
	if len(words) == 0 {
		return Fault{}, fmt.Errorf("is empty; %s", faultWords())
	}
	forms := faultForms()
	i := slices.IndexFunc(forms, func(f faultForm) bool { return string(f.kind) == words[0].text })
	if i < 0 {
		return Fault{}, &faultError{words[0].at, errors.New(unknown(words[0].text, faultKinds()))}
	}
	p := faultParser{form: forms[i], fault: Fault{Kind: forms[i].kind}, given: map[string]bool{}}
	for _, w := range words[1:] {
		if err := p.word(w.text); err != nil {
			return Fault{}, &faultError{w.at, fmt.Errorf("%q %w", w.text, err)}
		}
	}
	if err := p.whole(); err != nil {
		return Fault{}, &faultError{words[0].at, fmt.Errorf("%q %w", text, err)}
	}
	return p.fault, nil
}

// textSpan is a word of a text and where it begins, in bytes.
type textSpan struct {
	text string
	at   int
}

// split finds the words of a text.
func split(text string) []textSpan {
	var words []textSpan
	for at := 0; at < len(text); {
		n := strings.IndexByte(text[at:], ' ')
		if n < 0 {
			n = len(text) - at
		}
		if n > 0 {
			words = append(words, textSpan{text[at : at+n], at})
		}
		at += n + 1
	}
	return words
}

// faultParser reads a fault word by word.
type faultParser struct {
	form  faultForm
	fault Fault
	given map[string]bool
}

// word reads any word but the first.
func (p *faultParser) word(text string) error {
	key, value, option := strings.Cut(text, "=")
	number := text[0] >= '0' && text[0] <= '9'
	target := slices.Contains(p.form.targets, disk.Target(text))
	var err error
	switch {
	case number && p.form.delay:
		key = "the duration"
		p.fault.Delay, err = parseDelay(text)
	case number && p.form.size:
		key = "the size"
		p.fault.Size, err = parseCache(text)
	case target:
		key = "the kind of request"
		p.fault.On = disk.Target(text)
	case slices.Contains(p.form.options, key) && option != (key == optOnce):
		err = p.option(key, value)
	default:
		return fmt.Errorf("is not known there%s; allowed: %s", didYouMean(key, p.form.words()), p.form)
	}
	if p.given[key] {
		return fmt.Errorf("gives %s a second time", key)
	}
	p.given[key] = true
	return err
}

// option reads the value of one.
func (p *faultParser) option(key, value string) (err error) {
	s := &p.fault.Select
	switch key {
	case optNth:
		s.Nth, err = parseCount(value, maxNth)
	case optFrom:
		s.From, err = parseCount(value, maxNth)
	case optTries:
		s.Tries, err = parseCount(value, maxTries)
	case optRange:
		s.Offset, s.Length, err = parseExtent(value)
	case optAfter:
		s.After, err = parseDelay(value)
	case optChance:
		s.Chance, err = parseChance(value)
	case optOnce:
		s.Once = true
	}
	return err
}

// whole demands what the kind needs, and that the options agree.
func (p *faultParser) whole() error {
	s := p.fault.Select
	switch {
	case p.form.delay && p.fault.Delay == 0:
		return fmt.Errorf("lacks a duration, such as 50ms; it is written %s", p.form)
	case p.form.size && p.fault.Size == 0:
		return fmt.Errorf("lacks a size, such as 2MiB; it is written %s", p.form)
	case p.form.targets != nil && p.fault.On == "":
		return fmt.Errorf("does not say of which requests; it is written %s", p.form)
	case s.Nth > 0 && s.From > 0:
		return errors.New("has both nth and from; allowed: one of them")
	case s.Nth > 0 && s.Once:
		return errors.New("has both nth and once, and nth is a single request; leave once out")
	}
	return nil
}

func parseDelay(text string) (time.Duration, error) {
	d, err := parseDuration(text)
	if err == nil && (d < minDelay || d > maxDelay) {
		err = fmt.Errorf("is out of range; allowed: %s to %s", formatDuration(minDelay), formatDuration(maxDelay))
	}
	return d, err
}

func parseCache(text string) (int64, error) {
	n, err := ParseSize(text)
	if err == nil && n < minCache {
		err = fmt.Errorf("is less than a sector; allowed: from %d", minCache)
	}
	return int64(n), err
}

func parseCount(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if !digits(text) || err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("is not a count; allowed: 1 to %d", most)
	}
	return n, nil
}

func parseExtent(text string) (offset, length int64, err error) {
	first, last, ok := strings.Cut(text, "+")
	from, err1 := ParseSize(first)
	n, err2 := ParseSize(last)
	if !ok || err1 != nil || err2 != nil || n < 1 || from > math.MaxInt64-n {
		return 0, 0, errors.New("is not a range of the drive; write an offset and a length, such as 1MiB+4KiB")
	}
	return int64(from), int64(n), nil
}

func parseChance(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if !decimal(text) || err != nil || x <= 0 || x > 1 {
		return 0, errors.New("is not a probability; write a number above 0 and up to 1, such as 0.1")
	}
	return x, nil
}

// String prints the fault so that ParseFault reads it back.
func (f Fault) String() string {
	words := []string{string(f.Kind)}
	if f.Delay != 0 {
		words = append(words, formatDuration(f.Delay))
	}
	if f.Size != 0 {
		words = append(words, Size(f.Size).String())
	}
	if f.On != "" {
		words = append(words, string(f.On))
	}
	option := func(given bool, key string, value any) {
		if given {
			words = append(words, fmt.Sprintf("%s=%v", key, value))
		}
	}
	s := f.Select
	option(s.Nth > 0, optNth, s.Nth)
	option(s.From > 0, optFrom, s.From)
	option(s.Length > 0, optRange, Size(s.Offset).String()+"+"+Size(s.Length).String())
	option(s.After > 0, optAfter, formatDuration(s.After))
	option(s.Chance > 0, optChance, strconv.FormatFloat(s.Chance, 'f', -1, 64))
	option(s.Tries > 0, optTries, s.Tries)
	if s.Once {
		words = append(words, optOnce)
	}
	return strings.Join(words, " ")
}

// String shows how the kind is written, in order: "eio read|write|flush [nth=N] …".
func (f faultForm) String() string {
	parts := []string{string(f.kind)}
	if f.delay {
		parts = append(parts, "DURATION")
	}
	if f.size {
		parts = append(parts, "SIZE")
	}
	if f.targets != nil {
		parts = append(parts, strings.Join(words(f.targets...), "|"))
	}
	for _, o := range f.options {
		if value, ok := optionValues()[o]; ok {
			o += "=" + value
		}
		parts = append(parts, "["+o+"]")
	}
	return strings.Join(parts, " ")
}

func optionValues() map[string]string {
	return map[string]string{
		optNth: "N", optFrom: "N", optRange: "OFFSET+LENGTH", optAfter: "DURATION", optChance: "PROBABILITY", optTries: "N",
	}
}

// words are the options and targets of the kind.
func (f faultForm) words() []string { return append(words(f.targets...), f.options...) }

// faultKinds lists the kinds.
func faultKinds() []string {
	var names []string
	for _, f := range faultForms() {
		names = append(names, string(f.kind))
	}
	return names
}

// faultWords says how a fault begins.
func faultWords() string { return "a fault begins with one of " + strings.Join(faultKinds(), ", ") }

// ofOneDisk tells whether the fault is about the flushes of one disk of several.
func (f Fault) ofOneDisk() bool {
	return f.Select.Length > 0 && (f.Kind == disk.FlushIgnored || f.On == disk.OnFlush)
}

// hasFault says whether a list of faults has one of that kind.
func hasFault(list []Fault, kind disk.FaultKind) bool {
	return slices.ContainsFunc(list, func(f Fault) bool { return f.Kind == kind })
}

// checkFaults demands that the faults agree with the drive and with each other.
func (s Scenario) checkFaults(d *decoder) error {
	cached := s.Drive.WriteCache || hasFault(s.Drive.Faults, disk.CacheUnadvertised)
	for i, f := range s.Drive.Faults {
		at := d.at(fmt.Sprintf("drive.faults.%d", i))
		first := slices.IndexFunc(s.Drive.Faults, func(g Fault) bool { return g.Kind == f.Kind })
		habit := f.Kind == disk.BoundedCache || f.Kind == disk.Destaging
		switch {
		case habit && first < i:
			return at.errorf("drive.faults: %q contradicts %q; a drive has one cache", f, s.Drive.Faults[first])
		case habit && !cached:
			return at.errorf("drive.faults: %q means nothing where drive.write-cache is off", f)
		case f.Select.Length > s.Filesystem.DriveSize()-f.Select.Offset:
			return at.errorf("drive.faults: %q lies beyond the drive; allowed: up to %s, its size", f, Size(s.Filesystem.DriveSize()))
		case f.ofOneDisk() && s.Filesystem.ExternalJournal == 0:
			return at.errorf("drive.faults: %q has a range, and a flush is for all of a disk; leave range out, unless filesystem.external-journal adds a second disk", f)
		}
	}
	return nil
}
