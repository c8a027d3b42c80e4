package qemu

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWaited: of two processes that want the same processor each waits for the other,
// and one that sleeps waits for nobody.
func TestWaited(t *testing.T) {
	begin := func(script string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		var own, one unix.CPUSet
		if err := unix.SchedGetaffinity(cmd.Process.Pid, &own); err != nil {
			t.Fatal(err)
		}
		for cpu := 0; one.Count() == 0; cpu++ {
			if own.IsSet(cpu) {
				one.Set(cpu)
			}
		}
		if err := unix.SchedSetaffinity(cmd.Process.Pid, &one); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("/proc/%d/task", cmd.Process.Pid)
	}
	asleep := begin("exec sleep 60")
	busy := []string{begin("while :; do :; done"), begin("while :; do :; done")}
	for _, tasks := range busy {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			w, err := waited(tasks)
			if err != nil {
				t.Fatal(err)
			}
			if w > 100*time.Millisecond {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("a process that shares its processor has waited %v in 30 s", w)
			}
		}
	}
	before, err := waited(asleep)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if after, err := waited(asleep); err != nil || after != before {
		t.Errorf("a process that sleeps has waited %v more (%v)", after-before, err)
	}
	if _, err := waited(t.TempDir()); err == nil {
		t.Error("no error where nothing is known")
	}
}
