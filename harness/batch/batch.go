// Package batch carries out many short workloads of ops, and judges for each the
// states that a cut right after each of its sync calls leaves. A workload may have
// several threads, each with a directory of its own, and each is judged by itself.
//
// A worker is one forked guest. For a workload its drive is given a fresh disk, as mkfs
// made it, on which the guest mounts, runs the ops and unmounts, all of it in a block
// log. Then the drive is given the state of the log at each ack, and the guest recovers
// it and reads its tree. So each workload is by itself on its file system, as in a run
// of its own, and costs some mounts rather than guests. What a worker's kernel might
// carry over from one disk to the next is the one difference from a run: whoever is
// told of a broken promise repeats it in fresh guests before he believes it.
package batch

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strconv"
	"sync"

	"powercut/guest/inspect"
	"powercut/guest/ops"
	"powercut/harness/campaign"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// Options say how workloads are carried out.
type Options struct {
	Jobs   int    // workers; at least one
	Folder string // for the workers' guests and logs
	Seed   uint64 // of what the ops write
	// Evidence says into which folder, which it has made, the recording of a workload that
	// went wrong goes (package recording opens it); empty: none is kept. Nil: of none.
	// The workers ask, so it is called by several goroutines.
	Evidence func(Outcome) (folder string, err error)
}

// Workload is a list of ops for each of its threads. One is carried out at the root of
// the file system, several as ops.RunTogether does.
type Workload [][]ops.Op

// Outcome is what became of one workload.
type Outcome struct {
	Number   int // among the workloads, from 1
	Workload Workload
	// States are those judged, for each sync call that succeeded one of each thread.
	States      []State
	Unsupported *promise.Unsupported // an op that kernel or file system do not know
	// Failed is an op, from 1, with an error that it does not allow, and Thread its
	// thread; 0: none. It ends its thread.
	Failed, Thread int
	Errno          string
	// Trouble is what the kernel that ran the ops died of; empty: nothing.
	Trouble string
	// Evidence is the folder with the recording; empty: none was kept.
	Evidence string
}

// State is what a cut right after a sync call left of a thread's tree.
type State struct {
	Thread   int // from 1
	Op       int // its op, from 1, that had been acknowledged last
	Recovery verdict.Recovery
	Result   promise.Result // of no meaning where nothing was recovered

	tree *inspect.Tree // of all threads, as it was read back
}

// Broken tells whether a promise was broken, or nothing recovered.
func (s State) Broken() bool { return s.Recovery.Class != verdict.Recovered || s.Result.Broken() }

// Broken is the first state that is; nil: none.
func (o *Outcome) Broken() *State {
	for i := range o.States {
		if o.States[i].Broken() {
			return &o.States[i]
		}
	}
	return nil
}

// Wrong tells whether the workload went as it does on a correct system.
func (o *Outcome) Wrong() bool { return o.Broken() != nil || o.Failed > 0 || o.Trouble != "" }

// Run carries out the workloads, and tells each of one after the other, from one
// goroutine, in no order. It ends with the workloads, with ctx, or with an error, which
// is the harness's.
func Run(ctx context.Context, stand *campaign.Stand, workloads iter.Seq[Workload], o Options, each func(Outcome)) error {
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs, done := make(chan Outcome), make(chan Outcome)
	var crew sync.WaitGroup
	for n := range max(1, o.Jobs) {
		w := &worker{stand: stand, seed: o.Seed, evidence: o.Evidence, folder: filepath.Join(o.Folder, strconv.Itoa(n))}
		crew.Go(func() {
			if err := w.work(working, jobs, done); err != nil {
				cancel(err)
			}
		})
	}
	go func() { // ends with the workloads, or with working
		defer close(jobs)
		n := 0
		for w := range workloads {
			n++
			select {
			case jobs <- Outcome{Number: n, Workload: w}:
			case <-working.Done():
				return
			}
		}
	}()
	go func() { crew.Wait(); close(done) }()
	for out := range done {
		each(out)
	}
	if err := context.Cause(working); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
