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
	turns   *turns
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
		if err := r.allocate(f); err != nil {
			return fmt.Errorf("allocate workload file (%s): %w", r.plan.Allocate, err)
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

// allocate gives the file its size.
func (r *runner) allocate(f *os.File) error {
	switch r.plan.Allocate {
	case Unwritten:
		return unix.Fallocate(int(f.Fd()), 0, 0, r.plan.Size)
	case Sparse:
		return f.Truncate(r.plan.Size)
	}
	return r.fillFile(f)
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
// notes who is told of it. A write that is the sync call itself cannot be repeated,
// and a mapping is of one descriptor: fsync stands in for these.
func (r *runner) ask(rec *ledger.Record, h *handle, synced Extent) {
	sync := h.sync
	if sync == nil || r.plan.Call == Msync {
		sync = whole(unix.Fsync)
	}
	for _, other := range r.others {
		rec.Asked++
		if sync(other, synced) != nil {
			rec.Told++
		}
	}
	rec.Again = errnoOf(sync(h.fd, synced))
}

// errnoOf is the number of an error of a system call, or 0.
func errnoOf(err error) int32 {
	var errno unix.Errno
	errors.As(err, &errno)
	return int32(errno)
}

// op is one op, whose turn it is: its writes and its sync call. The error is of a call that is not to
// be had at all.
func (r *runner) op(k int, h *handle) error {
	at, synced := r.plan.Op(k), r.plan.Sync
	if synced == (Extent{}) {
		synced = at
	}
	rec := ledger.Record{Op: uint64(k)}
	rec.Start = r.now()
	rec.Sync = rec.Start
	err := r.write(h, at)
	if err == nil && h.sync != nil {
		rec.Sync = r.now()
		err = h.sync(h.fd, synced)
	}
	rec.End = r.now()
	if unsupported := r.plan.unsupported(err); unsupported != err {
		return unsupported
	}
	rec.Errno = errnoOf(err)
	rec.Synced = err == nil && r.plan.Call != None
	if err != nil && len(r.others) > 0 {
		r.ask(&rec, h, synced)
	}
	r.turns.publish(rec)
	return nil
}

// write writes the op's bytes, a chunk at a time.
func (r *runner) write(h *handle, at Extent) error {
	chunk := r.plan.Chunk
	if chunk == 0 {
		chunk = at.Length
	}
	for off := int64(0); off < at.Length; off += chunk {
		if err := h.write(h.buf[off:min(off+chunk, at.Length)], at.Offset+off); err != nil {
			return err
		}
	}
	return nil
}

// unsupported turns an error which says that there is no such call, on this kernel
// or on this file system, into one that ends the workload; it returns others as
// they are.
func (p Plan) unsupported(err error) error {
	for _, no := range []unix.Errno{unix.ENOSYS, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOTTY, unix.EPERM} {
		if errors.Is(err, no) {
			return fmt.Errorf("the call %s is not supported by this kernel and file system: %w", p.Call, err)
		}
	}
	return err
}
