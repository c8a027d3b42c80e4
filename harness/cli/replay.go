package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"powercut/harness/bundle"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/recording"
	"powercut/harness/report"
	"powercut/images/regular"
)

// caseArg names a crash state of a recording.
type caseArg struct {
	Case  string `arg:"" help:"A bundle, or RUN/CALL, or a run folder that has one call."`
	State string `help:"Another crash state of the same recording: a position and what did not reach the media, such as '57 without 21-24,30[0-2]' (requests; sectors of one)." placeholder:"STATE"`
}

func (a caseArg) open() (*bundle.Case, error) {
	var state *crash.State
	if a.State != "" {
		s, err := crash.ParseState(a.State)
		if err != nil {
			return nil, &usageError{err}
		}
		state = &s
	}
	c, err := bundle.Open(a.Case, state)
	var format *bundle.FormatError
	var none *bundle.StateError
	if errors.As(err, &format) || errors.As(err, &none) {
		return nil, &usageError{err}
	}
	return c, mistaken(err)
}

// guestFlags say what the guests that recover a state are to be.
type guestFlags struct {
	Kernel      string   `predictor:"kernel" help:"Recover with this kernel, in place of the very one of the recording: debian:VERSION, or a bzImage or vmlinux of one's own." placeholder:"KERNEL"`
	Modules     string   `help:"The modules of one's own kernel: a lib/modules/RELEASE folder." placeholder:"DIR" type:"existingdir"`
	Module      []string `help:"A kernel module of one's own, in place of the kernel's. May be repeated." placeholder:"FILE.ko" type:"existingfile" sep:"none"`
	KernelParam []string `help:"Add a parameter to the guest kernel's command line. May be repeated." placeholder:"PARAM" sep:"none"`
	QEMU        string   `name:"qemu" help:"The QEMU binary." placeholder:"PATH"`
}

// replay makes ready for a case.
func (g guestFlags) replay(ctx context.Context, c *bundle.Case, p campaign.Progress, shell bool) (*campaign.Replay, error) {
	if err := checkModules(g.Module); err != nil {
		return nil, err
	}
	if g.Kernel != "" && !strings.HasPrefix(g.Kernel, "debian:") {
		if err := regular.Check(g.Kernel); err != nil {
			return nil, &usageError{fmt.Errorf("--kernel: %w", err)}
		}
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find powercut itself: %w", err)
	}
	lab := &campaign.Lab{Binary: binary, QEMU: g.QEMU, Kernel: g.Kernel, Modules: g.Modules, ModuleFiles: g.Module, Params: g.KernelParam, Progress: p}
	return lab.Replay(ctx, c.Call, shell)
}

type replayCommand struct {
	caseArg
	guestFlags
	Shell bool   `help:"In place of a verdict open a shell in a guest that has recovered the state and mounted it on /mnt. Ctrl-] ends it; so does exit." xor:"mode"`
	Image string `help:"In place of a verdict write the raw crash image, before any recovery, for debugfs or xfs_db. Sparse." placeholder:"FILE" makes:"file" xor:"mode"`
}

// Help says what is compared.
func (*replayCommand) Help() string {
	return "A fresh guest recovers the state, and what survived is judged again. Exits with 0 where the verdict is the one that was found before, with 1 where it is another."
}

// Run recovers a state again.
func (c *replayCommand) Run(ctx context.Context, s Streams, t *talk) (err error) {
	k, err := c.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	switch {
	case c.Image != "":
		return c.image(ctx, s, k)
	case c.Shell:
		return c.shell(ctx, s, t, k)
	}
	progress := t.begin(s)
	defer progress.Done()
	r, err := c.replay(ctx, k, progress, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	found, err := r.Check(ctx, k.State)
	if err != nil {
		return err
	}
	told := k.Told
	if told == nil && campaign.Kind(found) != "" {
		if told, err = r.Tell(k.State, found); err != nil {
			return err
		}
	}
	progress.Done()
	if err := printCase(s, r, k.State, found, told); err != nil {
		return err
	}
	return c.compare(s, k, found)
}

// compare says whether the verdict is the one of before.
func (c *replayCommand) compare(s Streams, k *bundle.Case, found *report.Call) error {
	if k.Verdict == nil {
		_, err := fmt.Fprintln(s.Out, "No verdict on this state was recorded before.")
		return err
	}
	if difference := report.Differs(k.Verdict, found); difference != "" {
		_, err := fmt.Fprintf(s.Out, "Another verdict than the recorded one: %s.\n", difference)
		return errors.Join(errNotHeld, err)
	}
	_, err := fmt.Fprintln(s.Out, "The same verdict as recorded.")
	return err
}

// image writes the crash image.
func (c *replayCommand) image(ctx context.Context, s Streams, k *bundle.Case) error {
	if err := notOver("--image", c.Image, c.Case); err != nil {
		return err
	}
	path, err := k.Call.Past().Base(ctx)
	if err != nil {
		return err
	}
	base, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open formatted disk: %w", err)
	}
	defer base.Close()
	image, err := crash.NewBuilder(base, k.Call.Log).Build(k.State)
	if err != nil {
		return err
	}
	if err := recording.WriteImage(ctx, c.Image, image.Media, image.Media.Size()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s: the drive of %s at %s; of %d volatile writes %d were lost and %d torn\n",
		c.Image, c.Case, k.State, image.Volatile, image.Dropped, image.Torn)
	return err
}

// printCase prints a state and the verdict on it.
func printCase(s Streams, r *campaign.Replay, state crash.State, v *report.Call, told []string) error {
	d := r.Document
	d.Calls = []report.Call{*v}
	_, err := fmt.Fprintf(s.Out, "%s, seed %d, %s, on %s\ncrash state %s: %d of %d acknowledged; of %d volatile writes %d were lost and %d torn\n",
		d.Scenario, d.Seed, v.Call, d.Machine.Release, state, v.Counts.Acked, v.Counts.Ops, v.Cut.Volatile, v.Cut.Dropped, v.Cut.Torn)
	if err == nil {
		err = report.Verdict(s.Out, &d, report.Options{Colour: colour(s.Out)})
	}
	for _, line := range told {
		if err == nil {
			_, err = fmt.Fprintf(s.Out, "  %s\n", line)
		}
	}
	if err == nil && len(told) > 0 {
		_, err = fmt.Fprintln(s.Out)
	}
	return err
}
