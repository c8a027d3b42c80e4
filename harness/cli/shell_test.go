package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"

	"powercut/guest/pty"
)

// sessionLimit bounds a shell of a test, on a busy host.
const sessionLimit = 5 * time.Minute

// screen keeps what a program prints on a terminal.
type screen struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the screen shows a text.
func (s *screen) await(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	for !strings.Contains(s.String(), text) {
		if ctx.Err() != nil {
			t.Fatalf("%q is not to be seen on:\n%s", text, s)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestShellOnTerminal types into a shell of a guest. The terminal is in raw mode while
// the session lasts, knows its size, and is as before after it, whether the shell was
// left, hung up on, or ended by a signal.
func TestShellOnTerminal(t *testing.T) {
	p := newPlace(t)
	run := p.command(t, "barrier-off", "--seed", "7", "--set", "workload.calls=[fsync]", "--set", "cut={op: 4}", "--quiet")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	folders, err := filepath.Glob(filepath.Join(p.runs, "*", "fsync"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	for _, c := range []struct {
		name string
		end  func(master *os.File, powercut *os.Process)
		code int
	}{
		{"exit", func(m *os.File, _ *os.Process) { _, _ = m.WriteString("exit\r") }, exitHeld},
		{"Ctrl-]", func(m *os.File, _ *os.Process) { _, _ = m.WriteString("sleep 1000\r\x1d") }, exitHeld},
		{"SIGTERM", func(_ *os.File, p *os.Process) { _ = p.Signal(syscall.SIGTERM) }, exitInterrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), sessionLimit)
			defer cancel()
			master, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			defer terminal.Close()
			if err := pty.Resize(terminal, 33, 99); err != nil {
				t.Fatal(err)
			}
			before, err := term.GetState(int(terminal.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(ctx, binary, "replay", folders[0], "--shell")
			cmd.Env = append(os.Environ(), "TMPDIR="+p.tmp, p.mark, "TERM=vt100")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			s := &screen{}
			go func() { // ends when the terminal is closed
				buf := make([]byte, 4096)
				for {
					n, err := master.Read(buf)
					_, _ = s.Write(buf[:n])
					if err != nil {
						return
					}
				}
			}()
			s.await(t, ctx, "/dev/sda is recovered, and mounted on /mnt (ext4).\r\n")
			s.await(t, ctx, "/ # ")
			_, _ = master.WriteString("stty size; echo sum $((40+2)); ls /mnt\r")
			s.await(t, ctx, "33 99\r\n")
			s.await(t, ctx, "sum 42\r\n")
			s.await(t, ctx, "tmp.tmp")
			c.end(master, cmd.Process)
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d; on the screen:\n%s", got, c.code, s)
			}
			after, err := term.GetState(int(terminal.Fd()))
			if err != nil || *after != *before {
				t.Errorf("the terminal was %+v, and is %+v; %v", before, after, err)
			}
		})
	}
	p.clean(t, "the sessions")
}
