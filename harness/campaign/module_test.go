package campaign

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"powercut/harness/machine"
	"powercut/images"
	"powercut/images/kbuild"
)

// withTools skips where modules cannot be built. The first run on a machine builds
// ext4 and jbd2, which takes two minutes; they stay in the user's cache.
func withTools(t *testing.T) *Lab {
	t.Helper()
	l := newLab(t)
	if err := kbuild.CheckTools(); err != nil {
		t.Skip(err)
	}
	return l
}

// moduleFile is the file of a module of ours.
func moduleFile(t *testing.T, variant string) string {
	t.Helper()
	k, err := images.Fetch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if k, err = k.WithVariant(t.Context(), variant, func(string) {}); err != nil {
		t.Fatal(err)
	}
	return k.Replaced[0].Path
}

// An ext4 whose fdatasync commits nothing loses appends, and O_DSYNC in the same
// kernel does not; the kernel's own ext4 loses none.
func TestFdatasyncThatSkipsMetadata(t *testing.T) {
	l := withTools(t)
	for module, lost := range map[string]string{"": "0", "ext4-fdatasync-skips-all": "{every: 0, fdatasync: some}"} {
		set := []string{
			"drive.write-cache=on", "drive.timing=none", "workload.count=20", "cut={op: 18}", "workload.calls=[O_DSYNC, fdatasync]",
			"expect.lost=" + lost, "expect.journal-writes={}",
		}
		if module != "" {
			set = append(set, "guest.module="+module)
		}
		doc := runScenario(t, l, load(t, "ext3-append", set...), 1)
		// The size is a part of what is lost.
		for _, e := range doc.Expectations {
			if !e.Held && !strings.Contains(e.Text, "size") {
				t.Errorf("module %q:\n%s", module, table(t, doc))
			}
		}
		if c := doc.Calls[1]; module != "" && !strings.Contains(table(t, doc), "no metadata written") {
			t.Errorf("the reason is another: %+v", c.Findings)
		}
	}
}

// Two modules at once, one of ours and one that the user gives: fsync and fdatasync
// commit, O_SYNC and O_DSYNC do not, and nothing is lost.
func TestModules(t *testing.T) {
	l := withTools(t)
	l.ModuleFiles = []string{moduleFile(t, "jbd2-async-writes")}
	s := load(t, "ext3-overwrite", "guest.module=ext4-2.4-fsync", "drive.timing=none", "workload.count=20", "cut={op: 18}",
		`expect={journal-writes: {O_SYNC: 0, O_DSYNC: 0, fsync: ">= 2", fdatasync: ">= 2"}}`)
	doc := runScenario(t, l, s, 1)
	if !doc.Held {
		t.Errorf("expectations were not met:\n%s", table(t, doc))
	}
	var told []string
	for _, m := range doc.Machine.Modules {
		told = append(told, m.Name+" "+m.Variant)
	}
	if want := []string{"ext4 ext4-2.4-fsync", "jbd2 "}; !slices.Equal(told, want) {
		t.Errorf("the report names the modules %q, want %q", told, want)
	}
	// A guest that has loaded another module than it should is not taken.
	for _, m := range l.machines {
		spec := m.Spec
		spec.Kernel.Replaced = slices.Clone(spec.Kernel.Replaced)
		spec.Kernel.Replaced[1].BuildID = "00"
		if _, err := machine.Prepare(t.Context(), spec, func(string) {}); err == nil || !strings.Contains(err.Error(), "it was to load jbd2") {
			t.Errorf("the wrong jbd2 was taken: %v", err)
		}
	}
	// Two modules of one name contradict.
	l.ModuleFiles = []string{moduleFile(t, "ext4-fdatasync-commits")}
	var misfit *images.MisfitError
	if _, err := l.Run(t.Context(), s, 1); !errors.As(err, &misfit) || misfit.Reason != "another ext4 is given already" {
		t.Errorf("two modules of one name: %v", err)
	}
}

// TestFsyncRange: fsync_range is what the module says: FFILESYNC commits the journal, but for
// an op within the clock tick of the one before, which leaves the inode as it was; FDATASYNC
// of an overwrite does not; and neither loses anything.
func TestFsyncRange(t *testing.T) {
	l := withTools(t)
	s := load(t, "barrier-on", "guest.module=fsync_range", "workload.count=20", "cut={op: 18}",
		"workload.calls=[fsync_range-FFILESYNC, fsync_range-FDATASYNC]",
		`expect={journal-writes: {fsync_range-FFILESYNC: ">= 1", fsync_range-FDATASYNC: 0}, flushes: ">= 1"}`)
	if doc := runScenario(t, l, s, 1); !doc.Held {
		t.Errorf("expectations were not met:\n%s", table(t, doc))
	}
}

// A module of another file system than the scenario's is not taken for a pass.
func TestUnusedModule(t *testing.T) {
	l := newLab(t)
	k, err := images.Fetch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]string{"fs/ext4/ext4.ko": "filesystem={type: xfs, size: 300MiB}", "fs/xfs/xfs.ko": "kernel=debian:6.1"} {
		l.ModuleFiles = []string{filepath.Join(k.Modules, "kernel", name)}
		var unused *images.UnusedError
		if _, err := l.Run(t.Context(), load(t, "barrier-on", set), 1); !errors.As(err, &unused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
