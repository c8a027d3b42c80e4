package ops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// ThreadDir is the directory, below the root, of a thread's ops; threads count from 1.
func ThreadDir(thread int) string { return fmt.Sprintf("t%d", thread) }

// Of says which op of which thread, both from 1, the number in a record of RunTogether
// stands for. Op 0 is what is before a thread's first op.
func Of(n uint64) (thread int, op uint64) { return int(n >> 32), n & (1<<32 - 1) }

// RunTogether carries out plans at the same time, each on a thread of its own and below
// ThreadDir, which is made first. Its records are those of Run, but that their numbers
// are of thread and op: see Of. It ends with the last thread.
func RunTogether(plans []Plan, w World, j workload.Journal, settle func() error) error {
	defer unix.Umask(unix.Umask(0)) // which each Run sets too, and gives back
	for i := range plans {
		if err := os.Mkdir(filepath.Join(w.Dir, ThreadDir(i+1)), 0o755); err != nil {
			return err
		}
	}
	unix.Sync()
	if err := settle(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	var mu sync.Mutex // of the journal
	var crew sync.WaitGroup
	ends := make([]error, len(plans))
	for i, p := range plans {
		crew.Go(func() {
			own := World{Dir: filepath.Join(w.Dir, ThreadDir(i+1))}
			ends[i] = p.Run(own, &thread{j, &mu, uint64(i+1) << 32}, func() error { return nil })
		})
	}
	crew.Wait()
	return errors.Join(ends...)
}

// thread is the journal of one of several threads.
type thread struct {
	journal workload.Journal
	mu      *sync.Mutex
	tag     uint64
}

// Start tells of an op; what is before the first one is none.
func (t *thread) Start(op uint64) {
	if op == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.journal.Start(t.tag | op)
}

// Publish adds a record.
func (t *thread) Publish(r ledger.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Op |= t.tag
	t.journal.Publish(r)
}
