package doctor

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"powercut/harness/machine"
	"powercut/harness/qemu"
	"powercut/images/cache"
	"powercut/images/kbuild"
)

// checkAccelerator says what earlier runs found out about KVM. It is for the first
// run to try; whatever comes of that, guests can be run. noKVM says why there is
// nothing to try.
func checkAccelerator(version string, noKVM error) Check {
	c := Check{Name: "accelerator", State: OK, Detail: "not tried yet: the first run will"}
	if noKVM != nil {
		c.Detail = "TCG, because " + noKVM.Error()
		return c
	}
	where, err := cache.Default()
	if err != nil || version == "" {
		return c
	}
	var answers []string
	known := qemu.Remembered(filepath.Join(where.Root, machine.AcceleratorFile), version)
	for _, kernel := range slices.Sorted(maps.Keys(known)) {
		answers = append(answers, known[kernel].Reason)
	}
	if answers = slices.Compact(answers); len(answers) > 0 {
		c.Detail = strings.Join(answers, "; ")
	}
	return c
}

// checkKVM judges why KVM cannot be used at all; nil means that it can be opened.
func checkKVM(why error) Check {
	c := Check{Name: "/dev/kvm", State: OK, Detail: "can be opened"}
	if why == nil {
		return c
	}
	c.State, c.Detail, c.For = Optional, why.Error(), "speed, since guests run under TCG without it"
	if _, err := os.Stat("/dev/kvm"); err == nil {
		c.Fix = "adduser $USER kvm, and log in again"
	} else {
		c.Fix = "switch virtualization on in the firmware, or in the machine that this one runs in"
	}
	return c
}

// tool is a program that powercut's main job does without.
type tool struct{ name, pkg, purpose string }

func tools() []tool {
	const bench, tests = "powercut bench", "the tests of the drive"
	all := []tool{
		{"nbdkit", "nbdkit", bench},
		{"qemu-img", "qemu-utils", "drives on image files, " + bench + ", " + tests},
		{"qemu-io", "qemu-utils", tests},
		{"nbdinfo", "libnbd-bin", tests},
		{"nbdcopy", "libnbd-bin", tests},
	}
	for _, t := range kbuild.Tools() {
		all = append(all, tool{t.Name, t.Package, "building kernel modules (guest.module)"})
	}
	return all
}

func checkTool(t tool) Check {
	path, err := exec.LookPath(t.name)
	if err != nil {
		return Check{Name: t.name, State: Optional, Detail: "not found", For: t.purpose, Fix: "apt-get install " + t.pkg}
	}
	return Check{Name: t.name, State: OK, Detail: path}
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
