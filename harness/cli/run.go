package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"powercut/harness/campaign"
	"powercut/harness/report"
	"powercut/harness/report/format"
	"powercut/images"
	"powercut/images/regular"
	"powercut/scenarios"
)

type runCommand struct {
	Scenario     string   `arg:"" predictor:"scenario" help:"A scenario's name, a family's name, or a file (with a slash, or ending in .yaml)."`
	Set          []string `help:"Override a value of the scenario. May be repeated." placeholder:"a.b=value" sep:"none"`
	Seed         *uint64  `help:"What all random decisions follow from. Default: a new one, which is printed." xor:"seed"`
	Seeds        string   `help:"Run once for each seed of a range, such as 1-20." placeholder:"FIRST-LAST" xor:"seed"`
	Kernel       string   `predictor:"kernel" help:"A kernel: debian:VERSION, or several of these with commas between, side by side; or a bzImage or vmlinux of one's own; in place of the scenario's." placeholder:"KERNEL"`
	Modules      string   `help:"The modules of one's own kernel: a lib/modules/RELEASE folder." placeholder:"DIR" type:"existingdir"`
	Module       []string `help:"A kernel module of one's own, in place of the kernel's. May be repeated." placeholder:"FILE.ko" type:"existingfile" sep:"none"`
	KernelParam  []string `help:"Add a parameter to the guest kernel's command line. May be repeated." placeholder:"PARAM" sep:"none"`
	Runs         string   `help:"Where run folders go." default:"runs" placeholder:"DIR" makes:"folder"`
	QEMU         string   `name:"qemu" help:"The QEMU binary." placeholder:"PATH"`
	SerialLedger bool     `help:"Send acknowledgements over the control channel, as for guest kernels without /dev/mem."`
	QEMULog      bool     `name:"qemu-log" help:"Let QEMU log the writes too, into CALL/qemu.log in the run folder, for 'powercut log compare'. The drive is sent more flushes then."`
	Explain      bool     `help:"Say what each column of the table means."`
	Quiet        bool     `short:"q" help:"Print the last line alone: what came out, and where everything is."`
	reportFlags
}

// Help says what the exit code means.
func (*runCommand) Help() string {
	return "Exits with 0 where all expectations were met, with 1 where one was not, or a condition between the cells of a matrix; " +
		"with 125 where the harness could not do it, or this machine was too busy to judge a time, which says nothing about the file system: what git bisect run wants."
}

// Run runs the scenarios.
func (c *runCommand) Run(ctx context.Context, s Streams, t *talk) error {
	list, err := c.scenarios()
	if err != nil {
		return err
	}
	seeds, err := c.seeds()
	if err != nil {
		return err
	}
	outputs, err := c.outputs(formats()...)
	if err != nil {
		return err
	}
	r := format.Results{Several: len(list)*len(seeds) > 1}
	err = c.all(ctx, s, t, list, seeds, &r)
	if err == nil || len(r.Runs) > 0 || len(outputs) > 0 && ctx.Err() == nil {
		err = errors.Join(err, c.print(ctx, s.Out, outputs, r))
	}
	if err != nil {
		return err
	}
	return held(r.Runs)
}

// held is nil if all runs held, and all that is to hold between them.
func held(docs []*report.Document) error {
	busy := false
	for _, d := range docs {
		if busy = busy || d.Unjudged(); !d.Held && !d.Unjudged() {
			return errNotHeld
		}
	}
	for _, c := range report.Compare(docs) {
		if busy = busy || c.Busy; !c.Held && !c.Busy {
			return errNotHeld
		}
	}
	if busy {
		return report.ErrBusy
	}
	return nil
}

func (c *runCommand) scenarios() ([]scenarios.Scenario, error) {
	var overrides []scenarios.Override
	for _, text := range c.Set {
		o, err := scenarios.ParseOverride(text)
		if err != nil {
			return nil, &usageError{err}
		}
		overrides = append(overrides, o)
	}
	var axes []scenarios.Axis
	switch kernels := strings.Split(c.Kernel, ","); {
	case !strings.HasPrefix(c.Kernel, "debian:"):
	case len(kernels) == 1:
		overrides = append(overrides, scenarios.Override{Path: "kernel", Value: c.Kernel})
		c.Kernel = ""
	default:
		for i, k := range kernels {
			if slices.Contains(kernels[:i], k) {
				return nil, &usageError{fmt.Errorf("--kernel: %s is there twice", k)}
			}
		}
		axes = append(axes, scenarios.FieldAxis("kernel", kernels...))
		c.Kernel = ""
	}
	if c.Modules != "" && c.Kernel == "" {
		return nil, &usageError{errors.New("--modules goes with --kernel and a kernel image of one's own")}
	}
	if err := checkModules(c.Module); err != nil {
		return nil, err
	}
	if c.Kernel == "" && len(c.Module) == 0 {
		overrides = append(overrides, scenarios.Alone)
	}
	list, err := scenarios.Cross(c.Scenario, axes, overrides...)
	if err != nil {
		return nil, &usageError{err}
	}
	for _, s := range list {
		if err := c.check(s); err != nil {
			return nil, &usageError{fmt.Errorf("scenario %s: %w", s.Name, err)}
		}
	}
	return list, nil
}

