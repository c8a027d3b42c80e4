package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// killLimit bounds the wait for a killed process to be gone.
const killLimit = 20 * time.Second

// child is a process that dies with this one: the kernel kills it when the thread
// that started it ends (prctl(2), PR_SET_PDEATHSIG), so that thread stays.
type child struct {
	cmd    *exec.Cmd
	stderr strings.Builder // whole only after done
	done   chan struct{}   // closed once the process is reaped
	err    error           // how it ended; read after done
}

// startChild starts cmd, which must have no Stderr yet, and which an interrupt from
// the terminal does not reach.
func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &c.stderr
	cmd.WaitDelay = killLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// wait waits for the process to end by itself, for at most limit.
func (c *child) wait(ctx context.Context, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-c.done:
		return c.explain(c.err)
	case <-ctx.Done():
		return fmt.Errorf("await %s: %w", c.cmd.Path, ctx.Err())
	case <-late.C:
		return fmt.Errorf("await %s: not done within %v", c.cmd.Path, limit)
	}
}

// kill ends the process, if it has not ended yet.
func (c *child) kill() error {
	_ = c.cmd.Process.Kill() // fails only for a process that is gone
	late := time.NewTimer(killLimit)
	defer late.Stop()
	select {
	case <-c.done:
		return nil
	case <-late.C:
		return fmt.Errorf("kill %s: process %d is still there after %v", c.cmd.Path, c.cmd.Process.Pid, killLimit)
	}
}

// explain adds to an error what the process said, if it has ended.
func (c *child) explain(err error) error {
	select {
	case <-c.done:
	default:
		return err
	}
	if said := strings.TrimSpace(c.stderr.String()); err != nil && said != "" {
		return fmt.Errorf("%w: %w", err, errors.New(said))
	}
	return err
}
