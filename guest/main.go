// Package guest is what runs inside a virtual machine, as PID 1: it brings up
// the machine, then does what the harness asks over the control channel.
package guest

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
	"powercut/guest/wire"
)

// Main is the guest's whole life. It never returns: PID 1 must not.
func Main() {
	err := run()
	fmt.Fprintf(os.Stderr, "powercut guest: %v\n", err)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	for {
		unix.Pause()
	}
}

func run() error {
	if err := mountSystem(); err != nil {
		return err
	}
	loaded, err := loadModules("/lib/modules")
	if err != nil {
		return err
	}
	port, err := openPort("powercut")
	if err != nil {
		return err
	}
	a := &agent{port: port, in: bufio.NewReaderSize(port, 64<<10)}
	hello := wire.Greeting{Release: release(), Ledger: "memory", Modules: loaded}
	if a.ledger, err = mapLedger(); err != nil {
		hello.Ledger, hello.Reason = "serial", err.Error()
	} else {
		a.hasLedger = true
	}
	if err := wire.Send(port, wire.Hello, hello); err != nil {
		return err
	}
	return a.serve()
}

// agent answers the harness, one request at a time.
type agent struct {
	port      *os.File
	in        *bufio.Reader
	ledger    ledger.Region
	hasLedger bool
	hurried   bool               // see hurry
	cache     wire.CacheSwitches // as the last recovery left it
	watch     watch
}

func (a *agent) serve() error {
	for {
		f, err := wire.Read(a.in)
		if err != nil {
			return err
		}
		if err := a.handle(f); err != nil {
			if err := a.fail(err); err != nil {
				return err
			}
		}
	}
}

// stageError is a request that could not be carried out: the agent goes on.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

func (a *agent) fail(err error) error {
	out := wire.Failure{Stage: "request", Error: err.Error()}
	if s, ok := err.(*stageError); ok {
		out = wire.Failure{Stage: s.stage, Error: s.err.Error()}
	}
	return wire.Send(a.port, wire.Failed, out)
}

func (a *agent) handle(f wire.Frame) error {
	switch f.Type {
	case wire.Echo:
		return wire.Write(a.port, f)
	case wire.AwaitDrive:
		var w wire.Awaited
		if err := f.Decode(&w); err != nil {
			return err
		}
		return a.awaitDrive(w.Disks)
	case wire.Record:
		var w wire.Workload
		if err := f.Decode(&w); err != nil {
			return err
		}
		return a.record(w)
	case wire.Recover:
		var r wire.Recovery
		if err := f.Decode(&r); err != nil {
			return err
		}
		return a.recover(r)
	case wire.Measure:
		var m wire.Measurement
		if err := f.Decode(&m); err != nil {
			return err
		}
		return a.measure(m)
	case wire.Inspect:
		var m wire.Mount
		if err := f.Decode(&m); err != nil {
			return err
		}
		return a.inspect(m)
	case wire.Rehearse:
		var r wire.Rehearsal
		if err := f.Decode(&r); err != nil {
			return err
		}
		return a.rehearse(r)
	case wire.Exercising:
		var e wire.Exercise
		if err := f.Decode(&e); err != nil {
			return err
		}
		return a.exercise(e)
	case wire.OpenShell:
		var s wire.Session
		if err := f.Decode(&s); err != nil {
			return err
		}
		return a.shell(s)
	}
	return fmt.Errorf("unknown request of type %d", f.Type)
}

// sendContent sends r in frames of at most 256 KiB and returns the bytes sent.
func sendContent(w io.Writer, r io.Reader) (int64, error) {
	buf := make([]byte, 256<<10)
	var n int64
	for {
		k, err := io.ReadFull(r, buf)
		if k > 0 {
			if err := wire.Write(w, wire.Frame{Type: wire.Content, Payload: buf[:k]}); err != nil {
				return n, err
			}
			n += int64(k)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
