package workload

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The opcodes of linux/aio_abi.h.
const (
	aioOpFsync     = 2 // IOCB_CMD_FSYNC
	aioOpFdatasync = 3 // IOCB_CMD_FDSYNC
)

// aioRequest is struct iocb, aioResult struct io_event.
type (
	aioRequest struct {
		_  uint64 // user data
		_  uint64 // key, flags
		op uint16
		_  int16 // priority
		fd int32
		_  [3]uint64 // memory, length and offset, which an fsync must leave empty
		_  uint64
		_  uint64 // flags, descriptor that is told
	}
	aioResult struct {
		_, _   uint64 // user data, request
		result int64
		_      int64
	}
)

// aioFsync is an fsync by io_submit(2), waited for by io_getevents(2). It has no
// range.
func (h *handle) aioFsync(data bool) (func(int, Extent) error, error) {
	var context uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
		return nil, fmt.Errorf("io_setup: %w", errno)
	}
	h.onClose(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
		return errorOf(errno)
	})
	request := &aioRequest{op: aioOpFsync}
	if data {
		request.op = aioOpFdatasync
	}
	return func(fd int, _ Extent) error {
		request.fd = int32(fd)
		return doAIO(context, request)
	}, nil
}

func doAIO(context uintptr, request *aioRequest) error {
	list := []*aioRequest{request}
	var pinned runtime.Pinner // the kernel follows the list
	pinned.Pin(request)
	defer pinned.Unpin()
	if _, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, context, 1, uintptr(unsafe.Pointer(&list[0]))); errno != 0 {
		return errno
	}
	var result aioResult
	for {
		_, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, context, 1, 1, uintptr(unsafe.Pointer(&result)), 0, 0)
		switch errno {
		case 0:
			return errorOf(unix.Errno(max(0, -result.result)))
		case unix.EINTR: // a signal of the Go runtime
		default:
			return errno
		}
	}
}
