package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"powercut/harness/doctor"
)

// A machine that lacks something gives 125, and is told what; that is not the
// failure of a run.
func TestDoctorOfAMachineWithoutQEMU(t *testing.T) {
	var out, errs strings.Builder
	nowhere := filepath.Join(t.TempDir(), "qemu")
	code := Main(t.Context(), []string{"doctor", "--qemu", nowhere}, Streams{Out: &out, Err: &errs})
	if code != exitHarness || errs.String() != "" {
		t.Errorf("exit code %d, errors %q", code, errs.String())
	}
	if !strings.HasPrefix(out.String(), "missing") || !strings.Contains(out.String(), "→ apt-get install qemu-system-x86") {
		t.Errorf("printed %s", out.String())
	}
}

func TestDoctorJSON(t *testing.T) {
	var out, errs strings.Builder
	code := Main(t.Context(), []string{"doctor", "--json"}, Streams{Out: &out, Err: &errs})
	var d doctor.Document
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil {
		t.Fatal(err)
	}
	if (code == exitHeld) != d.Ready || code != exitHeld && code != exitHarness || d.Schema != doctor.Schema || len(d.Checks) == 0 {
		t.Errorf("exit code %d of %s\n%s", code, out.String(), errs.String())
	}
}
