package trace

import (
	"testing"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
)

// TestDuringThreads: of several threads' ops the one that had begun last and was not over
// is the one that a request is for.
func TestDuringThreads(t *testing.T) {
	done := finished([]ledger.Record{{Op: 0}, {Op: 2}, {Op: 1}, {Op: 4}}) // op 3 never ends
	for _, c := range []struct {
		started, acked uint64
		threads, want  int
	}{
		{0, 0, 1, 0},
		{0, 1, 1, Between},
		{2, 1, 2, 2},
		{2, 2, 2, 1}, // op 2 is over, op 1 is not
		{2, 3, 2, Between},
		{4, 3, 2, 4},
		{4, 4, 2, 3},
		{4, 4, 1, Between}, // one thread has no other op
	} {
		e := blocklog.Event{Started: c.started, Acked: c.acked}
		if got := during(e, done, c.threads); got != c.want {
			t.Errorf("begun %d, published %d, %d threads: during %d, want %d", c.started, c.acked, c.threads, got, c.want)
		}
	}
}
