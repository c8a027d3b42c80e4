package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"powercut/guest/pty"
	"powercut/guest/wire"
)

// busybox is the shell, and all of its commands (images.BusyboxPath).
const busybox = "/bin/busybox"

// shell recovers the disk as recover does, and lets somebody look around until the
// shell ends, of which nobody comes back: the guest serves nothing else after it.
func (a *agent) shell(s wire.Session) error {
	if out, err := exec.Command(busybox, "--install", "-s", "/bin").CombinedOutput(); err != nil {
		return &stageError{"install the shell", fmt.Errorf("%w: %s", err, out)}
	}
	if err := a.say(a.welcome(s.Mount)); err != nil {
		return err
	}
	cmd := exec.Command(busybox, "sh")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/bin:/sbin", "HOME=/", "TERM=" + s.Term, `PS1=\w # `}
	start := a.startPiped
	if s.Terminal {
		start = a.startOnTerminal
	}
	in, size, err := start(cmd, s.Size)
	if err != nil {
		return &stageError{"start the shell", err}
	}
	return a.listen(in, size)
}

// welcome checks and mounts the disk, and tells what came of it.
func (a *agent) welcome(m wire.Mount) string {
	dev, err := theDrive()
	if err != nil {
		return fmt.Sprintf("There is no disk: %v.\n", err)
	}
	if m.Check {
		out, err := fsck(m.Type)
		if err != nil {
			return fmt.Sprintf("%s\n%s is not mounted, for its check failed: %v.\n", out, dev, err)
		}
	}
	if err := mount(m); err != nil {
		return fmt.Sprintf("%s is not mounted: %v.\n", dev, err)
	}
	return fmt.Sprintf("%s is recovered, and mounted on %s (%s).\n", dev, mountPoint, m.Type)
}

// say sends text to the terminal, whatever mode that is in.
func (a *agent) say(text string) error {
	out := make([]byte, 0, len(text)+8)
	for _, c := range []byte(text) {
		if c == '\n' {
			out = append(out, '\r')
		}
		out = append(out, c)
	}
	return wire.Write(a.port, wire.Frame{Type: wire.Output, Payload: out})
}

// startPiped starts the shell for a script: what it reads and writes are pipes.
func (a *agent) startPiped(cmd *exec.Cmd, _ wire.Size) (io.WriteCloser, func(wire.Size), error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout = outputTo{a}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	go a.end(cmd)
	return in, func(wire.Size) {}, nil
}

// startOnTerminal starts the shell on a terminal of its own.
func (a *agent) startOnTerminal(cmd *exec.Cmd, size wire.Size) (io.WriteCloser, func(wire.Size), error) {
	if err := os.MkdirAll("/dev/pts", 0o755); err != nil {
		return nil, nil, err
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return nil, nil, fmt.Errorf("mount devpts: %w", err)
	}
	master, terminal, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	resize := func(s wire.Size) { _ = pty.Resize(master, s.Rows, s.Columns) } // it is for looks only
	resize(size)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	terminal.Close()
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	go func() {
		_, _ = io.Copy(outputTo{a}, master) // ends with EIO, when nobody has the other end any more
		a.end(cmd)
	}()
	return master, resize, nil
}

// outputTo sends what is written as frames.
type outputTo struct{ a *agent }

func (o outputTo) Write(p []byte) (int, error) {
	return len(p), wire.Write(o.a.port, wire.Frame{Type: wire.Output, Payload: p})
}

// end waits for the shell and tells how it ended.
func (a *agent) end(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state says all
	_ = wire.Send(a.port, wire.SessionEnded, wire.Ended{Status: cmd.ProcessState.ExitCode()})
}

// listen passes on what is typed, until the harness hangs up. An empty frame is the
// end of what a script has to say.
func (a *agent) listen(in io.WriteCloser, resize func(wire.Size)) error {
	for {
		f, err := wire.Read(a.in)
		if err != nil {
			return err
		}
		switch {
		case f.Type == wire.Input && len(f.Payload) == 0:
			in.Close()
		case f.Type == wire.Input:
			_, _ = in.Write(f.Payload) // a shell that has ended hears nothing
		case f.Type == wire.Resized:
			var s wire.Size
			if err := f.Decode(&s); err != nil {
				return err
			}
			resize(s)
		}
	}
}
