package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestChildEnds(t *testing.T) {
	c, err := startChild(exec.Command("/bin/sh", "-c", "echo no paper >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.wait(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "no paper") {
		t.Errorf("a child that failed gives %v", err)
	}
	if err := c.kill(); err != nil {
		t.Errorf("kill a child that has ended: %v", err)
	}
	if _, err := startChild(exec.Command(filepath.Join(t.TempDir(), "none"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there gives %v", err)
	}
}

func TestChildIsKilled(t *testing.T) {
	c, err := startChild(exec.Command("/bin/sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.wait(ctx, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was given up gives %v", err)
	}
	if err := c.wait(t.Context(), time.Nanosecond); err == nil {
		t.Error("a wait beyond its limit gives no error")
	}
	if err := c.kill(); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(c.cmd.Process.Pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
}
