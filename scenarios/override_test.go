package scenarios

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/guest/workload"
)

// overridden parses base and doc with overrides.
func overridden(t *testing.T, doc string, overrides ...string) (Scenario, error) {
	t.Helper()
	var list []Override
	for _, text := range overrides {
		o, err := ParseOverride(text)
		if err != nil {
			t.Fatal(err)
		}
		if o.String() != text {
			t.Errorf("override %q prints %q", text, o)
		}
		list = append(list, o)
	}
	return Parse("case.yaml", []byte(base+doc), list...)
}

// TestOverride: an override means what the same words in the file mean.
func TestOverride(t *testing.T) {
	tests := []struct {
		name, doc string
		overrides []string
		edit      []string // replacements in base, in pairs
		add       string   // the document that says the same
	}{
		{name: "field that is there", overrides: []string{"about=z = z"}, edit: []string{"about: y", "about: z = z"}},
		{name: "field that is not there", overrides: []string{"workload.count=100"}, edit: []string{"overwrite", "overwrite, count: 100"}},
		{name: "mapping that is not there", overrides: []string{"guest.memory=1GiB"}, add: "guest: {memory: 1GiB}"},
		{name: "mapping without a value", doc: "guest:\n", overrides: []string{"guest.memory=1GiB"}, add: "guest: {memory: 1GiB}"},
		{name: "text that looks like a number", overrides: []string{"about=6.1"}, edit: []string{"about: y", "about: '6.1'"}},
		{name: "list", overrides: []string{"workload.calls=[fsync, none]"}, edit: []string{"overwrite", "overwrite, calls: [fsync, none]"}},
		{name: "list with a number", overrides: []string{"filesystem.mkfs=[-b, 4096]"}, edit: []string{"ext4", "ext4, mkfs: [-b, '4096']"}},
		{name: "mapping", overrides: []string{"drive={write-cache: off}"}, add: "drive: {write-cache: off}"},
		{name: "nothing", doc: "source: z\n", overrides: []string{"source="}, add: ""},
		{name: "comparison", overrides: []string{"expect.lost=>= 1"}, add: "expect: {lost: '>= 1'}"},
		{name: "ratio", overrides: []string{"expect.ratios=['fsync / O_SYNC > 2']"}, add: "expect: {ratios: ['fsync / O_SYNC > 2']}"},
		{name: "another cut", overrides: []string{"cut.random=1-3"}, edit: []string{"op: 1", "random: 1-3"}},
		{name: "the last of two cuts", overrides: []string{"cut.random=1-3", "cut.ack=4"}, edit: []string{"op: 1", "ack: 4"}},
		{name: "field of a profile", doc: "drive: {timing: ide-7200}\n", overrides: []string{"drive.timing.rpm=5400"}, add: "drive: {timing: {profile: ide-7200, rpm: 5400}}"},
		{name: "field of a solid-state profile", doc: "drive: {timing: ssd-consumer}\n", overrides: []string{"drive.timing.fua=1ms"}, add: "drive: {timing: {profile: ssd-consumer, fua: 1ms}}"},
		{name: "one call of a bound", doc: "expect: {lost: some}\n", overrides: []string{"expect.lost.fsync=0"}, add: "expect: {lost: {every: some, fsync: 0}}"},
		{name: "one call of a default", overrides: []string{"expect.lost.fsync=some"}, add: "expect: {lost: {fsync: some}}"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := overridden(t, test.doc, test.overrides...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Parse("case.yaml", []byte(strings.NewReplacer(append(test.edit, "\x00", "")...).Replace(base)+test.add))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOverrideErrors(t *testing.T) {
	calls := strings.Join(words(workload.Calls...), ", ")
	for _, test := range []struct{ override, want string }{
		{"workload.count=0", "--set workload.count=0: workload.count: 0 is out of range; allowed: 1 to 1000000"},
		{"workload.count=", `--set workload.count=: workload.count: "" is not a whole number`},
		{"workload.cuont=5", `--set workload.cuont=5: unknown field "cuont" in workload (did you mean count?); allowed: kind, ops, file, size, count, bytes, stride, chunk, allocate, threads, gap, sync, observers, load, calls`},
		{"a.b.c=5", `--set a.b.c=5: unknown field "a"; allowed: name, about, source, kernel, guest, filesystem, drive, workload, cut, at-cut, timeout, figures, expect, matrix`},
		{"a..b=5", `--set a..b=5: unknown field "a"; allowed: name, about, source, kernel, guest, filesystem, drive, workload, cut, at-cut, timeout, figures, expect, matrix`},
		{"about.x=5", "--set about.x=5: about is a text, which has no fields; set it as a whole"},
		{"workload.calls.0=fsync", "--set workload.calls.0=fsync: workload.calls is a mapping, and must be a list, each one of " + calls},
		{"expect.ratios.0=fsync", "--set expect.ratios.0=fsync: expect.ratios is a list, which has no fields; set it as a whole"},
		{"drive.bus=scsi", `--set drive.bus=scsi: drive.bus: "scsi" is not known (did you mean scsi-hd?); allowed: ide, ahci, scsi-hd, virtio-blk, nvme`},
		{"drive.timing.rpm=5400", "--set drive.timing.rpm=5400: the field drive.timing.profile is missing; it is one of none, ide-7200, ide-5400, laptop-5400, ssd-sata, ssd-consumer, nvme"},
		{"cut.op=201", "--set cut.op=201: cut.op: op 201 is beyond the workload; allowed: up to its count, 200"},
		{"cut.opp=1", `--set cut.opp=1: unknown field "opp" in cut (did you mean op?); allowed: op, ack, position, after, random`},
		{"workload.calls=[fsync", "--set workload.calls=[fsync: cannot be read as YAML: sequence end token ']' not found"},
		{"workload.calls=fsync", `--set workload.calls=fsync: workload.calls is "fsync", and must be a list, each one of ` + calls},
	} {
		_, err := overridden(t, "expect:\n  p50:\n    fsync: < 5ms\n  ratios: []\n", test.override)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("--set %s gave %v, not an *Error", test.override, err)
		} else if e.Error() != test.want {
			t.Errorf("--set %s gave\n%s\nwant\n%s", test.override, e, test.want)
		}
	}
	for _, text := range []string{"", "count", "=5"} {
		if o, err := ParseOverride(text); err == nil {
			t.Errorf("ParseOverride(%q) = %v, want an error", text, o)
		}
	}
}

// With Alone a call that needs a module is refused where the scenario does not name it; a
// scenario that has run with a module of the user's is read without.
func TestAlone(t *testing.T) {
	calls := Override{Path: "workload.calls", Value: "[fsync, fsync_range-FFILESYNC]"}
	for name, test := range map[string]struct {
		set  []Override
		fine bool
	}{
		"a module may be given":  {[]Override{calls}, true},
		"none":                   {[]Override{calls, Alone}, false},
		"the scenario's":         {[]Override{calls, Alone, {Path: "guest.module", Value: "fsync_range"}}, true},
		"another":                {[]Override{calls, Alone, {Path: "guest.module", Value: "ext4-2.4-fsync"}}, false},
		"a kernel of one's own":  {[]Override{calls, Alone, {Path: "kernel", Value: "./vmlinux"}}, true},
		"no call that needs one": {[]Override{Alone}, true},
	} {
		if _, err := Find("barrier-on", test.set...); (err == nil) != test.fine {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, family := range Families() {
		if _, err := Family(family, Alone); err != nil {
			t.Error(err)
		}
	}
}
