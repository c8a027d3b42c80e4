package machine

import (
	"context"
	"fmt"
	"io"

	"powercut/guest/wire"
)

// Terminal is where a session takes place.
type Terminal struct {
	In      io.Reader // its end ends what a script has to say, or hangs up
	Out     io.Writer
	Resized <-chan wire.Size // of a terminal that somebody sits at
}

// Shell asks the guest, whose spec must have Shell, to recover its drive and to open a
// shell, and returns once that has ended, or somebody at a terminal has hung up. In may
// then still be waited for; what comes is dropped.
func (g *Guest) Shell(ctx context.Context, s wire.Session, t Terminal) error {
	ctx, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	listening := false
	err := g.Ask(ctx, wire.OpenShell, s, func(f wire.Frame) (bool, error) {
		if !listening { // the guest has answered, so it hears
			listening = true
			go g.pass(s.Terminal, t.In, hangUp)
			go g.resize(ctx, t.Resized)
		}
		switch f.Type {
		case wire.Output:
			_, err := t.Out.Write(f.Payload)
			return false, err
		case wire.SessionEnded:
			return true, nil
		}
		return false, fmt.Errorf("run shell: unexpected message of type %d", f.Type)
	})
	if context.Cause(ctx) == errHungUp {
		return nil
	}
	return err
}

// errHungUp ends a session whose terminal was closed.
var errHungUp = fmt.Errorf("hung up")

// pass sends the guest what is typed. At its end it hangs up or, for a script, says so.
func (g *Guest) pass(terminal bool, in io.Reader, hangUp context.CancelCauseFunc) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		if n > 0 && wire.Write(g.vm.Control(), wire.Frame{Type: wire.Input, Payload: buf[:n]}) != nil {
			return // the session is over
		}
		if err == nil {
			continue
		}
		if terminal {
			hangUp(errHungUp)
		} else {
			_ = wire.Write(g.vm.Control(), wire.Frame{Type: wire.Input})
		}
		return
	}
}

// resize tells the guest of changes of the terminal's size.
func (g *Guest) resize(ctx context.Context, sizes <-chan wire.Size) {
	for {
		select {
		case s := <-sizes:
			if wire.Send(g.vm.Control(), wire.Resized, s) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
