package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"powercut/guest/wire"
	"powercut/harness/bundle"
	"powercut/harness/machine"
	"powercut/harness/terminal"
)

// shell opens a shell in a guest that has recovered the state.
func (c *replayCommand) shell(ctx context.Context, s Streams, t *talk, k *bundle.Case) (err error) {
	progress := t.begin(s)
	defer progress.Done()
	r, err := c.replay(ctx, k, progress, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	progress.Done()
	in, ok := s.In.(*os.File)
	if !ok || !terminal.Is(in) {
		return r.Shell(ctx, k.State, wire.Session{Term: "dumb"}, machine.Terminal{In: s.In, Out: s.Out})
	}
	fmt.Fprintln(s.Err, "A shell in a guest that has recovered the state. What it changes is gone after it. It ends with exit, or Ctrl-].")
	tty, err := terminal.Open(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tty.Close()) }()
	session := wire.Session{Terminal: true, Term: os.Getenv("TERM"), Size: tty.Size()}
	return r.Shell(ctx, k.State, session, machine.Terminal{In: tty, Out: s.Out, Resized: tty.Resized()})
}
