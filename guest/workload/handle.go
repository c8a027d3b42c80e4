package workload

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"powercut/guest/fsyncrange"
)

// handle is the workload's file, opened for its call.
type handle struct {
	fd    int
	write func(b []byte, off int64) error   // one write call
	sync  func(fd int, synced Extent) error // nil where the write is the sync call, or there is none
	buf   []byte                            // room for an op, at the beginning of a page
	ends  []func() error                    // to be called at the end
}

// open opens the file and all that the plan's call needs.
func (p Plan) open(path string) (_ *handle, err error) {
	h := &handle{fd: -1}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|openFlags(p.Call), 0); err != nil {
		return nil, p.unsupported(fmt.Errorf("open workload file: %w", err))
	}
	h.onClose(func() error { return unix.Close(h.fd) })
	if h.buf, err = unix.Mmap(-1, 0, int(p.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return nil, fmt.Errorf("get memory for an op: %w", err)
	}
	h.onClose(func() error { return unix.Munmap(h.buf) })
	h.write = h.pwrite(0)
	if err := h.prepare(p, filepath.Dir(path)); err != nil {
		return nil, p.unsupported(fmt.Errorf("prepare the call %s: %w", p.Call, err))
	}
	return h, nil
}

func (h *handle) onClose(end func() error) { h.ends = append(h.ends, end) }

func (h *handle) close() {
	for i := len(h.ends) - 1; i >= 0; i-- {
		_ = h.ends[i]()
	}
}

// openFlags are the flags of open(2) that a call stands for.
func openFlags(c Call) (flags int) {
	if c.Direct() {
		flags = unix.O_DIRECT
	}
	switch c.Buffered() {
	case OSync:
		flags |= unix.O_SYNC
	case ODsync:
		flags |= unix.O_DSYNC
	}
	return flags
}

// prepare sets write and sync as the call demands.
func (h *handle) prepare(p Plan, dir string) (err error) {
	switch p.Call.Buffered() {
	case Fsync:
		h.sync = whole(unix.Fsync)
	case Fdatasync:
		h.sync = whole(unix.Fdatasync)
	case Syncfs:
		h.sync = whole(unix.Syncfs)
	case Sync:
		h.sync = whole(func(int) error { unix.Sync(); return nil })
	case RWFSync:
		h.write = h.pwrite(unix.RWF_SYNC)
	case RWFDsync:
		h.write = h.pwrite(unix.RWF_DSYNC)
	case SyncFileRange:
		h.sync = func(fd int, e Extent) error {
			return unix.SyncFileRange(fd, e.Offset, e.Length, unix.SYNC_FILE_RANGE_WRITE_AND_WAIT)
		}
	case FsyncRangeFile, FsyncRangeData:
		h.sync, err = h.fsyncRange(p.Call == FsyncRangeData)
	case FsyncDir:
		h.sync, err = h.fsyncDir(dir)
	case Msync:
		err = h.mapFile(p)
	case UringFsync, UringFdatasync:
		h.sync, err = h.uringFsync(p.Call == UringFdatasync)
	case AIOFsync, AIOFdatasync:
		h.sync, err = h.aioFsync(p.Call == AIOFdatasync)
	}
	return err
}

// whole is a sync call that takes no range.
func whole(call func(fd int) error) func(int, Extent) error {
	return func(fd int, _ Extent) error { return call(fd) }
}

// pwrite is pwritev2(2) with flags, or pwrite(2) where there are none.
func (h *handle) pwrite(flags int) func(b []byte, off int64) error {
	return func(b []byte, off int64) (err error) {
		var n int
		if flags == 0 {
			n, err = unix.Pwrite(h.fd, b, off)
		} else {
			n, err = unix.Pwritev2(h.fd, [][]byte{b}, off, flags)
		}
		if err == nil && n < len(b) {
			err = unix.ENOSPC // the only reason for a short write to a regular file that a retry would name
		}
		return err
	}
}

// fsyncDir is fsync of the file's directory.
func (h *handle) fsyncDir(dir string) (func(int, Extent) error, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	h.onClose(d.Close)
	return func(int, Extent) error { return unix.Fsync(int(d.Fd())) }, nil
}

// fsyncRange is fsync_range, by the device that a module brings.
func (h *handle) fsyncRange(data bool) (func(int, Extent) error, error) {
	dev, err := fsyncrange.Open()
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%w: Linux has no such system call; load the module fsync_range into the guest (guest.module), or use msync or io_uring-fsync, which sync a range as well", err)
	}
	if err != nil {
		return nil, err
	}
	h.onClose(dev.Close)
	return func(fd int, e Extent) error { return dev.Sync(fd, e.Offset, e.Length, data) }, nil
}

// errorOf is the error of a number, or nil.
func errorOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
