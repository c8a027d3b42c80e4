package ops

import (
	"runtime/debug"

	"golang.org/x/sys/unix"

	"powercut/guest/workload"
)

// data is what changes a file's bytes, size or blocks.
func (r *runner) data(o Op, k int) error {
	switch o.Verb {
	case Write:
		return r.with(o.File, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, func(fd int) error {
			if IsHandle(o.File) {
				if err := unix.Ftruncate(fd, 0); err != nil {
					return err
				}
			}
			return r.write(fd, 0, o.Length, k)
		})
	case Append:
		return r.with(o.File, unix.O_RDWR|o.openFlags(), func(fd int) error {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return err
			}
			return r.write(fd, st.Size, o.Length, k)
		})
	case Clone:
		return r.clone(o)
	}
	return r.with(o.File, unix.O_RDWR|o.openFlags(), func(fd int) error {
		switch o.Verb {
		case Pwrite:
			return r.write(fd, o.Offset, o.Length, k)
		case MmapWrite:
			return mapped(fd, o, unix.PROT_READ|unix.PROT_WRITE, func(mem []byte) error {
				workload.Fill(mem[o.Offset:], r.plan.Seed, o.Offset, k)
				return nil
			})
		case Truncate:
			return unix.Ftruncate(fd, o.Offset)
		case CloneRange:
			return r.cloneRange(o, fd)
		}
		return unix.Fallocate(fd, o.allocation(), o.Offset, o.Length)
	})
}

// allocation is the mode of fallocate(2).
func (o Op) allocation() (mode uint32) {
	switch {
	case o.Verb == Punch:
		return unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	case o.Verb == ZeroRange:
		mode = unix.FALLOC_FL_ZERO_RANGE
	case o.Has(Collapse):
		mode = unix.FALLOC_FL_COLLAPSE_RANGE
	case o.Has(Insert):
		mode = unix.FALLOC_FL_INSERT_RANGE
	case o.Has(Unshare):
		mode = unix.FALLOC_FL_UNSHARE_RANGE
	}
	if o.Has(KeepSize) {
		mode |= unix.FALLOC_FL_KEEP_SIZE
	}
	return mode
}

// write is one pwrite(2). A short one is told as ENOSPC, the only reason for one to a
// regular file that a second try would name.
func (r *runner) write(fd int, off, length int64, k int) error {
	if length == 0 {
		return nil
	}
	if r.buf == nil { // O_DIRECT wants memory that is aligned, and a page is
		var err error
		if r.buf, err = unix.Mmap(-1, 0, MaxLength, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return err
		}
	}
	buf := r.buf[:length]
	workload.Fill(buf, r.plan.Seed, off, k)
	n, err := unix.Pwrite(fd, buf, off)
	if err == nil && int64(n) < length {
		err = unix.ENOSPC
	}
	return err
}

// mapped maps the file up to the end of the op's range, which must lie within its
// size. A page that the file system cannot provide is EIO (SIGBUS, mmap(2)).
func mapped(fd int, o Op, protection int, do func(mem []byte) error) (err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	end := o.Offset + o.Length
	if st.Mode&unix.S_IFMT != unix.S_IFREG || end > st.Size {
		return unix.EINVAL
	}
	from := o.Offset &^ int64(unix.Getpagesize()-1)
	if o.Verb != Msync {
		from = 0 // offsets in mem are those of the file
	}
	mem, err := unix.Mmap(fd, from, int(end-from), protection, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = unix.EIO
		}
		if unmapped := unix.Munmap(mem); err == nil {
			err = unmapped
		}
	}()
	return do(mem)
}

func (r *runner) clone(o Op) error {
	return r.with(o.File, unix.O_RDONLY, func(source int) error {
		return r.with(o.To, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, func(fd int) error {
			return unix.IoctlFileClone(fd, source)
		})
	})
}

func (r *runner) cloneRange(o Op, source int) error {
	return r.with(o.To, unix.O_RDWR, func(fd int) error {
		return unix.IoctlFileCloneRange(fd, &unix.FileCloneRange{
			Src_fd: int64(source), Src_offset: uint64(o.Offset), Src_length: uint64(o.Length), Dest_offset: uint64(o.At),
		})
	})
}
