package scenarios

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"powercut/guest/workload"
	"powercut/images"
)

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	kernelForm = regexp.MustCompile(`^(debian:[a-z0-9][a-z0-9.+~-]*|[^ ]*/[^/ ]+)$`)
	mountForm  = regexp.MustCompile(`^[A-Za-z0-9_.:+=-]+(,[A-Za-z0-9_.:+=-]+)*$`)
	partForm   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
)

const (
	// maxFile is the greatest size of a workload's file.
	maxFile Size = 1 << 30
	// diskUnit is what the size of a file system must be a multiple of: mkfs leaves
	// a part of a block at the end unused, and would make another size than asked.
	diskUnit Size = 4096
)

// check says what a scenario, each field of which is sound, asks for that cannot
// be. The decoder tells where the field stood.
func (s Scenario) check(d *decoder) error {
	for _, check := range []func(*decoder) error{
		s.checkTexts, s.checkModule, s.checkSize, s.checkDrive, s.checkMkfs, s.checkJournal, s.checkOps, s.checkFile, s.checkWorkload, s.checkFaults, s.checkCut, s.checkExpect, s.checkFigures,
	} {
		if err := check(d); err != nil {
			return err
		}
	}
	return nil
}

func (s Scenario) checkTexts(d *decoder) error {
	switch {
	case !nameForm.MatchString(s.Name):
		return d.at("name").errorf("name: %q is not a name; write lower-case letters, digits and single hyphens", s.Name)
	case s.About == "":
		return d.at("about").errorf("about: is empty; say in one line what the scenario is about")
	case !kernelForm.MatchString(s.Kernel):
		return d.at("kernel").errorf("kernel: %q is not a kernel; allowed: debian:VERSION such as debian:6.1, or the path of a bzImage or vmlinux (with a slash)", s.Kernel)
	}
	for _, f := range [][2]string{{"filesystem.mount", s.Filesystem.Mount}, {"filesystem.recovery-mount", s.Filesystem.Recovery}} {
		if path, options := f[0], f[1]; options != "" && !mountForm.MatchString(options) {
			return d.at(path).errorf("%s: %q is not a list of mount options; write them with commas and without blanks, such as data=ordered,barrier=1", path, options)
		}
	}
	return nil
}

func (s Scenario) checkSize(d *decoder) error {
	if n := s.Drive.Sector; n != 512 && n != 4096 {
		return d.at("drive.sector").errorf("drive.sector: %s is no physical sector; allowed: 512, 4KiB", n)
	}
	if s.Filesystem.Size%diskUnit != 0 {
		return d.at("filesystem.size").errorf("filesystem.size: %s is not a multiple of %s", s.Filesystem.Size, diskUnit)
	}
	if least := Size(images.LeastDisk(string(s.Filesystem.Type))); s.Filesystem.Size < least {
		return d.at("filesystem.size").errorf("filesystem.size: %s is too small: %s needs at least %s", s.Filesystem.Size, s.Filesystem.Type, least)
	}
	return nil
}

// checkMkfs keeps a scenario from naming what mkfs is to write to: mkfs runs on
// the host, and takes its target from the command line.
func (s Scenario) checkMkfs(d *decoder) error {
	option := false
	for i, word := range s.Filesystem.Mkfs {
		at := d.at(fmt.Sprintf("filesystem.mkfs.%d", i))
		isOption := len(word) > 1 && word[0] == '-'
		switch {
		case word == "" || strings.ContainsAny(word, "/ "):
			return at.errorf("filesystem.mkfs: %q is not an option of mkfs; paths and blanks are not allowed", word)
		case !isOption && !option:
			return at.errorf("filesystem.mkfs: %q follows no option; write each option before its value, such as [-b, \"4096\"]", word)
		}
		option = isOption
	}
	return nil
}

// checkFile keeps the file below the mount point.
func (s Scenario) checkFile(d *decoder) error {
	for part := range strings.SplitSeq(s.Workload.File, "/") {
		if !partForm.MatchString(part) {
			return d.at("workload.file").errorf("workload.file: %q is not a path below the mount point; write names of letters, digits, _ . and -, with a slash between them", s.Workload.File)
		}
	}
	return nil
}

// full is the greatest size that the file has.
func (w Workload) full() Size {
	if w.Kind == workload.Append {
		return Size(w.Count-1)*w.Stride + w.Bytes
	}
	return w.Size
}

func (s Scenario) checkWorkload(d *decoder) error {
	if s.Workload.Kind == OpsKind {
		return nil
	}
	if err := s.checkRoom(d); err != nil {
		return err
	}
	if at, given := d.values["workload.sync"]; given && s.Workload.Sync.Length == 0 {
		return at.errorf("workload.sync: has no length; write one of at least 1, such as {offset: 0, length: 64KiB}, or leave sync out for what each op wrote")
	}
	for _, call := range s.Workload.Calls {
		if err := s.plan(call, 0).Validate(); err != nil {
			return planError(d, err)
		}
	}
	return nil
}

