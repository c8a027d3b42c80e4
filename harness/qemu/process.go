package qemu

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stderrLimit = 16 << 10         // bytes of standard error kept
	reapLimit   = 2 * time.Second  // for standard error to end after the process has
	killLimit   = 20 * time.Second // for a killed QEMU to vanish; a busy host takes a while to free its memory
)

// process is a running QEMU. It dies with the harness: the kernel sends it
// SIGKILL when the thread that started it ends, so that thread is kept, locked,
// until QEMU is gone (prctl(2), PR_SET_PDEATHSIG).
type process struct {
	cmd    *exec.Cmd
	stderr *tail
	done   chan struct{} // closed once QEMU is reaped
	err    error         // what Wait returned; read after done
}

// spawn starts binary in dir with files as its descriptors from 3 on. No file
// it writes may grow beyond fileLimit bytes.
func spawn(binary, dir string, args []string, files []*os.File, fileLimit int64) (*process, error) {
	p := &process{
		cmd:    exec.Command(binary, args...),
		stderr: &tail{limit: stderrLimit},
		done:   make(chan struct{}),
	}
	p.cmd.Dir = dir
	p.cmd.Stderr = p.stderr
	p.cmd.ExtraFiles = files
	p.cmd.WaitDelay = reapLimit
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // an interrupt from the terminal is the harness's to handle
	}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	p.confine(fileLimit)
	return p, nil
}

// confine keeps QEMU from filling the file system: it writes no file, which is
// the console, beyond limit bytes, and leaves no core file. (QEMU's processor
// threads block SIGXFSZ, so the writes fail and the guest runs on.) These are
// safeguards; a QEMU that is dead already needs none.
func (p *process) confine(limit int64) {
	size := unix.Rlimit{Cur: uint64(limit), Max: uint64(limit)}
	_ = unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &size, nil)
	_ = unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}

// run starts QEMU and stays with it on one thread until it ends.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// kill sends SIGKILL and waits until QEMU is reaped. Killing a dead QEMU is
// fine.
func (p *process) kill() error {
	_ = p.cmd.Process.Kill() // fails only for a process already waited for
	if !waitFor(p.done, killLimit) {
		return fmt.Errorf("kill qemu: process %d is still there %v after SIGKILL", p.cmd.Process.Pid, killLimit)
	}
	return nil
}

// status says how QEMU ended. Only after done.
func (p *process) status() string {
	if p.cmd.ProcessState == nil {
		return "unknown status"
	}
	return p.cmd.ProcessState.String()
}

// tail keeps the last limit bytes written to it.
type tail struct {
	limit int

	mu  sync.Mutex
	buf []byte // guarded by mu
}

// Write keeps the end of what was written so far; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String gives what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
