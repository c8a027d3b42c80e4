// Package program builds powercut for tests that run it: on the host, or as the
// agent of a guest, where it has to be linked statically and a test binary is not.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main builds powercut, sets path to the file, runs the tests of m and returns
// their exit code. Call it from TestMain.
func Main(m *testing.M, path *string) int {
	dir, err := os.MkdirTemp("", "powercut-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*path = filepath.Join(dir, "powercut")
	build := exec.Command("go", "build", "-trimpath", "-o", *path, "powercut/harness/powercut")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build powercut: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
