package guest

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"powercut/guest/jbd2"
	"powercut/guest/wire"
)

// watch sees what a recovery looks at.
type watch struct {
	probe   *jbd2.Probe
	blind   error // why there is no probe
	journal bool  // whether there may be a jbd2 journal
	seen    wire.Watched
}

// begin looks from here on. Of file systems that have no jbd2 journal there is nothing
// to be seen but where the file lies.
func (w *watch) begin(filesystem string) {
	w.seen = wire.Watched{}
	if w.journal = strings.HasPrefix(filesystem, "ext"); !w.journal {
		return
	}
	if w.probe == nil && w.blind == nil {
		w.probe, w.blind = jbd2.Open()
	}
	err := w.blind
	if err == nil {
		err = w.probe.Begin()
	}
	if err != nil {
		w.seen.Blind = err.Error()
	}
}

// end says what was seen.
func (w *watch) end() *wire.Watched {
	if w.journal && w.seen.Blind == "" {
		var err error
		if w.seen.Looked, err = w.probe.Looked(); err != nil {
			w.seen.Blind, w.seen.Looked = err.Error(), nil
		}
	}
	return &w.seen
}

// locate finds where the file lies; what it cannot find is left out.
func (w *watch) locate(f *os.File) { w.seen.Extents = extents(f) }

// The ioctl FS_IOC_FIEMAP (linux/fiemap.h; Documentation/filesystems/fiemap.rst): its
// argument is a struct fiemap, which ends with extents.
const (
	fiemap        = 0xC020660B
	extentLast    = 0x1
	extentMerged  = 0x1000 // of blocks that the file system keeps by themselves
	extentsAtOnce = 64
)

type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

// extents are those of a file whose bytes lie on the drive as they are: not those that are
// unwritten, shared, packed or encrypted, or that the kernel says anything else of.
func extents(f *os.File) (out []wire.Extent) {
	var ask struct {
		start, length uint64
		flags, mapped uint32
		count, _      uint32
		extents       [extentsAtOnce]fiemapExtent
	}
	for {
		ask.length, ask.count = ^uint64(0)-ask.start, extentsAtOnce
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fiemap, uintptr(unsafe.Pointer(&ask))); errno != 0 {
			return nil
		}
		for _, e := range ask.extents[:ask.mapped] {
			if e.flags&^(extentLast|extentMerged) == 0 {
				out = append(out, wire.Extent{Logical: int64(e.logical), Physical: int64(e.physical), Length: int64(e.length)})
			}
			if ask.start = e.logical + e.length; e.flags&extentLast != 0 {
				return out
			}
		}
		if ask.mapped == 0 {
			return out
		}
	}
}
