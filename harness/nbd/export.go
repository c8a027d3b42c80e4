package nbd

import (
	"fmt"
	"math"
	"syscall"
)

// What the block sizes of an Export are when they are left zero, in bytes.
const (
	DefaultMinBlock       = 512
	DefaultPreferredBlock = 4096
	DefaultMaxBlock       = 32 << 20
)

// Bounds of the block sizes, in bytes. The protocol sets the first (and 2^32-1
// for the second, which is more than a request may cost here).
const (
	maxMinBlock = 64 << 10
	maxMaxBlock = 64 << 20
)

// Export says what the client is told about the disk, and hence which requests
// are let through to the device. A request of a kind that was not advertised
// is refused with EINVAL, and so is a FUA flag that was not advertised. A
// write to a read-only disk is refused with EPERM.
type Export struct {
	// Size of the disk in bytes, a multiple of MinBlock.
	Size int64

	Flush       bool // a volatile write cache is present, and can be flushed
	FUA         bool // write, trim and write-zeroes may ask to be durable
	Trim        bool // ranges may be discarded
	WriteZeroes bool // ranges may be zeroed without a payload
	ReadOnly    bool // nothing may be written; Trim and WriteZeroes are not advertised then

	// MinBlock is what offset and length must be a multiple of: a power of
	// two from 1 to 65536; zero means 512.
	MinBlock uint32
	// PreferredBlock is a power of two, at least 512 and MinBlock; zero means
	// 4096, or MinBlock if that is larger.
	PreferredBlock uint32
	// MaxBlock is the longest payload of a read or a write: a multiple of
	// MinBlock, from PreferredBlock to 64 MiB; zero means 32 MiB.
	MaxBlock uint32
}

// complete returns e with its defaults filled in, or what is wrong with it.
func (e Export) complete() (Export, error) {
	if e.MinBlock == 0 {
		e.MinBlock = DefaultMinBlock
	}
	if e.PreferredBlock == 0 {
		e.PreferredBlock = max(DefaultPreferredBlock, e.MinBlock)
	}
	if e.MaxBlock == 0 {
		e.MaxBlock = DefaultMaxBlock
	}
	switch {
	case !powerOfTwo(e.MinBlock) || e.MinBlock > maxMinBlock:
		return e, fmt.Errorf("check export: minimum block %d is not a power of two from 1 to %d", e.MinBlock, maxMinBlock)
	case !powerOfTwo(e.PreferredBlock) || e.PreferredBlock < max(512, e.MinBlock):
		return e, fmt.Errorf("check export: preferred block %d is not a power of two from %d", e.PreferredBlock, max(512, e.MinBlock))
	case e.MaxBlock < e.PreferredBlock || e.MaxBlock > maxMaxBlock || e.MaxBlock%e.MinBlock != 0:
		return e, fmt.Errorf("check export: maximum block %d is not a multiple of %d from %d to %d",
			e.MaxBlock, e.MinBlock, e.PreferredBlock, maxMaxBlock)
	case e.Size < 0 || e.Size%int64(e.MinBlock) != 0:
		return e, fmt.Errorf("check export: size %d is not a multiple of the minimum block %d", e.Size, e.MinBlock)
	}
	return e, nil
}

func powerOfTwo(n uint32) bool { return n != 0 && n&(n-1) == 0 }

// transmissionFlags are what the export advertises in the handshake.
func (e Export) transmissionFlags() uint16 {
	flags := uint16(flagHasFlags)
	for _, f := range []struct {
		on  bool
		bit uint16
	}{
		{e.ReadOnly, flagReadOnly},
		{e.Flush, flagSendFlush},
		{e.FUA, flagSendFUA},
		{e.Trim && !e.ReadOnly, flagSendTrim},
		{e.WriteZeroes && !e.ReadOnly, flagSendWriteZeroes},
	} {
		if f.on {
			flags |= f.bit
		}
	}
	return flags
}

// check returns zero if the request may go to the device, and otherwise the
// error that the client is told. It looks at the header alone.
func (e Export) check(h header) syscall.Errno {
	if !e.advertised(h.command) || !e.allowedFlags(h) {
		return syscall.EINVAL
	}
	if h.command == Flush {
		if h.offset != 0 || h.length != 0 {
			return syscall.EINVAL // reserved by the protocol
		}
		return 0
	}
	if e.ReadOnly && h.command != Read {
		return syscall.EPERM
	}
	return e.checkRange(h)
}

// advertised says whether the client was told that it may use the command.
func (e Export) advertised(c Command) bool {
	switch c {
	case Read, Write:
		return true
	case Flush:
		return e.Flush
	case Trim:
		return e.Trim
	case WriteZeroes:
		return e.WriteZeroes
	}
	return false
}

// allowedFlags says whether every flag of the request may be there. The
// protocol lets FUA stand on any command, once it was advertised.
func (e Export) allowedFlags(h header) bool {
	var known uint16
	if e.FUA {
		known |= requestFUA
	}
	if h.command == WriteZeroes {
		known |= requestNoHole
	}
	return h.flags&^known == 0
}

// checkRange checks offset and length. Only commands with a payload are bound
// by the largest block: the protocol lets trim and write-zeroes be longer, and
// QEMU sends a trim of up to 2 GiB.
func (e Export) checkRange(h header) syscall.Errno {
	mask := uint64(e.MinBlock - 1)
	if h.length == 0 || h.offset&mask != 0 || uint64(h.length)&mask != 0 || uint64(h.length) > math.MaxInt {
		return syscall.EINVAL
	}
	if (h.command == Read || h.command == Write) && h.length > e.MaxBlock {
		return syscall.EINVAL
	}
	size := uint64(e.Size)
	if h.offset > size || uint64(h.length) > size-h.offset {
		if h.command == Write || h.command == WriteZeroes {
			return syscall.ENOSPC
		}
		return syscall.EINVAL
	}
	return 0
}