// check says what is wrong with a scenario that only those know who carry it out.
func (c *runCommand) check(s scenarios.Scenario) error {
	if err := campaign.Format(s).Check(); err != nil {
		return err
	}
	if c.QEMULog && s.Filesystem.ExternalJournal > 0 {
		return errors.New("--qemu-log: QEMU would log one of the two disks that filesystem.external-journal makes; leave one of them out")
	}
	image := c.Kernel
	if image == "" && strings.Contains(s.Kernel, "/") {
		image = s.Kernel
	}
	if image == "" {
		if err := images.CheckSpec(s.Kernel); err != nil {
			return fmt.Errorf("%w, or the path of a bzImage or vmlinux", err)
		}
		return nil
	}
	if s.Guest.Module != "" {
		return fmt.Errorf("guest.module: %s is built for kernels of Debian (%s), and --kernel is another; give a module built for it with --module", s.Guest.Module, strings.Join(images.Specs(), ", "))
	}
	return regular.Check(image)
}

// maxSeeds bounds the runs of one command.
const maxSeeds = 10_000

func (c *runCommand) seeds() ([]uint64, error) {
	switch {
	case c.Seed != nil:
		return []uint64{*c.Seed}, nil
	case c.Seeds == "":
		return []uint64{uint64(rand.Uint32())}, nil
	}
	bad := &usageError{fmt.Errorf("--seeds: %q is not a range of at most %d seeds, such as 1-20", c.Seeds, maxSeeds)}
	from, to, ok := strings.Cut(c.Seeds, "-")
	if !ok {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, 64)
	last, err2 := strconv.ParseUint(to, 10, 64)
	if err1 != nil || err2 != nil || last < first || last-first >= maxSeeds {
		return nil, bad
	}
	var out []uint64
	for n := first; len(out) <= int(last-first); n++ {
		out = append(out, n)
	}
	return out, nil
}

// all runs every scenario with every seed, up to one that the harness cannot do. One whose
// module does not fit its kernel, or is for nothing, it passes over, and says so in the end.
func (c *runCommand) all(ctx context.Context, s Streams, t *talk, list []scenarios.Scenario, seeds []uint64, r *format.Results) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find powercut itself: %w", err)
	}
	t.bar = t.bar && !c.Quiet
	progress := t.begin(s)
	defer progress.Done()
	lab := &campaign.Lab{
		Runs: c.Runs, Binary: binary, QEMU: c.QEMU, Kernel: c.Kernel, Modules: c.Modules, ModuleFiles: c.Module,
		Params: c.KernelParam, SerialLedger: c.SerialLedger, QEMULog: c.QEMULog, Progress: progress,
	}
	var misfits []error
cells:
	for _, scenario := range list {
		for _, seed := range seeds {
			t.Info("run begins", "scenario", scenario.Name, "seed", seed)
			doc, err := lab.Run(ctx, scenario, seed)
			if err != nil {
				r.Broken = append(r.Broken, format.Broken{Scenario: scenario.Name, Seed: seed, Err: err})
				if misfit(err) {
					misfits = append(misfits, fmt.Errorf("%s: not run: %w", scenario.Name, err))
					continue cells
				}
				return errors.Join(append(misfits, err)...)
			}
			if err := keepPage(ctx, doc); err != nil { // the run is as good without it
				t.Warn("no page for a browser", "error", err)
			}
			t.Info("run ended", "scenario", doc.Scenario, "seed", seed, "held", doc.Held, "seconds", doc.Elapsed, "folder", doc.Folder)
			r.Runs = append(r.Runs, doc)
		}
	}
	return errors.Join(misfits...)
}

// misfit tells whether a scenario cannot be run with the modules that were asked for.
func misfit(err error) bool {
	_, unfit := errors.AsType[*images.MisfitError](err)
	_, unused := errors.AsType[*images.UnusedError](err)
	return unfit || unused
}

// print makes the reports. Where none of them goes to standard output, the tables do:
// one run in full, several in one summary.
func (c *runCommand) print(ctx context.Context, w io.Writer, outputs []output, r format.Results) error {
	if err := writeOutputs(ctx, w, outputs, func(w io.Writer, o output) error { return write(ctx, w, o, r) }); err != nil {
		return err
	}
	o := report.Options{Colour: colour(w), Explain: c.Explain, Quiet: c.Quiet}
	switch {
	case printed(outputs) || len(r.Runs) == 0:
		return nil
	case r.Several:
		return report.Runs(w, r.Runs, o)
	}
	return report.Table(w, r.Runs[0], o)
}
