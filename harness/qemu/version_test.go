package qemu

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	tests := map[string]struct{ out, version, problem string }{
		"debian 12": {"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c)\n", "7.2.22", ""},
		"debian 13": {"QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\n", "10.0.2", ""},
		"git":       {"QEMU emulator version 9.1.50 (v9.1.0-1234-gabcdef)\n", "9.1.50", ""},
		"oldest":    {"QEMU emulator version 6.0.0\n", "6.0.0", ""},
		"too old":   {"QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)\n", "", "is version 5.2.0, at least 6.0 is needed"},
		"ancient":   {"QEMU emulator version 2.11.1\n", "", "qemu-system-x86"},
		"no qemu":   {"GNU bash, version 5.2.15\n", "", "does not answer --version"},
		"silent":    {"", "", "does not answer --version"},
		"huge":      {"QEMU emulator version 99999999999999999999.1\n", "", "99999999999999999999"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseVersion("qemu", tt.out)
			if got != tt.version {
				t.Errorf("got %q", got)
			}
			if (err == nil) != (tt.problem == "") {
				t.Fatalf("got %v", err)
			}
			if err != nil && (!errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), tt.problem)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	if _, err := Version(t.Context(), "no-such-qemu"); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "apt-get install qemu-system-x86") {
		t.Errorf("got %v", err)
	}
	if _, err := Version(t.Context(), script(t, "exit 3")); !errors.Is(err, ErrUnusable) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Version(ctx, script(t, "sleep 1000")); !errors.Is(err, ErrDeadline) {
		t.Errorf("got %v", err)
	}
	v, err := Version(t.Context(), "")
	if errors.Is(err, ErrUnusable) {
		t.Skip(err)
	}
	if err != nil || !strings.Contains(v, ".") {
		t.Errorf("got %q, %v", v, err)
	}
}
