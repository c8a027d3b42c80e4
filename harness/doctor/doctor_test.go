package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/harness/internal/program"
	"powercut/harness/machine"
	"powercut/harness/qemu"
	"powercut/images"
	"powercut/images/cache"
)

// binary is a static powercut.
var binary string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &binary)) }

func find(t *testing.T, d *Document, name string) Check {
	t.Helper()
	i := slices.IndexFunc(d.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q in %+v", name, d.Checks)
	}
	return d.Checks[i]
}

// TestExamineHere looks at the machine that runs the tests: the answers must agree
// with what it really has.
func TestExamineHere(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "not", "yet")
	d := Examine(t.Context(), Options{Binary: binary, Runs: runs})
	for _, c := range d.Checks {
		if c.Name == "" || c.Detail == "" || (c.State == OK) != (c.Fix == "") && !strings.HasPrefix(c.Name, "kernel ") {
			t.Errorf("check %+v", c)
		}
	}
	for name, command := range map[string]string{"QEMU": qemu.DefaultBinary, "apt-get": "apt-get", "nbdkit": "nbdkit", "qemu-io": "qemu-io"} {
		_, err := exec.LookPath(command)
		if c := find(t, d, name); (c.State == OK) != (err == nil) {
			t.Errorf("%s is %s, but looking for it gives %v", name, c.State, err)
		}
	}
	for _, name := range []string{"static binary", "cache folder", "runs folder", "accelerator"} {
		if c := find(t, d, name); c.State != OK {
			t.Errorf("check %+v", c)
		}
	}
	if _, err := os.Stat(filepath.Dir(runs)); err == nil {
		t.Error("looking at the runs folder made it")
	}
	missing := slices.ContainsFunc(d.Checks, func(c Check) bool { return c.State == Missing })
	if d.Ready == missing {
		t.Errorf("ready is %v: %+v", d.Ready, d.Checks)
	}
}

// On a machine that has nothing, everything that is needed is missing, and said
// to be so with a way out.
func TestExamineBareMachine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(cache.Variable, t.TempDir())
	script := filepath.Join(t.TempDir(), "powercut")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	inTheWay := filepath.Join(script, "runs")
	d := Examine(t.Context(), Options{Binary: script, Runs: inTheWay})
	for name, fix := range map[string]string{
		"QEMU": "apt-get install qemu-system-x86", "apt-get": "--kernel", "dpkg-deb": "apt-get install dpkg",
		"static binary": "CGO_ENABLED=0", "runs folder": "--runs",
	} {
		if c := find(t, d, name); c.State != Missing || !strings.Contains(c.Fix, fix) {
			t.Errorf("check %+v, want it missing, and helped by %q", c, fix)
		}
	}
	if c := find(t, d, "nbdkit"); c.State != Optional || c.For != "powercut bench" || c.Fix != "apt-get install nbdkit" {
		t.Errorf("check %+v", c)
	}
	if c := find(t, d, "make"); c.State != Optional || !strings.Contains(c.For, "guest.module") || c.Fix != "apt-get install make" {
		t.Errorf("check %+v", c)
	}
	if c := checkAccelerator("7.2", nil); c.Detail != "not tried yet: the first run will" {
		t.Errorf("check %+v", c)
	}
	if c := checkAccelerator("7.2", errors.New("it is Monday")); c.Detail != "TCG, because it is Monday" || c.State != OK {
		t.Errorf("check %+v", c)
	}
	if d.Ready {
		t.Error("it is called ready")
	}
}

// What a run has found out about KVM is told; what was found by another QEMU is
// not.
func TestAcceleratorRemembered(t *testing.T) {
	if err := qemu.CheckKVM(); err != nil {
		t.Skipf("without KVM nothing is tried or remembered: %v", err)
	}
	version, err := qemu.Version(t.Context(), "")
	if err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	t.Setenv(cache.Variable, root)
	dir := t.TempDir()
	for _, name := range []string{"kernel", "initramfs"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("not bootable"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := qemu.Probe(t.Context(), qemu.Probing{
		Config: qemu.Config{Dir: dir, Kernel: "kernel", Initramfs: "initramfs"},
		Memo:   filepath.Join(root, machine.AcceleratorFile), KernelID: "of this test",
		Ready: func(context.Context, *qemu.VM) error { return errors.New("never") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := checkAccelerator(version, nil); c.Detail != found.Reason {
		t.Errorf("told %q, found %q", c.Detail, found.Reason)
	}
	if c := checkAccelerator("0.1", nil); !strings.HasPrefix(c.Detail, "not tried yet") {
		t.Errorf("of another QEMU: %q", c.Detail)
	}
}

func TestDownloadsAreNeededUntilTheKernelIsThere(t *testing.T) {
	checks := []images.Check{{Name: "mkfs.ext4"}, {Name: "apt-get"}}
	for _, tt := range []struct {
		haveKernel bool
		want       []State
	}{{false, []State{Missing, Missing}}, {true, []State{Missing, Optional}}} {
		var d Document
		d.tools(checks, tt.haveKernel)
		var got []State
		for _, c := range d.Checks {
			got = append(got, c.State)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("kernel there %v (-want +got):\n%s", tt.haveKernel, diff)
		}
	}
}

// sick is a machine on which things of each kind are wrong.
func sick() *Document {
	return &Document{Schema: Schema, Checks: []Check{
		{Name: "QEMU", State: Missing, Detail: "not found", Fix: "apt-get install qemu-system-x86"},
		{Name: "mkfs.ext3", State: Missing, Detail: "not found", Fix: "apt-get install e2fsprogs"},
		{Name: "mkfs.ext4", State: Missing, Detail: "not found", Fix: "apt-get install e2fsprogs"},
		{Name: "cache room", State: Missing, Detail: "3 MiB free", Fix: "export POWERCUT_CACHE=FOLDER on another disk"},
		{Name: "kernel debian:6.1", State: Optional, Detail: "not in the cache"},
		{Name: "nbdkit", State: Optional, Detail: "not found", For: "powercut bench", Fix: "apt-get install nbdkit"},
		{Name: "runs folder", State: OK, Detail: "runs"},
	}}
}

func TestTable(t *testing.T) {
	const want = `missing   QEMU               not found
                             → apt-get install qemu-system-x86
missing   mkfs.ext3          not found
                             → apt-get install e2fsprogs
missing   mkfs.ext4          not found
                             → apt-get install e2fsprogs
missing   cache room         3 MiB free
                             → export POWERCUT_CACHE=FOLDER on another disk
optional  kernel debian:6.1  not in the cache
optional  nbdkit             not found; for: powercut bench
                             → apt-get install nbdkit
ok        runs folder        runs

NOT READY: 4 of 7 checks failed
→ apt-get install e2fsprogs qemu-system-x86
`
	var b strings.Builder
	if err := Table(&b, sick()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := Table(&b, &Document{Ready: true}); err != nil || !strings.Contains(b.String(), "everything that powercut needs is here") {
		t.Errorf("of a healthy machine: %q, %v", b.String(), err)
	}
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	if err := JSON(&b, sick()); err != nil {
		t.Fatal(err)
	}
	var back Document
	dec := json.NewDecoder(strings.NewReader(b.String()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sick(), &back); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}
