package ops

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// World is what ops are carried out on.
type World struct {
	Dir     string                     // the root of paths
	Remount func(options string) error // nil: EOPNOTSUPP
}

// Run carries out the plan's ops, op 1 first, and publishes a record of each: its
// errno, and Synced where it is a sync call that succeeded. It ends with the first op
// that fails with an error which the op does not allow. Op 0 is what is before op 1:
// settle, which makes it durable.
func (p Plan) Run(w World, j workload.Journal, settle func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection inside an op
	defer unix.Umask(unix.Umask(0))
	r := &runner{plan: p, world: w, handles: map[string]int{}, epoch: time.Now()}
	defer r.closeAll()
	j.Start(0)
	if err := settle(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	j.Publish(ledger.Record{End: r.now(), Synced: true})
	for i, o := range p.Ops {
		rec := ledger.Record{Op: uint64(i + 1)}
		j.Start(rec.Op)
		rec.Start = r.now()
		rec.Sync = rec.Start
		rec.Errno = errnoOf(r.do(o, i+1))
		rec.End = r.now()
		rec.Synced = rec.Errno == 0 && o.Syncs()
		j.Publish(rec)
		if rec.Errno != 0 && !o.Allows(unix.ErrnoName(unix.Errno(rec.Errno))) {
			return nil
		}
	}
	return nil
}

// errnoOf is the number of an error of a system call; 0 for none.
func errnoOf(err error) int32 {
	var errno unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return int32(errno)
	}
	return int32(unix.EIO)
}

// ErrnoName is the name of a system call's error, such as ENOENT.
func ErrnoName(err error) string { return unix.ErrnoName(unix.Errno(errnoOf(err))) }

// runner is an execution of a plan.
type runner struct {
	plan    Plan
	world   World
	handles map[string]int // descriptors kept open
	buf     []byte         // page-aligned, for what is written
	epoch   time.Time
}

func (r *runner) now() int64 { return int64(time.Since(r.epoch)) }

func (r *runner) closeAll() {
	for _, fd := range r.handles {
		unix.Close(fd)
	}
	if r.buf != nil {
		_ = unix.Munmap(r.buf)
	}
}

func (r *runner) path(name string) string { return filepath.Join(r.world.Dir, name) }

// do carries out op k.
func (r *runner) do(o Op, k int) error {
	switch o.Verb {
	case Create, Open:
		return r.open(o)
	case Close:
		fd := r.handles[o.File]
		delete(r.handles, o.File)
		return unix.Close(fd)
	case Tmpfile:
		fd, err := unix.Open(r.path(o.File), unix.O_TMPFILE|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return r.keep(o.Handle, fd, err)
	case Write, Append, Pwrite, MmapWrite, Truncate, Fallocate, Punch, ZeroRange, Clone, CloneRange:
		return r.data(o, k)
	case Link, Symlink, Rename, Unlink, Rmdir, Mkdir, Mknod:
		return r.name(o)
	case SetXattr, RemoveXattr, Chmod, Chown, Utimes:
		return r.attribute(o)
	case Msync: // a mapping of what is open for reading alone is not a shared one
		return r.with(o.File, unix.O_RDWR, func(fd int) error { return r.syncFile(o, fd) })
	case Fsync, Fdatasync, SyncFileRange:
		return r.with(o.File, unix.O_RDONLY, func(fd int) error { return r.syncFile(o, fd) })
	}
	return r.system(o)
}

// with calls do with a descriptor of the file: the kept one, or one that is opened
// for it, as for a kept one that has not the flags which a write is to have. A directory is
// opened for reading, whatever flags say.
func (r *runner) with(file string, flags int, do func(fd int) error) error {
	if IsHandle(file) {
		fd, ok := r.handles[file]
		if !ok {
			return unix.EBADF
		}
		const asked = unix.O_DIRECT | unix.O_SYNC // in which O_DSYNC is
		if flags&asked == 0 {
			return do(fd)
		}
		again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags|unix.O_CLOEXEC, 0)
		return doAndClose(again, err, do)
	}
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(r.path(file), flags, 0o644)
	if err == unix.EISDIR && flags&unix.O_CREAT == 0 {
		fd, err = unix.Open(r.path(file), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	return doAndClose(fd, err, do)
}

// doAndClose calls do with what was opened, and closes that.
func doAndClose(fd int, err error, do func(fd int) error) error {
	if err != nil {
		return err
	}
	err = do(fd)
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	return err
}

// openFlags are the flags of open(2) that the op's words stand for.
func (o Op) openFlags() (flags int) {
	for word, flag := range map[string]int{
		OCreat: unix.O_CREAT, OTrunc: unix.O_TRUNC, Direct: unix.O_DIRECT, OSync: unix.O_SYNC, ODsync: unix.O_DSYNC,
	} {
		if o.Has(word) {
			flags |= flag
		}
	}
	return flags
}

func (r *runner) open(o Op) error {
	if o.Verb == Create {
		return r.with(o.File, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, func(int) error { return nil })
	}
	flags := unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(r.path(o.File), unix.O_RDWR|flags|o.openFlags(), 0o644)
	if err == unix.EISDIR && o.openFlags() == 0 {
		fd, err = unix.Open(r.path(o.File), unix.O_RDONLY|flags, 0)
	}
	return r.keep(o.Handle, fd, err)
}

func (r *runner) keep(handle string, fd int, err error) error {
	if err != nil {
		return err
	}
	if old, ok := r.handles[handle]; ok {
		unix.Close(old)
	}
	r.handles[handle] = fd
	return nil
}

// syncFile is a sync call on one file.
func (r *runner) syncFile(o Op, fd int) error {
	switch o.Verb {
	case Fsync:
		return unix.Fsync(fd)
	case Fdatasync:
		return unix.Fdatasync(fd)
	case SyncFileRange:
		return unix.SyncFileRange(fd, o.Offset, o.Length,
			unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
	return mapped(fd, o, unix.PROT_READ, func(mem []byte) error { return unix.Msync(mem, unix.MS_SYNC) })
}

// system is what concerns the whole file system, or the machine.
func (r *runner) system(o Op) error {
	switch o.Verb {
	case Sync:
		unix.Sync()
		return nil
	case Wait:
		time.Sleep(o.Delay)
		return nil
	case DropCaches:
		return dropCaches()
	case Remount:
		if r.world.Remount == nil {
			return unix.EOPNOTSUPP
		}
		return r.world.Remount(o.Word)
	}
	return r.with(".", unix.O_RDONLY, func(fd int) error {
		switch o.Verb {
		case Syncfs:
			return unix.Syncfs(fd)
		case Freeze:
			return unix.IoctlSetInt(fd, fiFreeze, 0)
		case Thaw:
			return unix.IoctlSetInt(fd, fiThaw, 0)
		}
		return unix.ENOSYS
	})
}

// The ioctls that freeze and thaw a file system (linux/fs.h).
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// dropCaches makes the kernel forget what it need not keep (admin-guide/sysctl/vm.rst).
func dropCaches() error {
	fd, err := unix.Open("/proc/sys/vm/drop_caches", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("3"))
	return err
}
