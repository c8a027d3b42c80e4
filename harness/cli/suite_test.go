package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallNight is a suite of two cells, of which the first one holds. What its second
// one expects is wrong on purpose: without barriers writes are lost.
const smallNight = `
name: small
groups:
  - scenarios: [barrier-on]
    mounts: [barrier=1, barrier=0]
    set: {workload.calls: [fsync], workload.count: 20, cut: {op: 10}}
`

// TestSuiteKilled: a night that is killed after its first cell is gone on with, and
// repeats nothing.
func TestSuiteKilled(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(p.runs, "small.yaml")
	if err := errors.Join(os.Mkdir(p.runs, 0o755), os.WriteFile(file, []byte(smallNight), 0o644)); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(p.runs, "out")
	command := func(args ...string) *exec.Cmd {
		c := p.command(t)
		c.Args = append([]string{binary, "suite"}, args...)
		return c
	}
	results := filepath.Join(out, "results.jsonl")
	c := command("run", file, "--out", out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var first []byte
	for end := time.Now().Add(2 * time.Minute); !bytes.HasSuffix(first, []byte("\n")); first, _ = os.ReadFile(results) {
		if time.Now().After(end) {
			t.Fatal("no result within two minutes")
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = c.Process.Signal(syscall.SIGKILL)
	_ = c.Wait()
	p.clean(t, "SIGKILL after the first cell")
	if n := bytes.Count(first, []byte("\n")); n != 1 || !bytes.Contains(first, []byte(`"cell":"barrier-on-barrier-1-seed-1"`)) || !bytes.Contains(first, []byte(`"outcome":"held"`)) {
		t.Fatalf("%d results when it was killed:\n%s", n, first)
	}

	said, err := command("run", file, "--out", out, "--resume").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitNotHeld || !strings.Contains(string(said), "small NOT MET: 1 of 2 cells held, 1 not met;") {
		t.Fatalf("%v:\n%s", err, said)
	}
	all, err := os.ReadFile(results)
	if err != nil || !bytes.HasPrefix(all, first) || bytes.Count(all, []byte("\n")) != 2 || !bytes.Contains(all, []byte(`"again":"not met"`)) {
		t.Errorf("%v:\n%s", err, all)
	}
	kept, err := filepath.Glob(filepath.Join(out, "evidence", "*", "*", "report.html"))
	if err != nil || len(kept) != 2 || !strings.Contains(kept[0], "barrier-on-barrier-0-seed-1") { // and its second run
		t.Errorf("evidence %v, %v", kept, err)
	}

	// Merged, and held against itself, it fails as before.
	said, err = command("merge", out, "-o", filepath.Join(p.runs, "joined"), "--baseline", out).CombinedOutput()
	if !errors.As(err, &exit) || exit.ExitCode() != exitNotHeld || !strings.Contains(string(said), "1 of 2 cells held, 1 not met as before;") {
		t.Errorf("%v:\n%s", err, said)
	}
	p.clean(t, "a night")
}
