package campaign

import (
	"sync"
	"time"

	"powercut/harness/machine"
)

// hostWait measures how long a guest had to wait for a processor of this machine while
// it ran a workload. What the kernel does not tell stays unknown: no run fails for it.
type hostWait struct {
	mu     sync.Mutex // guards all below
	begun  time.Time  // zero where the beginning is not known
	before time.Duration
	part   *float64
}

func (h *hostWait) begin(g *machine.Guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if waited, err := g.Waited(); err == nil {
		h.begun, h.before = time.Now(), waited
	}
}

// end is to be called while QEMU still runs.
func (h *hostWait) end(g *machine.Guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	waited, err := g.Waited()
	if err != nil || h.begun.IsZero() {
		return
	}
	part := float64(waited-h.before) / float64(time.Since(h.begun))
	h.part = &part
}

// share is the part of the time between the two; nil where it is not known.
func (h *hostWait) share() *float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.part
}
