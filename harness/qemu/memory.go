package qemu

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ram is a guest's memory: an anonymous file, mapped here and inherited by
// QEMU. It lives until close, however QEMU ends.
type ram struct {
	file  *os.File
	bytes []byte // MAP_SHARED over the whole file; nil once closed
}

// newRAM makes memory of size bytes, all zero, none of it resident. It is
// sealed against shrinking, so that touching the mapping can never fault.
func newRAM(size int64) (*ram, error) {
	fd, err := unix.MemfdCreate("powercut-ram", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create guest memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "powercut-ram")
	bytes, err := mapFile(file, size)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("map guest memory: %w", err)
	}
	return &ram{file: file, bytes: bytes}, nil
}

// mapFile gives file its size for good and maps it.
func mapFile(file *os.File, size int64) ([]byte, error) {
	if err := file.Truncate(size); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return nil, err
	}
	return unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// close unmaps and frees the memory. It can be called again.
func (r *ram) close() {
	if r.bytes == nil {
		return
	}
	_ = unix.Munmap(r.bytes) // fails for a mapping that is not one, and this is one
	r.bytes = nil
	r.file.Close()
}
