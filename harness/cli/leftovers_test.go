package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"powercut/harness/qemu"
	"powercut/images/cache"
)

// mark is an environment variable by which the processes of a test are found.
const mark = "POWERCUT_TEST_MARK"

// place is where a powercut of a test works.
type place struct {
	mark, runs, tmp, work string
}

func newPlace(t *testing.T) place {
	t.Helper()
	if _, err := qemu.Version(t.Context(), ""); err != nil {
		t.Skipf("no virtual machine can be run here: %v", err)
	}
	dir := t.TempDir()
	p := place{
		mark: fmt.Sprintf("%s=%d-%d", mark, os.Getpid(), rand.Uint64()),
		runs: filepath.Join(dir, "runs"), tmp: filepath.Join(dir, "tmp"), work: filepath.Join(dir, "work"),
	}
	for _, d := range []string{p.tmp, p.work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// command is powercut run in that place.
func (p place) command(t *testing.T, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), binary, append([]string{"run", "--runs", p.runs}, args...)...)
	c.Dir = p.work
	c.Env = append(os.Environ(), "TMPDIR="+p.tmp, p.mark)
	return c
}

// processes lists the living processes of the place.
func (p place) processes() []string {
	var out []string
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(p.mark)) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		out = append(out, strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return out
}

// clean fails the test where anything is left outside of run and cache folders:
// a process, a socket, a file. Processes get a moment to die in.
func (p place) clean(t *testing.T, after string) {
	t.Helper()
	left := p.processes()
	for end := time.Now().Add(20 * time.Second); len(left) > 0 && time.Now().Before(end); left = p.processes() {
		time.Sleep(20 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("after %s these processes live:\n%s", after, strings.Join(left, "\n"))
	}
	for _, dir := range []string{p.tmp, p.work} {
		files, err := os.ReadDir(dir)
		if err != nil || len(files) > 0 {
			t.Errorf("after %s %s holds %v (%v)", after, dir, files, err)
		}
	}
}

// noSockets fails the test where a finished run has left a socket in its folder.
func (p place) noSockets(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(p.runs, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSocket != 0 {
			err = fmt.Errorf("socket left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFiftyRuns: fifty runs in a row leave nothing behind.
func TestFiftyRuns(t *testing.T) {
	p := newPlace(t)
	out, err := p.command(t, "barrier-on", "--seeds", "1-50", "--set", "workload.calls=[fdatasync]").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "50 of 50") {
		t.Errorf("%v:\n%s", err, out)
	}
	p.clean(t, "50 runs")
	p.noSockets(t)
	runs, err := os.ReadDir(p.runs)
	if err != nil || len(runs) != 50 {
		t.Errorf("%d run folders, %v; want 50", len(runs), err)
	}
}

// TestKilled: however and whenever a run is ended, nothing lives on. The moments
// are spread over all stages of a run: the first ones fall into preparation, the
// last ones into recovery.
func TestKilled(t *testing.T) {
	p := newPlace(t)
	args := []string{"barrier-on", "--set", "workload.calls=[fsync, fdatasync]"}
	begun := time.Now()
	if out, err := p.command(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	whole := time.Since(begun)
	const moments = 12
	for i := range moments {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
			c := p.command(t, args...)
			var said bytes.Buffer
			c.Stderr = &said
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(whole * time.Duration(i) / moments)
			_ = c.Process.Signal(sig) // it may have ended already
			err := c.Wait()
			p.clean(t, fmt.Sprintf("%v at moment %d of %d", sig, i, moments))
			var exit *exec.ExitError
			if sig == syscall.SIGINT && errors.As(err, &exit) && exit.Exited() && exit.ExitCode() != exitInterrupt {
				t.Errorf("interrupted at moment %d: exit code %d, stderr:\n%s", i, exit.ExitCode(), said.String())
			}
		}
	}
}

// TestKilledWhileBooting: the same for the first run with an empty cache, which
// boots a guest.
func TestKilledWhileBooting(t *testing.T) {
	p := newPlace(t)
	shared, err := cache.Default()
	if err != nil {
		t.Fatal(err)
	}
	for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM} {
		c := p.command(t, "barrier-on", "--set", "workload.calls=[fsync]", "--set", fmt.Sprintf("guest.memory=%dMiB", 200+8*i))
		c.Env = append(c.Env, cache.Variable+"="+shared.Root)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); !strings.Contains(strings.Join(p.processes(), "\n"), "-display none"); {
			if time.Now().After(end) {
				t.Fatal("no QEMU within a minute")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		p.clean(t, sig.String()+" while a guest boots")
	}
}

// TestFullDisk: a run folder on a full disk is a failure of the harness, said in a
// sentence.
func TestFullDisk(t *testing.T) {
	p := newPlace(t)
	if err := os.Mkdir(p.runs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", p.runs, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer syscall.Unmount(p.runs, 0)
	out, err := p.command(t, "barrier-on").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitHarness || !strings.Contains(string(out), "no space left") {
		t.Errorf("%v:\n%s", err, out)
	}
	p.clean(t, "a full disk")
}
