package workload

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The numbers of linux/io_uring.h that a single fsync needs.
const (
	uringOpFsync       = 3          // IORING_OP_FSYNC
	uringDatasync      = 1          // IORING_FSYNC_DATASYNC
	uringGetEvents     = 1          // IORING_ENTER_GETEVENTS
	uringOffCompletion = 0x8000000  // IORING_OFF_CQ_RING
	uringOffEntries    = 0x10000000 // IORING_OFF_SQES
)

// uringParams is struct io_uring_params: what the kernel says of a new ring.
type uringParams struct {
	entries, completions, flags, threadCPU, threadIdle, features, wqFD uint32
	_                                                                  [3]uint32
	submission, completion                                             uringOffsets
}

// uringOffsets tells where the words of a ring are in its memory. The seventh is
// that of the array in the submission ring, the sixth that of the entries in the
// completion ring.
type uringOffsets struct {
	head, tail, mask, entries, fifth, sixth, seventh, _ uint32
	_                                                   uint64
}

// uringEntry is struct io_uring_sqe, uringResult struct io_uring_cqe.
type (
	uringEntry struct {
		op, flags uint8
		priority  uint16
		fd        int32
		offset    uint64
		address   uint64
		length    uint32
		opFlags   uint32
		user      uint64
		_         [3]uint64
	}
	uringResult struct {
		user   uint64
		result int32
		flags  uint32
	}
)

// uring is an io_uring for one request at a time.
type uring struct {
	fd                     int
	params                 uringParams
	submission, completion []byte
	entries                []byte
}

// uringFsync is an fsync by io_uring.
func (h *handle) uringFsync(data bool) (func(int, Extent) error, error) {
	u := &uring{}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&u.params)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	u.fd = int(fd)
	h.onClose(func() error { return unix.Close(u.fd) })
	if err := u.mapRings(h); err != nil {
		return nil, fmt.Errorf("map io_uring: %w", err)
	}
	request := uringEntry{op: uringOpFsync}
	if data {
		request.opFlags = uringDatasync
	}
	return func(fd int, e Extent) error {
		request.fd, request.offset, request.length = int32(fd), uint64(e.Offset), uint32(e.Length)
		return u.do(request)
	}, nil
}

// mapRings maps the two rings and the entries.
func (u *uring) mapRings(h *handle) error {
	for _, m := range []struct {
		mem    *[]byte
		offset int64
		size   uint32
	}{
		{&u.submission, 0, u.params.submission.seventh + 4*u.params.entries},
		{&u.completion, uringOffCompletion, u.params.completion.sixth + uint32(unsafe.Sizeof(uringResult{}))*u.params.completions},
		{&u.entries, uringOffEntries, uint32(unsafe.Sizeof(uringEntry{})) * u.params.entries},
	} {
		mem, err := unix.Mmap(u.fd, m.offset, int(m.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			return err
		}
		h.onClose(func() error { return unix.Munmap(mem) })
		*m.mem = mem
	}
	return nil
}

// word is a word of a ring, which the kernel changes too.
func word(ring []byte, at uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&ring[at])) }

// do submits a request and waits for its end.
func (u *uring) do(request uringEntry) error {
	in, out := u.params.submission, u.params.completion
	tail := word(u.submission, in.tail)
	slot := tail.Load() & word(u.submission, in.mask).Load()
	*(*uringEntry)(unsafe.Pointer(&u.entries[uintptr(slot)*unsafe.Sizeof(request)])) = request
	word(u.submission, in.seventh+4*slot).Store(slot)
	tail.Add(1)
	head := word(u.completion, out.head)
	for head.Load() == word(u.completion, out.tail).Load() {
		left := tail.Load() - word(u.submission, in.head).Load() // not yet taken by the kernel
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(left), 1, uringGetEvents, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
	}
	at := uintptr(out.sixth) + uintptr(head.Load()&word(u.completion, out.mask).Load())*unsafe.Sizeof(uringResult{})
	result := (*uringResult)(unsafe.Pointer(&u.completion[at])).result
	head.Add(1)
	return errorOf(unix.Errno(max(0, -result)))
}
