package scenarios

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "512000": 512000, "512B": 512, "4k": 4096, "4K": 4096, "4KiB": 4096, "4 KiB": 4096, "64k": 65536,
		"1M": 1 << 20, "1MiB": 1 << 20, "1.5MiB": 3 << 19, "2G": 2 << 30, "2GiB": 2 << 30,
		"1kB": 1000, "66MB": 66e6, "1GB": 1e9, "0.5k": 512, "8589934591GiB": 8589934591 << 30,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a size", "k": "is not a size", "-1": "is not a size", "1kb": "is not a size", "1 2": "is not a size",
		"1  k": "is not a size", "1.": "is not a size", ".5k": "is not a size", "1.2.3": "is not a size", "0x10": "is not a size",
		"1_000": "is not a size", "1e3": "is not a size", "1.5": "not a whole number", "0.3k": "not a whole number",
		"8589934592GiB": "too large", "99999999999999999999": "too large", "9999999999.5GiB": "too large",
	} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSize(%q) = %d, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestQuantityText(t *testing.T) {
	for want, got := range map[string]string{
		"512000": Size(512000).String(), "4096": Size(4096).String(), "65536": Size(65536).String(), "0": Size(0).String(),
		"256MiB": Size(256 << 20).String(), "1GiB": Size(1 << 30).String(), "1048577": Size(1<<20 + 1).String(),
		"66MB/s": Rate(66e6).String(), "1kB/s": Rate(1000).String(), "1B/s": Rate(1).String(), "0B/s": Rate(0).String(),
		"2m": formatDuration(2 * time.Minute), "1h": formatDuration(time.Hour), "1h0m1s": formatDuration(time.Hour + time.Second),
		"800us": formatDuration(800 * time.Microsecond), "0s": formatDuration(0), "1m30s": formatDuration(90 * time.Second),
		"10m": formatDuration(10 * time.Minute), "20h": formatDuration(20 * time.Hour), "150-200": Range{150, 200}.String(),
	} {
		if got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
}

func TestParseRange(t *testing.T) {
	if got, err := ParseRange("7"); err != nil || got != (Range{7, 7}) {
		t.Errorf("ParseRange(7) = %v, %v", got, err)
	}
	for _, text := range []string{"", "-", "1-", "-1", "0-3", "3-1", "1-2-3", "a-b"} {
		if got, err := ParseRange(text); err == nil {
			t.Errorf("ParseRange(%q) = %v, want an error", text, got)
		}
	}
}

// TestQuantityRoundTrip: whatever is printed reads back as the same value.
func TestQuantityRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n") &^ (1<<rapid.IntRange(0, 40).Draw(t, "zeros") - 1)
		if got, err := ParseSize(Size(n).String()); err != nil || got != Size(n) {
			t.Errorf("size %d prints %s, which reads as %d, %v", n, Size(n), got, err)
		}
		if got, err := ParseRate(Rate(n).String()); err != nil || got != Rate(n) {
			t.Errorf("rate %d prints %s, which reads as %d, %v", n, Rate(n), got, err)
		}
		d := time.Duration(n)
		if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
			t.Errorf("duration %d prints %s, which reads as %d, %v", n, formatDuration(d), got, err)
		}
		first := rapid.IntRange(1, 1e6).Draw(t, "first")
		r := Range{First: first, Last: rapid.IntRange(first, 1e6).Draw(t, "last")}
		if got, err := ParseRange(r.String()); err != nil || got != r {
			t.Errorf("range %v reads back as %v, %v", r, got, err)
		}
	})
}
