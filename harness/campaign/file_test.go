package campaign

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"powercut/harness/qemu"
	"powercut/harness/report"
	"powercut/scenarios"
)

// newImage makes a qcow2 image with data in it.
func newImage(t *testing.T) qemu.Image {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("no image can be made: install the Debian package qemu-utils: ", err)
	}
	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	if err := os.WriteFile(raw, []byte(strings.Repeat("data", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	image := qemu.Image{Path: filepath.Join(dir, "image"), Format: "qcow2"}
	if err := qemuImg("convert", "-f", "raw", "-O", "qcow2", raw, image.Path).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return image
}

// TestCheckImage: damage to an image's tables is found, and one that is no image
// any more is a finding; neither is a failure of the harness.
func TestCheckImage(t *testing.T) {
	const cluster = 64 << 10 // qemu-img's default: header, refcount table, refcounts, L1 ...
	for _, c := range []struct {
		name   string
		at     int64 // of the damage; -1: none
		damage string
		holds  func(*report.Image) bool
	}{
		{"sound", -1, "", func(i *report.Image) bool { return *i == report.Image{} }},
		{"references that count nothing", 2 * cluster, strings.Repeat("\x00", 256), func(i *report.Image) bool { return i.Errors > 0 }},
		{"a cluster counted twice", 2 * cluster, "\x00\x02", func(i *report.Image) bool { return i.Errors == 0 && i.Leaks == 1 }},
		{"no header", 0, "not qcow2", func(i *report.Image) bool { return i.Failed != "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := newImage(t)
			if c.at >= 0 {
				f, err := os.OpenFile(image.Path, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteAt([]byte(c.damage), c.at); err != nil {
					t.Fatal(err)
				}
			}
			got, err := checkImage(t.Context(), image)
			if err != nil {
				t.Fatal(err)
			}
			if !c.holds(got) {
				t.Errorf("found %+v", *got)
			}
		})
	}
	if got, err := checkImage(t.Context(), qemu.Image{Format: "raw", Path: "none"}); got != nil || err != nil {
		t.Errorf("a raw image has no tables: %v, %v", got, err)
	}
	if got, err := checkImage(t.Context(), qemu.Image{Format: "qcow2", Path: "none"}); err == nil {
		t.Errorf("an image that is not there: %+v", *got)
	}
}

// TestImageExpectations: an image that is damaged, or could not be checked, is not
// as expected.
func TestImageExpectations(t *testing.T) {
	s, err := scenarios.Load("qcow2-kill-unsafe-barrier-1", scenarios.Override{Path: "workload.calls", Value: "[fsync]"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		image *report.Image
		holds bool
	}{{&report.Image{Leaks: 3}, true}, {&report.Image{Errors: 1}, false}, {&report.Image{Failed: "gone"}, false}, {nil, false}} {
		for _, cond := range s.Expect.Conditions(s.Workload.Calls) {
			if cond.Measure != "image-errors" {
				continue
			}
			if e := judgeCondition(cond, &report.Call{Image: c.image}); e.Held != c.holds {
				t.Errorf("%+v: %+v", c.image, e)
			}
		}
	}
}

// TestFileCuts: without a block log each kind of cut that is allowed falls where it
// says, or soon after; and each way of input and output works.
func TestFileCuts(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		set   []string
		holds func(report.Cut) bool
	}{
		{[]string{"cut={op: 20}", "drive.aio=native"}, func(c report.Cut) bool { return c.Op >= 20 }},
		{[]string{"cut={ack: 20}", "drive.bus=virtio-blk"}, func(c report.Cut) bool { return c.Acked >= 20 }},
		{[]string{"cut={after: 40ms}", "drive.bus=nvme"}, func(c report.Cut) bool { return strings.Contains(c.Reason, "40ms") }},
	} {
		doc := runScenario(t, l, load(t, "qcow2-kill-none-barrier-1", append(c.set, "workload.calls=[fsync]")...), 3)
		if cut := doc.Calls[0].Cut; !c.holds(cut) || !doc.Held || doc.Calls[0].Bill.Ops != 0 || cut.Position != 0 {
			t.Errorf("%v: cut at %+v:\n%s", c.set, cut, table(t, doc))
		}
	}
}
