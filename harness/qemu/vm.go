package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// VM is a virtual machine, running or dead. Its methods can be called from any
// goroutine.
type VM struct {
	cfg     Config
	args    []string
	ram     *ram
	proc    *process
	monitor *Monitor
	control net.Conn

	closing sync.Once
	closed  error // what Close returned; set by closing
}

// Start starts QEMU and returns once it answers: a booting guest runs then, a
// fork (Config.Template) runs on from where it was saved. ctx bounds the start
// only; the machine lives until Kill, Close, or its own end, and never longer
// than the harness.
//
// Wrong configuration is a plain error; whatever fails later is an [*Error].
// A template that cannot be used is [ErrTemplateDamaged], a missing QEMU
// [ErrUnusable].
func Start(ctx context.Context, cfg Config) (*VM, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	if cfg.Template != "" {
		return fork(ctx, cfg)
	}
	vm, err := launch(ctx, cfg, nil)
	if err != nil {
		return nil, err
	}
	if err := vm.connect(ctx); err != nil {
		return nil, err
	}
	return vm, nil
}

// launch starts the process with fresh memory and both its connections, and
// hands it extra as its last descriptor.
func launch(ctx context.Context, cfg Config, extra *os.File) (*VM, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start qemu: %w", err)
	}
	vm := &VM{cfg: cfg, args: cfg.args()}
	mem, err := newRAM(cfg.Memory)
	if err != nil {
		return nil, err
	}
	vm.ram = mem
	pipes, err := vm.plug()
	if err != nil {
		mem.close()
		return nil, err
	}
	files := append([]*os.File{mem.file}, pipes...)
	if extra != nil {
		files = append(files, extra)
	}
	vm.proc, err = spawn(cfg.Binary, cfg.Dir, vm.args, files, cfg.fileLimit())
	for _, f := range pipes {
		f.Close() // QEMU has its own now; ours would hide its death
	}
	if err != nil {
		vm.unplug()
		return nil, startError(cfg.Binary, err)
	}
	return vm, nil
}

// startError explains a QEMU that could not even be executed.
func startError(binary string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return missing(binary, err)
	}
	return fmt.Errorf("start qemu: %w", err)
}

// plug makes the monitor and the control connection, and returns QEMU's ends
// in the order of their descriptors.
func (vm *VM) plug() ([]*os.File, error) {
	mon, monFar, err := socketPair()
	if err != nil {
		return nil, err
	}
	ctl, ctlFar, err := socketPair()
	if err != nil {
		mon.Close()
		monFar.Close()
		return nil, err
	}
	vm.monitor = NewMonitor(mon, vm.cfg.Timeout)
	vm.control = ctl
	return []*os.File{monFar, ctlFar}, nil
}

// unplug closes what plug made, and the memory.
func (vm *VM) unplug() {
	_ = vm.monitor.Disconnect()
	_ = vm.control.Close()
	vm.ram.close()
}

// socketPair is a connection with one end for us and one to be inherited.
func socketPair() (near *net.UnixConn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	far = os.NewFile(uintptr(fds[1]), "qemu")
	ours := os.NewFile(uintptr(fds[0]), "harness")
	defer ours.Close() // FileConn has a duplicate
	conn, err := net.FileConn(ours)
	if err != nil {
		far.Close()
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	return conn.(*net.UnixConn), far, nil
}

// connect enters QMP. On failure the machine is closed, its last words kept.
func (vm *VM) connect(ctx context.Context) error {
	if err := vm.monitor.ConnectContext(ctx); err != nil {
		return vm.giveUp("start qemu", err)
	}
	return nil
}

// giveUp closes a machine that did not come up and says why.
func (vm *VM) giveUp(op string, err error) error {
	err = vm.Failure(op, err)
	_ = vm.Close()
	return err
}

// Memory is the guest's RAM, byte 0 being guest-physical address 0, shared with
// the running guest. It stays valid after the guest's death, until Close; it
// must not be touched after that.
func (vm *VM) Memory() []byte { return vm.ram.bytes }

// Control is the host's end of the control port. It has deadlines, and fails
// with EOF or EPIPE once QEMU is dead.
func (vm *VM) Control() net.Conn { return vm.control }

// Monitor is the machine's QMP connection.
func (vm *VM) Monitor() *Monitor { return vm.monitor }

// Done is closed when QEMU has ended, for whatever reason.
func (vm *VM) Done() <-chan struct{} { return vm.proc.done }

// dead says whether QEMU has ended.
func (vm *VM) dead() bool {
	select {
	case <-vm.proc.done:
		return true
	default:
		return false
	}
}

// PID is QEMU's process id.
func (vm *VM) PID() int { return vm.proc.cmd.Process.Pid }

// ConsolePath is the file that holds the guest's console.
func (vm *VM) ConsolePath() string { return vm.cfg.consoleFile() }

// Command is the command line QEMU was started with, to be kept with a run.
func (vm *VM) Command() []string { return slices.Clone(vm.proc.cmd.Args) }

// Wait waits for QEMU's end, ctx permitting, and then says how it ended.
func (vm *VM) Wait(ctx context.Context) (string, error) {
	select {
	case <-vm.proc.done:
		return vm.proc.status(), nil
	case <-ctx.Done():
		return "", vm.Failure("wait for qemu to end", ctx.Err())
	}
}

// Kill cuts the power: SIGKILL, then waits until QEMU is gone. When it returns
// nil nothing writes to the guest's memory, the console or the drive any more.
func (vm *VM) Kill() error { return vm.proc.kill() }

// Pause stops the guest's processor.
func (vm *VM) Pause(ctx context.Context) error {
	return vm.Failure("pause guest", vm.monitor.Execute(ctx, "stop", nil, nil))
}

// Resume lets the guest's processor run.
func (vm *VM) Resume(ctx context.Context) error {
	return vm.Failure("resume guest", vm.monitor.Execute(ctx, "cont", nil, nil))
}

// Close kills QEMU if it still runs and frees everything, the guest's memory
// included. It can be called again, and then says the same.
func (vm *VM) Close() error {
	vm.closing.Do(func() {
		vm.closed = vm.proc.kill()
		vm.unplug()
	})
	return vm.closed
}

// remaining is the time ctx leaves, at most limit.
func remaining(ctx context.Context, limit time.Duration) time.Time {
	end := time.Now().Add(limit)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		return d
	}
	return end
}
