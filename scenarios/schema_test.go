package scenarios

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"powercut/guest/workload"
)

// TestSchema: each field has a name and a meaning, and limits that can be read.
func TestSchema(t *testing.T) {
	walk(reflect.TypeFor[Scenario](), "", func(path string, f reflect.StructField) {
		if fieldName(f) == "" || f.Tag.Get("doc") == "" {
			t.Errorf("%s lacks a name or a meaning", path)
		}
		for _, key := range []string{"min", "max"} {
			word := f.Tag.Get(key)
			if word != "" && limit(f.Type, word) == 0 && strings.Trim(word, "0s") != "" {
				t.Errorf("%s: cannot read %s %q", path, key, word)
			}
		}
		if low, high := limit(f.Type, f.Tag.Get("min")), limit(f.Type, f.Tag.Get("max")); high < low {
			t.Errorf("%s: min %d is above max %d", path, low, high)
		}
		if f.Type == reflect.TypeFor[Bounds]() && f.Tag.Get("unit") == "" {
			t.Errorf("%s: the bounds have no unit", path)
		}
	})
}

// TestReference: the reference has a row for each field, with its default.
func TestReference(t *testing.T) {
	reference := Reference()
	walk(reflect.TypeFor[Scenario](), "", func(path string, f reflect.StructField) {
		if !strings.Contains(reference, "| `"+path+"` |") {
			t.Errorf("no row for %s", path)
		}
	})
	for _, row := range []string{
		"| `workload.count` | number | `200` | 1 to 1000000 | ops |",
		"| `filesystem.type` | word | *required* | ext2, ext3, ext4, xfs, btrfs, f2fs, jfs, nilfs2 | what mkfs makes |",
		"| `workload.calls` | list of words | `[O_SYNC, O_DSYNC, fsync, fdatasync]` | " + strings.Join(words(workload.Calls...), ", ") + "; 1 to 32 entries |",
		"| `expect.p50` | bounds on time |  |  | median latency |",
		"\n| sectors-per-track | 900 | assumed",
	} {
		if !strings.Contains(reference, row) {
			t.Errorf("the reference lacks %q:\n%s", row, reference)
		}
	}
	columns := 0
	for line := range strings.Lines(reference) {
		n := strings.Count(line, "|") - strings.Count(line, `\|`)
		if columns != 0 && n != 0 && n != columns {
			t.Errorf("row of %d columns in a table of %d: %s", n-1, columns-1, line)
		}
		columns = n
	}
}

func TestForm(t *testing.T) {
	for want, typ := range map[string]reflect.Type{
		"a duration such as 1.5s": reflect.TypeFor[time.Duration](),
		"on or off":               reflect.TypeFor[bool](),
		"a whole number":          reflect.TypeFor[int](),
		"a list, each a text":     reflect.TypeFor[[]string](),
		"a mapping of memory, write-cache, hdparm-w, nomerges, scheduler, module": reflect.TypeFor[Guest](),
	} {
		if got := form(typ, ""); got != want {
			t.Errorf("form of %v is %q, want %q", typ, got, want)
		}
	}
}
