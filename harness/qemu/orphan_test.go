package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// orphanEnv holds a Config for a copy of the test binary that is to start a
// machine and be killed.
const orphanEnv = "POWERCUT_TEST_ORPHAN"

// orphanMain starts the machine, prints QEMU's process id and stays, until it
// is killed or its standard input ends.
func orphanMain() {
	var cfg Config
	err := json.Unmarshal([]byte(os.Getenv(orphanEnv)), &cfg)
	if err == nil {
		var vm *VM
		if vm, err = Start(context.Background(), cfg); err == nil {
			fmt.Println(vm.PID())
			_, _ = io.Copy(io.Discard, os.Stdin)
			return
		}
	}
	fmt.Println(err)
}

// QEMU dies with a harness that had no chance to say goodbye.
func TestNoOrphan(t *testing.T) {
	cfg, err := json.Marshal(testFork(t))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	harness := exec.Command(self)
	harness.Env = append(os.Environ(), orphanEnv+"="+string(cfg))
	stdin, err := harness.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := harness.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the helper says %q", line)
	}
	qemu, err := unix.PidfdOpen(pid, 0) // names this very process, whoever reaps it
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(qemu)
	if ended(t, qemu, 0) {
		t.Fatal("qemu ended by itself")
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = harness.Wait() // "signal: killed"
	if !ended(t, qemu, patience) {
		t.Error("qemu outlives its harness")
		_ = unix.PidfdSendSignal(qemu, unix.SIGKILL, nil, 0)
	}
}

// ended waits for the process behind a pidfd.
func ended(t *testing.T, pidfd int, limit time.Duration) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(limit.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
}
