// Package doctor looks at the host: is everything there that powercut needs, and
// if not, which command brings it? It changes nothing, asks no network, and starts
// no guest.
package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"slices"
	"strings"

	"powercut/harness/qemu"
	"powercut/images"
	"powercut/images/cache"
)

// RunsRoom is the free space wanted in the folder for runs, in bytes. A run takes
// a few MiB.
const RunsRoom = 256 << 20

// State is the outcome of a check.
type State string

// The states.
const (
	OK       State = "ok"
	Missing  State = "missing"  // powercut cannot do its main job without it
	Optional State = "optional" // not there, and not needed but for what For says
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"`        // what was found: a version, a path, a size, or what is wrong
	For    string `json:"for,omitempty"` // what an optional thing is for
	Fix    string `json:"fix,omitempty"` // a command or step that helps; none if ok
}

// Schema names the shape of a Document.
const Schema = "powercut/doctor/1"

// Document is what was found.
type Document struct {
	Schema string  `json:"schema"`
	Ready  bool    `json:"ready"` // nothing is missing
	Checks []Check `json:"checks"`
}

// Options say what to look at.
type Options struct {
	Binary string // this program
	QEMU   string // empty: from PATH
	Runs   string // folder for runs
}

// Examine looks at the host.
func Examine(ctx context.Context, o Options) *Document {
	d := &Document{Schema: Schema}
	version, err := qemu.Version(ctx, o.QEMU)
	d.add(checkQEMU(o.QEMU, version, err))
	noKVM := qemu.CheckKVM()
	d.add(checkAccelerator(version, noKVM), checkKVM(noKVM))
	d.require(images.CheckBinary(o.Binary))
	kernels := images.CheckKernels()
	d.tools(images.CheckTools(ctx), slices.ContainsFunc(kernels, isDefault))
	for _, k := range kernels {
		d.add(convertKernel(k))
	}
	d.require(images.CheckCache()...)
	d.add(checkContent())
	d.require(images.CheckFolder("runs", o.Runs, RunsRoom, "give another folder: powercut run --runs DIR")...)
	for _, t := range tools() {
		d.add(checkTool(t))
	}
	d.Ready = !slices.ContainsFunc(d.Checks, func(c Check) bool { return c.State == Missing })
	return d
}

func (d *Document) add(checks ...Check) { d.Checks = append(d.Checks, checks...) }

// require adds checks of what powercut cannot do without.
func (d *Document) require(checks ...images.Check) {
	for _, c := range checks {
		d.add(convert(c, Missing, ""))
	}
}

// convert gives a check that failed the state bad.
func convert(c images.Check, bad State, purpose string) Check {
	if c.OK {
		return Check{Name: c.Name, State: OK, Detail: c.Detail}
	}
	return Check{Name: c.Name, State: bad, Detail: c.Detail, For: purpose, Fix: c.Fix}
}

// tools adds the checks of package images. What downloads kernels is needed until
// the default one is in the cache.
func (d *Document) tools(checks []images.Check, haveKernel bool) {
	for _, c := range checks {
		if c.For != "" {
			d.add(convert(c, Optional, c.For))
		} else if haveKernel && !strings.HasPrefix(c.Name, "mkfs.") {
			d.add(convert(c, Optional, "fetching more kernels, and e2fsck for guests with ext2"))
		} else {
			d.require(c)
		}
	}
}

// convertKernel makes nothing of a kernel that is not there yet.
func convertKernel(c images.Check) Check {
	if !c.OK {
		c.Detail, c.Fix = c.Detail+": "+c.Fix, ""
	}
	return convert(c, Optional, "")
}

// isDefault tells whether a check found the kernel that scenarios use by default.
func isDefault(c images.Check) bool {
	return c.OK && strings.HasSuffix(c.Name, " "+images.DefaultKernel)
}

func checkQEMU(binary, version string, err error) Check {
	if binary == "" {
		binary = qemu.DefaultBinary
	}
	if err != nil {
		c := Check{Name: "QEMU", State: Missing, Detail: err.Error(), Fix: "apt-get install qemu-system-x86"}
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			c.Detail = binary + " not found"
		}
		return c
	}
	if path, err := exec.LookPath(binary); err == nil {
		binary = path
	}
	return Check{Name: "QEMU", State: OK, Detail: version + ", " + binary}
}

// checkContent says how much the cache holds.
func checkContent() Check {
	const name = "cache content"
	c, err := cache.Default()
	if err != nil {
		return Check{Name: name, State: Missing, Detail: err.Error()}
	}
	size, err := cache.DiskUsage(c.Root)
	if err != nil {
		return Check{Name: name, State: Missing, Detail: err.Error(), Fix: "rm -r " + c.Root}
	}
	return Check{Name: name, State: OK, Detail: mebibytes(size) + "; it may be removed at any time"}
}