// checkRoom keeps the file, at its greatest, within the format's limit and within
// half of the file system, which needs room for a journal and for itself.
func (s Scenario) checkRoom(d *decoder) error {
	w := s.Workload
	field, limit := "size", min(maxFile, s.Filesystem.Size/2)
	if w.Kind == workload.Append {
		field = "count"
	}
	if err := w.Load.Plan().Validate(); err != nil {
		name, message, _ := strings.Cut(err.Error(), ": ")
		return d.at("workload.load."+name).errorf("workload.load.%s: %s", name, message)
	}
	if room := limit - w.Load.Size; w.full() > room && w.Load.Size > 0 {
		return d.at("workload.load").errorf("workload.load: its files take %s, and the workload's %s; allowed: up to %s for both, which is half of the file system, and no more than %s",
			w.Load.Size, w.full(), limit, maxFile)
	}
	if w.full() > limit {
		return d.at("workload."+field).errorf("workload.%s: the file takes %s; allowed: up to %s, which is the lesser of %s and half of the file system",
			field, w.full(), limit, maxFile)
	}
	return nil
}

// Plan is the load as the guest takes it.
func (l Reading) Plan() workload.Load {
	return workload.Load{Kind: l.Kind, Size: int64(l.Size), Readers: l.Readers}
}

// planError finds the place of an error of workload.Plan.Validate, which begins
// with the JSON name of the plan's field. But for the path these are ours.
func planError(d *decoder, err error) error {
	name, message, _ := strings.Cut(err.Error(), ": ")
	if name == "path" {
		name = "file"
	}
	if _, known := fieldOf(reflect.TypeFor[Workload](), name); !known {
		return d.at("workload").errorf("workload: %v", err)
	}
	return d.at("workload."+name).errorf("workload.%s: %s", name, message)
}

// Which names the field of c that is set, or is "" where none or several are.
func (c Cut) Which() string {
	v := reflect.ValueOf(c)
	which := ""
	for _, f := range reflect.VisibleFields(v.Type()) {
		if v.FieldByIndex(f.Index).IsZero() {
			continue
		}
		if which != "" {
			return ""
		}
		which = fieldName(f)
	}
	return which
}

// String says the cut in words, such as "op 150" or "random 150-200".
func (c Cut) String() string {
	which := c.Which()
	f, ok := fieldOf(reflect.TypeFor[Cut](), which)
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%s %v", which, encode(reflect.ValueOf(c).FieldByIndex(f.Index)))
}

func (s Scenario) checkCut(d *decoder) error {
	c := s.Cut
	which := c.Which()
	if which == "" {
		return d.at("cut").errorf("cut: must have exactly one of %s", strings.Join(fieldNames(reflect.TypeFor[Cut]()), ", "))
	}
	last := max(c.Op, c.Ack, c.Random.Last)
	at := d.at("cut." + which)
	if last > s.Workload.Count {
		return at.errorf("cut.%s: op %d is beyond the workload; allowed: up to its count, %d", which, last, s.Workload.Count)
	}
	if c.Ack > 0 && slices.Contains(s.Workload.Calls, workload.None) {
		return at.errorf("cut.ack: the call none is never acknowledged; cut at an op, or take none from workload.calls")
	}
	if c.Ack > 0 && s.Workload.Threads > 1 {
		return at.errorf("cut.ack: with threads acks come out of order; cut at an op, or at a random one")
	}
	if c.After >= s.Timeout {
		return at.errorf("cut.after: %s is not before the timeout; allowed: less than %s", formatDuration(c.After), formatDuration(s.Timeout))
	}
	return nil
}

// checkExpect demands that what is expected is about calls that are made, and can
// come true.
func (s Scenario) checkExpect(d *decoder) error {
	v := reflect.ValueOf(s.Expect)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if bounds, ok := v.FieldByIndex(f.Index).Interface().(Bounds); ok {
			if err := s.checkBounds(d, "expect."+fieldName(f), bounds); err != nil {
				return err
			}
		}
	}
	for i, ratio := range s.Expect.Ratios {
		for _, call := range []workload.Call{ratio.Over, ratio.Under} {
			if !slices.Contains(s.Workload.Calls, call) {
				return d.at(fmt.Sprintf("expect.ratios.%d", i)).errorf("expect.ratios: %s", s.notMade(call))
			}
		}
	}
	return nil
}

func (s Scenario) checkBounds(d *decoder, path string, bounds Bounds) error {
	for _, call := range bounds.keys() {
		below := join(path, string(call))
		if call != Every && !slices.Contains(s.Workload.Calls, call) {
			return d.names[below].errorf("%s: %s", path, s.notMade(call))
		}
		if bound := bounds[call]; bound.Unit == Ops && bound.least() > float64(s.Workload.Count) {
			return d.at(below).errorf("%s: %q can never hold; the workload has %d ops", path, bound, s.Workload.Count)
		}
	}
	return nil
}

func (s Scenario) notMade(call workload.Call) string {
	if s.Workload.Kind == OpsKind {
		return fmt.Sprintf("%s: a workload of ops has no calls to tell apart; its bounds are for all of it", call)
	}
	return fmt.Sprintf("%s is not among workload.calls: %s", call, strings.Join(words(s.Workload.Calls...), ", "))
}
