package verdict

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"powercut/guest/workload"
)

// TestDutiesAreDocumented: each call has its promise, and FAULT_MODEL.md tells it
// word for word.
func TestDutiesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../FAULT_MODEL.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range workload.Calls {
		duty, ok := Duties[call]
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", call, duty.Promise, duty.Source); !ok || !strings.Contains(string(page), row) {
			t.Errorf("FAULT_MODEL.md has no row %s", row)
		}
	}
	if len(Duties) != len(workload.Calls) {
		t.Errorf("%d promises of %d calls", len(Duties), len(workload.Calls))
	}
}
