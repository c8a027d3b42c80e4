// Package command runs the few programs of the host that powercut builds on
// (apt, dpkg-deb, mkfs) so that none of them outlives its caller.
//
// Every program gets a deadline, the C locale (its messages are quoted in
// errors), a process group of its own that is killed as a whole, and the
// parent-death signal: if powercut is killed, the kernel kills the program.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// tailLimit bounds how much of a program's standard error is kept, in bytes.
	tailLimit = 8 << 10
	// tailLines is how many of its last lines an error quotes.
	tailLines = 4
	// outputLimit bounds what Output returns, in bytes.
	outputLimit = 16 << 20
	// waitDelay bounds the wait for pipes held open by a grandchild after the
	// program itself has ended.
	waitDelay = 5 * time.Second
)

// Command is one call of a host program. The zero value of every field but
// Path is useful.
type Command struct {
	Path    string        // program, as exec.Command takes it
	Args    []string      // arguments, without the program's name
	Dir     string        // working folder; "" is the caller's
	Env     []string      // "NAME=value", added to the caller's environment
	Timeout time.Duration // deadline of the whole run; 0 means one minute
	Stderr  io.Writer     // also gets the standard error; may be nil
}

// Error says that a program could not be started, failed, or was stopped.
type Error struct {
	Program string // base name of the program
	Tail    string // last lines of its standard error; may be empty
	Err     error  // cause: *exec.ExitError, context.DeadlineExceeded, …
}

// Error quotes the program's own last lines, in one line.
func (e *Error) Error() string {
	if e.Tail == "" {
		return fmt.Sprintf("run %s: %v", e.Program, e.Err)
	}
	return fmt.Sprintf("run %s: %v: %s", e.Program, e.Err, e.Tail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports a full disk as ENOSPC although the program said it in words only
// (strerror(3) in the C locale).
func (e *Error) Is(target error) bool {
	return target == syscall.ENOSPC && strings.Contains(e.Tail, "No space left on device")
}

// Run runs c. Of its standard output only the last lines are kept, for an error
// of a program that says nothing on its standard error: mkfs tells some of its
// reasons there.
func (c Command) Run(ctx context.Context) error {
	var said tailBuffer
	err := c.run(ctx, func(r io.Reader) error {
		_, err := io.Copy(&said, r)
		return err
	})
	var failed *Error
	if errors.As(err, &failed) && failed.Tail == "" {
		failed.Tail = said.String()
	}
	return err
}

// Output runs c and returns its standard output, at most 16 MiB of it.
func (c Command) Output(ctx context.Context) (string, error) {
	var out bytes.Buffer
	err := c.run(ctx, func(r io.Reader) error {
		n, err := io.Copy(&out, io.LimitReader(r, outputLimit+1))
		if err == nil && n > outputLimit {
			err = fmt.Errorf("output is over %d bytes", outputLimit)
		}
		return err
	})
	return out.String(), err
}

// Stream runs c while read consumes its standard output. A failure of the
// program is reported before one of read, because it is usually the cause.
// If read returns early without an error the rest of the output is discarded.
func (c Command) Stream(ctx context.Context, read func(io.Reader) error) error {
	return c.run(ctx, func(r io.Reader) error {
		if err := read(r); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

func (c Command) run(ctx context.Context, read func(io.Reader) error) error {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	// The parent-death signal follows the thread that started the child, not
	// the process (prctl(2), PR_SET_PDEATHSIG): keep that thread until the
	// child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var tail tailBuffer
	cmd := c.prepare(ctx, &tail)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return c.fail("", err)
	}
	if err := cmd.Start(); err != nil {
		return c.fail("", err)
	}
	readErr := read(out)
	if readErr != nil {
		cancel() // nobody reads any more: do not let the program block
	}
	waitErr := cmd.Wait()
	return c.result(ctx, readErr, waitErr, tail.String())
}

// prepare builds the exec.Cmd. Setpgid keeps a Ctrl-C of the terminal from
// reaching the program behind our back and lets cancelling kill the helpers
// that the program has started itself.
func (c Command) prepare(ctx context.Context, tail io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), c.Env...)
	cmd.Stderr = tail
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(tail, c.Stderr)
	}
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	return cmd
}

// result picks the error that explains the run best.
func (c Command) result(ctx context.Context, readErr, waitErr error, tail string) error {
	switch cause := context.Cause(ctx); {
	case readErr == nil && waitErr == nil:
		return nil
	case readErr != nil && cause == context.Canceled:
		// The reader failed first and had the program stopped, or the caller
		// gave up; a program that had failed on its own says so in its tail.
		if tail != "" {
			return c.fail(tail, readErr)
		}
		return readErr
	case cause != nil:
		return c.fail(tail, cause)
	case waitErr != nil:
		return c.fail(tail, waitErr)
	default:
		return readErr
	}
}

func (c Command) fail(tail string, err error) error {
	return &Error{Program: filepath.Base(c.Path), Tail: tail, Err: err}
}

// tailBuffer keeps the last tailLimit bytes written to it. It is written by
// one goroutine of os/exec and read after Wait.
type tailBuffer struct{ buf []byte }

// Write never fails.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailLimit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the last non-empty lines, joined by "; ".
func (t *tailBuffer) String() string {
	var lines []string
	for line := range strings.Lines(string(t.buf)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return strings.Join(lines, "; ")
}
