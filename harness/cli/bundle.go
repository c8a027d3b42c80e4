package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"powercut/harness/bundle"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/shrink"
)

type bundleCommand struct {
	caseArg
	guestFlags
	Output string `short:"o" help:"The bundle; its name may end in .tar.zst." required:"" placeholder:"FILE" makes:"file"`
}

// Help says what a bundle is.
func (*bundleCommand) Help() string {
	return "A bundle is one file with a crash state and all that is needed to recover and judge it elsewhere, but for the kernel, which it names. " +
		"The state is the one that the run recovered, or that of --state, which a guest then recovers and judges first."
}

// Run writes a bundle.
func (c *bundleCommand) Run(ctx context.Context, s Streams, t *talk) (err error) {
	k, err := c.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if k.Verdict == nil || c.Kernel != "" {
		if err := c.judge(ctx, s, t, k); err != nil {
			return err
		}
	}
	return writeBundle(ctx, s, k, c.Output)
}

// judge lets a guest recover the state.
func (c *bundleCommand) judge(ctx context.Context, s Streams, t *talk, k *bundle.Case) (err error) {
	progress := t.begin(s)
	defer progress.Done()
	r, err := c.replay(ctx, k, progress, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if k.Verdict, err = r.Check(ctx, k.State); err == nil && campaign.Kind(k.Verdict) != "" {
		k.Told, err = r.Tell(k.State, k.Verdict)
	}
	return err
}

// keepBundle writes a bundle of a case that has a verdict.
func keepBundle(ctx context.Context, k *bundle.Case, path string) error {
	base, err := k.Call.Past().Base(ctx)
	if err != nil {
		return err
	}
	return k.Write(ctx, path, base)
}

// writeBundle writes a bundle, and says so.
func writeBundle(ctx context.Context, s Streams, k *bundle.Case, path string) error {
	if err := keepBundle(ctx, k, path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s: %d KiB; again: powercut replay %s\n", path, (info.Size()+1023)>>10, path)
	return err
}

type shrinkCommand struct {
	caseArg
	guestFlags
	Tests  int    `help:"At most so many states are tried." default:"300" placeholder:"N"`
	Output string `short:"o" help:"Write a bundle of the small state." placeholder:"FILE" makes:"file"`
}

// Help says what small means.
func (*shrinkCommand) Help() string {
	return "Looks for the earliest cut and the fewest missing writes with which the same recording fails in the same way: of the state that it ends with " +
		"nothing can be taken away any more, neither one missing write nor one event before the cut. " +
		"Exits with 0 where there is such a state, with 2 where the one that is given does not fail."
}

// Run makes a failing state small.
func (c *shrinkCommand) Run(ctx context.Context, s Streams, t *talk) (err error) {
	if c.Tests < 1 {
		return &usageError{fmt.Errorf("--tests is %d, and must be 1 at least", c.Tests)}
	}
	progress := t.begin(s)
	defer progress.Done()
	err = c.shrink(ctx, c.guestFlags, c.Tests, progress, func(k *bundle.Case, r *campaign.Replay, small *campaign.Shrunk, was crash.State) error {
		progress.Done()
		minimal := "nothing more can be taken away"
		if !small.Minimal {
			minimal = "there may be a smaller one: --tests was the limit"
		}
		if _, err := fmt.Fprintf(s.Out, "shrunk after %d states, from %d missing writes at position %d to %d at position %d; %s\n",
			small.Tests, len(was.Missing), was.Cut, len(small.State.Missing), small.State.Cut, minimal); err != nil {
			return err
		}
		if err := printCase(s, r, small.State, small.Verdict, small.Told); err != nil || c.Output == "" {
			return err
		}
		return writeBundle(ctx, s, k, c.Output)
	})
	if errors.Is(err, shrink.ErrPasses) {
		return &usageError{err}
	}
	return err
}

// shrink makes a failing state small, with at most so many tests. use is given the case with
// the small state in the place of the one that it was.
func (a caseArg) shrink(ctx context.Context, g guestFlags, tests int, p campaign.Progress,
	use func(k *bundle.Case, r *campaign.Replay, small *campaign.Shrunk, was crash.State) error,
) (err error) {
	k, err := a.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	r, err := g.replay(ctx, k, p, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	was := k.State
	small, err := r.Shrink(ctx, was, tests)
	if err != nil {
		return err
	}
	k.State, k.Verdict, k.Told = small.State, small.Verdict, small.Told
	return use(k, r, small, was)
}
