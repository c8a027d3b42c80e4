package scenarios

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLibrary: each embedded scenario is sound, bears its file's name, and reads
// back equal from what Marshal writes.
func TestLibrary(t *testing.T) {
	infos := List()
	if len(infos) == 0 {
		t.Fatal("the library is empty")
	}
	seen := map[string]bool{}
	for _, family := range Families() {
		seen[family] = true
	}
	for _, info := range infos {
		t.Run(info.Name, func(t *testing.T) {
			if seen[info.Name] {
				t.Errorf("two scenarios or families are called %s", info.Name)
			}
			seen[info.Name] = true
			all, err := Find(info.Name)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != max(info.Cells, 1) {
				t.Errorf("%s/%s.yaml is listed with %d cells, and has %d scenarios", info.Family, info.Name, info.Cells, len(all))
			}
			for _, s := range all {
				if s.Name != info.Name && s.Matrix.Of != info.Name || s.About != info.About {
					t.Errorf("%s/%s.yaml is listed as %+v, and says %q, %q", info.Family, info.Name, info, s.Name, s.About)
				}
				checkRoundTrip(t, s)
			}
		})
	}
}

// TestLibraryHolds names what must never leave the library.
func TestLibraryHolds(t *testing.T) {
	want := map[string][]string{
		"bus":         {"buses"},
		"files":       {"qcow2-kill", "raw-kill"},
		"caches":      {"cache-modes", "guest-hdparm", "guest-write-through"},
		"barriers":    {"barrier-off", "barrier-off-write-through", "barrier-on", "ext4-overwrite"},
		"drive":       {"cache-unadvertised", "flush-ignored"},
		"errors":      {"flush-error", "journal-error", "write-error"},
		"faults":      {"bit-rot", "cache-bounded", "cache-destages", "flush-ignored-once", "flush-late", "torn-write"},
		"seeds":       {"000-cached", "000-fsync", "ext2-overwrite", "ext3-append", "ext3-overwrite"},
		"filesystems": {"btrfs-overwrite", "xfs-overwrite"},
		"calls":       {"journalled-data", "lazy-times"},
		"nojournal":   {"whole-syncs"},
		"options":     {"external-journal", "lying-drive", "others-data", "replay-disabled", "tree-drives"},
	}
	for family, names := range want {
		all, err := Family(family)
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if !slices.ContainsFunc(all, func(s Scenario) bool { return s.Name == name || s.Matrix.Of == name }) {
				t.Errorf("family %s has no %s", family, name)
			}
		}
	}
}

func TestFind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(base), 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string][]string{
		file:                      {"x"},
		"ext3-overwrite":          {"ext3-overwrite"},
		"seeds/ext3-overwrite":    {"ext3-overwrite"},
		"seeds/000-cached-append": {"000-cached-append"},
		"drive":                   {"cache-unadvertised", "flush-ignored"},
	} {
		all, err := Find(arg, Override{Path: "workload.bytes", Value: "2"})
		if err != nil {
			t.Errorf("Find(%q): %v", arg, err)
		}
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
			if s.Workload.Bytes != 2 {
				t.Errorf("Find(%q): the override did not reach %s", arg, s.Name)
			}
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("Find(%q):\n%s", arg, diff)
		}
	}
}

func TestFindErrors(t *testing.T) {
	var missing *NotFoundError
	for arg, near := range map[string]string{"ext3-overwrit": "ext3-overwrite", "barier": "", "barrier": "barrier-off", "zzz": "", "": ""} {
		_, err := Find(arg)
		if !errors.As(err, &missing) {
			t.Errorf("Find(%q) gave %v, not a *NotFoundError", arg, err)
			continue
		}
		if near != "" && !slices.Contains(missing.Near, near) {
			t.Errorf("Find(%q) proposes %v, and not %s", arg, missing.Near, near)
		}
		if !strings.Contains(err.Error(), "families: "+strings.Join(Families(), ", ")) {
			t.Errorf("Find(%q) does not list the families: %v", arg, err)
		}
	}
	for _, arg := range []string{"drive", "flush-ignored"} {
		var e *Error
		if _, err := Find(arg, Override{Path: "drive.bus", Value: "scsi"}); !errors.As(err, &e) {
			t.Errorf("Find(%q) with a wrong override gave %v", arg, err)
		}
	}
	for _, arg := range []string{"./none.yaml", "none.yaml", "drive/ext3-overwrite", "seeds/", t.TempDir()} {
		if _, err := Find(arg); err == nil || errors.As(err, &missing) {
			t.Errorf("Find(%q) gave %v", arg, err)
		}
	}
	for _, arg := range []string{"drive/ext3-overwrite", "drive/none/"} {
		if _, err := Find(arg); err == nil || !strings.Contains(err.Error(), "; the family drive has "+strings.Join(namesOf("drive"), ", ")) {
			t.Errorf("Find(%q) does not list the family: %v", arg, err)
		}
	}
	big := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(big, []byte(strings.Repeat("#", maxSource+2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFile(big); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a file too large gave %v", err)
	}
}

// TestFewerCalls: overriding the calls drops what the document expects of others,
// and only that.
func TestFewerCalls(t *testing.T) {
	calls := Override{Path: "workload.calls", Value: "[fsync, O_DSYNC]"}
	s, err := Load("ext3-overwrite", calls)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.Expect.Conditions(s.Workload.Calls) {
		if c.Measure != "lost" && c.Measure != "foreign" {
			got = append(got, c.String())
		}
	}
	for _, r := range s.Expect.Ratios {
		got = append(got, r.String())
	}
	want := []string{"fsync: journal-writes >= 2", "O_DSYNC: p50 7.5ms..9.166ms", "fsync / O_DSYNC >= 2.5"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("conditions (-want +got):\n%s", d)
	}
	if got := len(s.Figures.Mean); got != 2 {
		t.Errorf("%d figures are left, want those of the two calls", got)
	}
	whole := Override{Path: "workload", Value: "{kind: append, count: 200, calls: [fsync]}"}
	if s, err := Load("ext3-overwrite", whole); err != nil || len(s.Figures.Mean) != 1 || len(s.Expect.Ratios) != 0 {
		t.Errorf("with another workload: %+v, %v", s, err)
	}
	if _, err := Load("ext3-overwrite", calls, Override{Path: "expect.lost.O_SYNC", Value: "some"}); err == nil {
		t.Error("an override may speak of a call that is not made")
	}
}
