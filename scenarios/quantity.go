package scenarios

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes. It is written as a plain number or with a unit: k,
// K and KiB are 1024 bytes, likewise M, MiB, G and GiB; kB, MB and GB are powers
// of 1000. The unit follows the number, with or without one space.
type Size int64

// Rate is a number of bytes per second, written as a Size followed by "/s".
type Rate int64

// unit is a suffix and what it stands for.
type unit struct {
	suffix string
	bytes  int64
}

// binaryUnits are the units that Size prints, greatest first.
var binaryUnits = [...]unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// decimalUnits are the units that Rate prints, greatest first.
var decimalUnits = [...]unit{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}}

// shortUnits are further spellings of binaryUnits, and the byte.
var shortUnits = [...]unit{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"k", 1 << 10}, {"B", 1}, {"", 1}}

var errSize = errors.New("is not a size; write a number of bytes, or a number and k, KiB, MiB, GiB (1024s) or kB, MB, GB (1000s)")

// ParseSize reads a Size.
func ParseSize(text string) (Size, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(text)
	}
	number, suffix := text[:end], strings.TrimPrefix(text[end:], " ")
	for _, list := range [][]unit{binaryUnits[:], decimalUnits[:], shortUnits[:]} {
		for _, u := range list {
			if u.suffix == suffix {
				n, err := multiple(number, u.bytes)
				return Size(n), err
			}
		}
	}
	return 0, errSize
}

// multiple returns number times factor, which must be a whole number.
func multiple(number string, factor int64) (int64, error) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > math.MaxInt64/factor {
			return 0, errors.New("is too large")
		}
		return n * factor, nil
	}
	if !decimal(number) {
		return 0, errSize
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f*float64(factor) >= 1<<53 {
		return 0, errors.New("is too large")
	}
	f *= float64(factor)
	if f != math.Trunc(f) {
		return 0, errors.New("is not a whole number of bytes")
	}
	return int64(f), nil
}

// decimal reports whether text is digits, or digits, a point and digits.
func decimal(text string) bool {
	whole, part, point := strings.Cut(text, ".")
	return digits(whole) && (!point || digits(part))
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// String prints the size so that ParseSize reads it back: in the greatest unit
// that divides it, where that is shorter than the plain number.
func (s Size) String() string {
	plain := strconv.FormatInt(int64(s), 10)
	if text := inUnit(int64(s), binaryUnits[:]); text != "" && len(text) < len(plain) {
		return text
	}
	return plain
}

// String prints the rate so that ParseRate reads it back.
func (r Rate) String() string {
	if text := inUnit(int64(r), decimalUnits[:]); text != "" {
		return text + "/s"
	}
	return strconv.FormatInt(int64(r), 10) + "B/s"
}

func inUnit(n int64, units []unit) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return ""
}

// ParseRate reads a Rate.
func ParseRate(text string) (Rate, error) {
	size, ok := strings.CutSuffix(text, "/s")
	if !ok {
		return 0, errors.New("is not a rate; write a size per second, such as 66MB/s")
	}
	n, err := ParseSize(size)
	return Rate(n), err
}

// parseDuration reads a duration as package time does, and demands a unit.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration; write a number and ns, us, ms, s, m or h, such as 1.5s")
	}
	return d, nil
}

// formatDuration prints a duration so that parseDuration reads it back, without
// the zero units with which time.Duration ends ("2m0s").
func formatDuration(d time.Duration) string {
	text := strings.Replace(d.String(), "µ", "u", 1)
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Range is a range of ops, both ends included, written "150-200". The zero Range
// is none.
type Range struct {
	First, Last int
}

// ParseRange reads a Range.
func ParseRange(text string) (Range, error) {
	first, last, ok := strings.Cut(text, "-")
	if !ok {
		last = first
	}
	a, errA := strconv.Atoi(strings.TrimSpace(first))
	b, errB := strconv.Atoi(strings.TrimSpace(last))
	if errA != nil || errB != nil {
		return Range{}, errors.New("is not a range of ops; write first-last, such as 150-200")
	}
	if a < 1 || b < a {
		return Range{}, errors.New("is not a range of ops; the first must be at least 1, and no greater than the last")
	}
	return Range{First: a, Last: b}, nil
}

// String prints the range so that ParseRange reads it back.
func (r Range) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }
