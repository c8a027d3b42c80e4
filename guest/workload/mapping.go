package workload

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// mapFile makes the handle's writes stores into a shared mapping of the file, and
// its sync call msync(MS_SYNC) of a part of it.
func (h *handle) mapFile(p Plan) error {
	size := max(p.Size, p.SizeAfter(p.Count))
	mem, err := unix.Mmap(h.fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map workload file: %w", err)
	}
	h.onClose(func() error { return unix.Munmap(mem) })
	h.write = func(b []byte, off int64) error {
		if p.Kind == Append { // a store does not grow a file (mmap(2))
			if err := unix.Ftruncate(h.fd, off+int64(len(b))); err != nil {
				return err
			}
		}
		return store(mem[off:], b)
	}
	page := int64(os.Getpagesize())
	h.sync = func(_ int, e Extent) error { return unix.Msync(mem[e.Offset/page*page:e.End()], unix.MS_SYNC) }
	return nil
}

// store copies b into a mapping. Where the kernel cannot provide a page, for want of
// room or because the drive fails, it says so with SIGBUS.
func store(to, b []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = unix.EIO
		default:
			panic(fault)
		}
	}()
	copy(to, b)
	return nil
}
