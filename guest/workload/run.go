package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
)

// Journal is where Run says what it does: the ledger in memory, or a channel to
// the harness. Start comes before the op's first system call, Publish after its
// last.
type Journal interface {
	Start(op uint64)
	Publish(r ledger.Record)
}

// Run carries out the plan in the file system mounted at dir. An op that fails is
// a result, kept in its record; an error is returned only where the plan could
// not be begun. Times in the records are nanoseconds since Run was called.
//
// Between op 0 and op 1 settle is called, to make the start of the workload
// durable by means other than the file system's.
func (p Plan) Run(dir string, j Journal, settle func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection inside an op
	r := runner{plan: p, path: filepath.Join(dir, p.Path), dir: dir, journal: j, epoch: time.Now()}
	if err := r.create(); err != nil {
		return err
	}
	if err := settle(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return r.ops()
}

type runner struct {
	plan    Plan
	others  []int // descriptors of the observers
	path    string
	dir     string
	journal Journal
	epoch   time.Time
}

// now is CLOCK_MONOTONIC, in nanoseconds since the epoch.
func (r *runner) now() int64 { return int64(time.Since(r.epoch)) }

// create is op 0: the file, its first content, and the fsync of it and of the
// directories that lead to it.
func (r *runner) create() error {
	rec := ledger.Record{Start: r.now()}
	r.journal.Start(0)
	if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
		return fmt.Errorf("create workload file: %w", err)
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("create workload file: %w", err)
	}
	defer f.Close()
	if r.plan.Kind == Overwrite {
		if err := r.fillFile(f); err != nil {
			return fmt.Errorf("write workload file: %w", err)
		}
	}
	rec.Sync = r.now()
	err = errors.Join(f.Sync(), r.syncParents())
	rec.End = r.now()
	if err != nil {
		return fmt.Errorf("sync workload file: %w", err)
	}
	rec.Synced = true
	r.journal.Publish(rec)
	return nil
}

// fillFile writes the content from before op 1.
func (r *runner) fillFile(f *os.File) error {
	buf := make([]byte, min(r.plan.Size, 1<<20))
	for off := int64(0); off < r.plan.Size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), r.plan.Size-off)]
		Fill(buf, r.plan.Seed, off, 0)
		if _, err := f.WriteAt(buf, off); err != nil {
			return err
		}
	}
	return nil
}

// syncParents syncs each folder from the file's up to the mount point.
func (r *runner) syncParents() error {
	for dir := filepath.Dir(r.path); ; dir = filepath.Dir(dir) {
		if err := syncDir(dir); err != nil || dir == filepath.Clean(r.dir) {
			return err
		}
	}
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// ops runs op 1 to op Count.
func (r *runner) ops() error {
	fd, err := unix.Open(r.path, unix.O_WRONLY|unix.O_CLOEXEC|openFlag(r.plan.Call), 0)
	if err != nil {
		return fmt.Errorf("open workload file: %w", err)
	}
	defer unix.Close(fd)
	if err := r.openObservers(); err != nil {
		return err
	}
	sync := syncCall(r.plan.Call)
	buf := make([]byte, r.plan.Bytes)
	for k := 1; k <= r.plan.Count; k++ {
		at := r.plan.Op(k)
		Fill(buf, r.plan.Seed, at.Offset, k)
		r.op(uint64(k), fd, buf, at.Offset, sync)
	}
	return nil
}

// openObservers opens a descriptor for each observer. They end with the guest.
func (r *runner) openObservers() error {
	for range r.plan.Observers {
		fd, err := unix.Open(r.path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open workload file for an observer: %w", err)
		}
		r.others = append(r.others, fd)
	}
	return nil
}

// ask lets everybody sync again who has the file open, after an op has failed, and
// notes who is told of it. An O_SYNC write has no sync call that could be repeated:
// fsync stands in for it.
func (r *runner) ask(rec *ledger.Record, fd int, sync func(int) error) {
	if sync == nil {
		sync = unix.Fsync
	}
	for _, other := range r.others {
		rec.Asked++
		if sync(other) != nil {
			rec.Told++
		}
	}
	rec.Again = errnoOf(sync(fd))
}

// errnoOf is the number of an error of a system call, or 0.
func errnoOf(err error) int32 {
	var errno unix.Errno
	errors.As(err, &errno)
	return int32(errno)
}

// op is one write and its sync call.
func (r *runner) op(k uint64, fd int, buf []byte, off int64, sync func(int) error) {
	rec := ledger.Record{Op: k}
	r.journal.Start(k)
	rec.Start = r.now()
	rec.Sync = rec.Start
	n, err := unix.Pwrite(fd, buf, off)
	if err == nil && n < len(buf) {
		err = unix.ENOSPC // the only reason for a short write to a regular file that a retry would name
	}
	if err == nil && sync != nil {
		rec.Sync = r.now()
		err = sync(fd)
	}
	rec.End = r.now()
	rec.Errno = errnoOf(err)
	rec.Synced = err == nil && r.plan.Call != None
	if err != nil && len(r.others) > 0 {
		r.ask(&rec, fd, sync)
	}
	r.journal.Publish(rec)
}

// openFlag is the flag of open(2) that makes each write a sync call.
func openFlag(c Call) int {
	switch c {
	case OSync:
		return unix.O_SYNC
	case ODsync:
		return unix.O_DSYNC
	}
	return 0
}

// syncCall is the call that follows each write; nil where the write is the sync
// call itself, or where there is none.
func syncCall(c Call) func(fd int) error {
	switch c {
	case Fsync:
		return unix.Fsync
	case Fdatasync:
		return unix.Fdatasync
	}
	return nil
}
