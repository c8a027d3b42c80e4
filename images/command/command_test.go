package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const roleVariable = "POWERCUT_COMMAND_TEST_ROLE"

// TestMain lets this binary play a caller that is killed while its program
// runs.
func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		os.Exit(m.Run())
	}
	err := shell("echo $$; exec sleep 300").Stream(context.Background(), func(r io.Reader) error {
		line, err := bufio.NewReader(r).ReadString('\n')
		fmt.Print(line)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return err
	})
	fmt.Println("the program ended first:", err)
	os.Exit(1)
}

func shell(script string) Command {
	return Command{Path: "sh", Args: []string{"-c", script}, Timeout: time.Minute}
}

func TestOutput(t *testing.T) {
	c := shell("echo $LC_ALL $X; pwd")
	c.Env, c.Dir = []string{"X=y"}, "/"
	got, err := c.Output(t.Context())
	if err != nil || got != "C y\n/\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	ctx := t.Context()
	t.Run("tail", func(t *testing.T) {
		err := shell("for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 3").Run(ctx)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Fatalf("error: %v", err)
		}
		if want := "run sh: exit status 3: line 3; line 4; line 5; line 6"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	})
	t.Run("disk full", func(t *testing.T) {
		err := shell("echo 'cp: error writing: No space left on device' >&2; exit 1").Run(ctx)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v is not ENOSPC", err)
		}
		if err := shell("exit 1").Run(ctx); errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v is ENOSPC", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if err := (Command{Path: "no-such-program"}).Run(ctx); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("reader", func(t *testing.T) {
		broken := errors.New("broken")
		err := shell("while :; do echo y; done").Stream(ctx, func(io.Reader) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("reader stops early", func(t *testing.T) {
		err := shell("seq 100000").Stream(ctx, func(r io.Reader) error {
			_, err := r.Read(make([]byte, 1))
			return err
		})
		if err != nil {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("too much", func(t *testing.T) {
		_, err := shell("yes").Output(ctx)
		if err == nil || !strings.Contains(err.Error(), "over") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		if err := shell("sleep 300").Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error: %v", err)
		}
	})
}

// At the deadline the program goes, and with it what it has started itself.
func TestDeadlineKillsTheGroup(t *testing.T) {
	c := shell("sleep 300 & echo $!; wait")
	c.Timeout = 300 * time.Millisecond
	var grandchild int
	err := c.Stream(t.Context(), func(r io.Reader) error {
		line, err := bufio.NewReader(r).ReadString('\n')
		if err != nil {
			return err
		}
		if grandchild, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
	if grandchild != 0 {
		waitGone(t, grandchild)
	}
}

// A killed caller takes its program along.
func TestProgramDiesWithItsCaller(t *testing.T) {
	caller := exec.Command(os.Args[0])
	caller.Env = append(os.Environ(), roleVariable+"=caller")
	out, err := caller.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatalf("the program does not run: %v", err)
	}
	if err := caller.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	caller.Wait() //nolint:errcheck // killed
	waitGone(t, pid)
}

// waitGone waits until a process has ended; its parent may not have collected
// it yet.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing to lose
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
	if err != nil || n != 1 {
		t.Errorf("process %d still runs (%v)", pid, err)
		unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // clean up
	}
}
