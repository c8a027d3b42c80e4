// Package fsyncrange syncs a range of a file, by the device that the kernel
// module fsync_range brings (images/modules/fsync_range).
package fsyncrange

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Path is the device. It is there once the module is loaded.
const Path = "/dev/fsync_range"

// number is FSYNC_RANGE of the module's header, _IOW('p', 0xC7, struct
// fsync_range): to the kernel (1<<30), and the size of what is passed.
const number = 1<<30 | unsafe.Sizeof(request{})<<16 | 'p'<<8 | 0xC7

// request is struct fsync_range of the module's header.
type request struct {
	fd       int32
	datasync uint32
	start    uint64
	length   uint64
}

// Device is the open device.
type Device struct{ file *os.File }

// Open opens the device.
func Open() (*Device, error) {
	f, err := os.OpenFile(Path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &Device{f}, nil
}

// Close closes the device.
func (d *Device) Close() error { return d.file.Close() }

// Sync makes length bytes of the file behind fd durable, from start on, and what
// metadata is needed to read them; without datasync all of its metadata. A length
// of 0 means to the end of the file. The error is an errno, as of fsync(2); EINVAL
// also where the range is not within 63 bits.
func (d *Device) Sync(fd int, start, length int64, datasync bool) error {
	r := request{fd: int32(fd), start: uint64(start), length: uint64(length)}
	if datasync {
		r.datasync = 1
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.file.Fd(), number, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return errno
	}
	return nil
}
