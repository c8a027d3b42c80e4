package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// Reasons for which a virtual machine can fail; test for them with errors.Is.
var (
	// ErrExited says that QEMU ended before it was told to.
	ErrExited = errors.New("qemu exited")
	// ErrDeadline says that QEMU or the guest did not answer in time.
	ErrDeadline = errors.New("deadline passed")
	// ErrTemplateDamaged says that a template does not hold what its manifest
	// says, or belongs to another machine. Remove it and build it again.
	ErrTemplateDamaged = errors.New("template damaged")
	// ErrUnusable says that the QEMU binary is missing or too old.
	ErrUnusable = errors.New("qemu not usable")
)

// What of a console an [Error] carries.
const (
	consoleLines    = 20
	consoleFindings = 5
)

// Error is a failure of the infrastructure, never a statement about the data
// on a drive.
type Error struct {
	Op          string    // what was being done, such as "start qemu"
	Err         error     // why it failed; wraps ErrExited or ErrDeadline where that is the reason
	Stderr      string    // the end of QEMU's standard error
	Findings    []Finding // the first troubles that the guest's kernel reported, at most 5
	Console     []string  // the last lines of the guest's console, at most 20
	ConsolePath string    // where the whole console is
}

// Error gives the sentence on the first line, then QEMU's and the guest's last
// words, indented.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Summary())
	if e.Stderr != "" {
		b.WriteString("\n  qemu said:")
		for line := range strings.Lines(e.Stderr) {
			b.WriteString("\n    " + strings.TrimRight(line, "\r\n"))
		}
	}
	if len(e.Findings) > 0 {
		b.WriteString("\n  the guest's kernel reported:")
		for _, f := range e.Findings {
			b.WriteString("\n    " + f.String())
		}
	}
	if len(e.Console) > 0 {
		fmt.Fprintf(&b, "\n  console, last lines of %s:", e.ConsolePath)
		for _, line := range e.Console {
			b.WriteString("\n    " + line)
		}
	}
	return b.String()
}

// Summary is the sentence alone, on one line.
func (e *Error) Summary() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// exitGrace is how long a broken connection to QEMU waits for QEMU's death to
// be noticed: the socket closes a moment before the process can be reaped.
const exitGrace = 2 * time.Second

// Failure makes an [*Error] of err, which was met while doing op with this
// machine. It finds out whether QEMU is dead ([ErrExited], with its exit
// status) or whether time ran out ([ErrDeadline]), and adds the last words of
// both. An err that is an *Error already is returned as it is; nil gives nil.
func (vm *VM) Failure(op string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	reason := vm.reason(err) // waits a moment for QEMU's last words, so it goes first
	console := vm.cfg.consoleFile()
	findings := classifyFile(console)
	return &Error{
		Op:          op,
		Err:         reason,
		Stderr:      vm.proc.stderr.String(),
		Findings:    findings[:min(len(findings), consoleFindings)],
		Console:     Tail(console, consoleLines),
		ConsolePath: console,
	}
}

// reason says why err happened in the terms of this package.
func (vm *VM) reason(err error) error {
	if hungUp(err) {
		waitFor(vm.proc.done, exitGrace)
	}
	if vm.dead() {
		if err == ErrExited {
			return fmt.Errorf("%w (%s)", ErrExited, vm.proc.status())
		}
		return fmt.Errorf("%w (%s): %w", ErrExited, vm.proc.status(), err)
	}
	if timedOut(err) && !errors.Is(err, ErrDeadline) {
		return fmt.Errorf("%w: %w", ErrDeadline, err)
	}
	return err
}

// hungUp says whether err is how a connection reports that its peer has gone.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, errMonitorClosed)
}

// timedOut says whether err comes from a deadline.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// waitFor waits for done, but no longer than limit, and says whether it came.
func waitFor(done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
