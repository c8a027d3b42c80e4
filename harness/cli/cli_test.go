package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"powercut/harness/blocklog"
	"powercut/harness/internal/program"
	"powercut/images/cache"
)

// binary is a static powercut, built once for all tests of the package.
var binary string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &binary)) }

// TestScripts runs the command line as its users do.
func TestScripts(t *testing.T) {
	c, err := cache.Default()
	if err != nil {
		t.Fatal(err)
	}
	reports, err1 := filepath.Abs(filepath.Join("..", "report", "testdata")) // documents without run folders
	docs, err2 := filepath.Abs(filepath.Join("..", "..", "docs"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("CACHE", c.Root)
			e.Setenv("REPORTS", reports)
			e.Setenv("DOCS", docs)
			e.Setenv(cache.Variable, c.Root)
			if err := os.Chmod(filepath.Join(e.WorkDir, "old-qemu"), 0o755); err != nil && !os.IsNotExist(err) {
				return err
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "cutlog": cutlog},
	})
}

// exits runs a command that must end with an exit code: exits 125 powercut run x.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG ...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cutlog puts the first bytes of a compressed block log in its place, as a harness that
// died leaves them: cutlog run/fsync/block.log 60000.
func cutlog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cutlog LOG BYTES")
	}
	path := ts.MkAbs(args[0])
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	l, err := blocklog.Open(path)
	ts.Check(err)
	defer l.Close()
	b, err := io.ReadAll(io.NewSectionReader(l, 0, n))
	ts.Check(err)
	ts.Check(os.WriteFile(path, b, 0o644))
	ts.Check(os.Remove(path + blocklog.Suffix))
}
