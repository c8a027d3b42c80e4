package qemu

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// MinVersion is the oldest QEMU that knows all that is used here; the newest
// part is the machine option hpet=off, of 6.0.
const MinVersion = "6.0"

const (
	minMajor     = 6
	versionLimit = 10 * time.Second
)

// versionPattern is the first line of qemu --version.
var versionPattern = regexp.MustCompile(`QEMU emulator version ((\d+)\.\d+(?:\.\d+)?)`)

// Version asks binary (empty: DefaultBinary) for its version, such as "7.2.22".
// A QEMU that is missing or older than MinVersion is [ErrUnusable], with the
// package to install.
func Version(ctx context.Context, binary string) (string, error) {
	binary = or(binary, DefaultBinary)
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("ask %s for its version: %w: %w", binary, ErrDeadline, ctx.Err())
		}
		return "", missing(binary, err)
	}
	return parseVersion(binary, string(out))
}

// parseVersion finds the version in what QEMU printed and judges it.
func parseVersion(binary, out string) (string, error) {
	m := versionPattern.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%w: %s does not answer --version as QEMU does, but with %.80q", ErrUnusable, binary, out)
	}
	major, err := strconv.Atoi(m[2])
	if err != nil || major < minMajor {
		return "", fmt.Errorf("%w: %s is version %s, at least %s is needed; install a newer Debian package qemu-system-x86",
			ErrUnusable, binary, m[1], MinVersion)
	}
	return m[1], nil
}

// missing is the error for a QEMU that cannot be executed.
func missing(binary string, err error) error {
	return fmt.Errorf("%w: cannot run %s: %w; install the Debian package qemu-system-x86 (apt-get install qemu-system-x86)",
		ErrUnusable, binary, err)
}
