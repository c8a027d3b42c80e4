package workload

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
)

// turns lets several threads share a journal. Op k begins only once op k-1 has
// begun, so that what has begun is a single number, and since the ops of a thread
// follow each other, those that run at the same time are fewer than the threads
// apart.
type turns struct {
	journal Journal
	mu      sync.Mutex
	begun   int   // the op that has begun last
	broken  error // why the workload cannot go on
	change  *sync.Cond
}

func newTurns(j Journal) *turns {
	t := &turns{journal: j}
	t.change = sync.NewCond(&t.mu)
	return t
}

// begin waits for op k's turn; false where the workload is at its end.
func (t *turns) begin(k int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.begun < k-1 && t.broken == nil {
		t.change.Wait()
	}
	if t.broken != nil {
		return false
	}
	t.begun = k
	t.journal.Start(uint64(k))
	t.change.Broadcast()
	return true
}

func (t *turns) publish(r ledger.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.journal.Publish(r)
}

// giveUp ends the workload, for the first reason that is given.
func (t *turns) giveUp(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.broken = err
	}
	t.change.Broadcast()
}

// ops runs op 1 to op Count, op k on thread (k-1) mod Threads.
func (r *runner) ops() (err error) {
	handles := make([]*handle, max(1, r.plan.Threads))
	for i := range handles {
		if handles[i], err = r.plan.open(r.path); err != nil {
			return err
		}
		defer handles[i].close()
	}
	if err := r.openObservers(); err != nil {
		return err
	}
	r.turns = newTurns(r.journal)
	if len(handles) > 1 { // a thread that waits for the kernel must not hold up the others
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(len(handles) + runtime.GOMAXPROCS(0)))
	}
	var others sync.WaitGroup
	for i, h := range handles[1:] {
		others.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			r.thread(i+2, h)
		})
	}
	r.thread(1, handles[0])
	others.Wait()
	return r.turns.broken
}

// thread runs every op of one thread, from the first on.
func (r *runner) thread(first int, h *handle) {
	every := max(1, r.plan.Threads)
	for k := first; k <= r.plan.Count; k += every {
		Fill(h.buf, r.plan.Seed, r.plan.Op(k).Offset, k)
		if !r.turns.begin(k) {
			return
		}
		if err := r.op(k, h); err != nil {
			r.turns.giveUp(err)
			return
		}
		if k+every <= r.plan.Count {
			pause(time.Duration(r.plan.Gap))
		}
	}
}

// pause sleeps in the kernel, by its own clock.
func pause(d time.Duration) {
	if d <= 0 {
		return
	}
	left := unix.NsecToTimespec(int64(d))
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) {
	}
}

// validThreads demands that what runs at the same time does not meet in a sector: of
// each sector the ops must have an order.
func (p Plan) validThreads() error {
	switch {
	case p.Threads < 2:
		return nil
	case p.Observers > 0:
		return fmt.Errorf("threads: %d and observers do not go together; an op that failed is asked about while nothing else runs", p.Threads)
	case p.Call == Msync && p.Kind == Append:
		return fmt.Errorf("threads: %d cannot each grow the file for msync", p.Threads)
	case p.Stride%sector != 0 || p.Kind == Overwrite && p.Size%sector != 0:
		return fmt.Errorf("threads: %d need a stride and a size that are multiples of %d, so that no two ops at the same time share a sector", p.Threads, sector)
	}
	l := p.Layout()
	l.bytes = (l.bytes + sector - 1) / sector * sector
	if d := l.Nearest(1); d > 0 && d < min(p.Threads, p.Count) {
		return fmt.Errorf("threads: of %d two may write the same sector at the same time, for ops %d apart share one; choose a larger stride or size, or fewer", p.Threads, d)
	}
	return nil
}
