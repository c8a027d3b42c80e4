package nbd

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// Numbers of the protocol, doc/proto.md of the NBD project. All integers on
// the wire are big-endian.

// Magic numbers.
const (
	greetingMagic     uint64 = 0x4e42444d41474943 // "NBDMAGIC"
	optionMagic       uint64 = 0x49484156454f5054 // "IHAVEOPT"
	optionReplyMagic  uint64 = 0x0003e889045565a9
	requestMagic      uint32 = 0x25609513
	simpleReplyMagic  uint32 = 0x67446698
	requestHeaderSize        = 28
	replyHeaderSize          = 16
)

// Handshake flags, the server's and the client's.
const (
	handshakeFixedNewstyle = 1 << 0
	handshakeNoZeroes      = 1 << 1
)

// Options of the handshake.
const (
	optExportName = 1
	optAbort      = 2
	optList       = 3
	optInfo       = 6
	optGo         = 7
)

// Types of an option's reply.
const (
	repAck        = 1
	repServer     = 2
	repInfo       = 3
	repErrUnsup   = 1<<31 + 1
	repErrInvalid = 1<<31 + 3
	repErrUnknown = 1<<31 + 6
	repErrTooBig  = 1<<31 + 9
)

// Kinds of information in a repInfo.
const (
	infoExport    = 0
	infoBlockSize = 3
)

// Transmission flags.
const (
	flagHasFlags        = 1 << 0
	flagReadOnly        = 1 << 1
	flagSendFlush       = 1 << 2
	flagSendFUA         = 1 << 3
	flagSendTrim        = 1 << 5
	flagSendWriteZeroes = 1 << 6
)

// Flags of a request.
const (
	requestFUA    = 1 << 0
	requestNoHole = 1 << 1
)

// header is the fixed part of a request.
type header struct {
	magic   uint32
	flags   uint16
	command Command
	// cookie is the client's name for the request; its reply repeats it.
	cookie uint64
	offset uint64
	length uint32
}

// parseHeader reads a header from the first requestHeaderSize bytes of b.
func parseHeader(b []byte) header {
	_ = b[requestHeaderSize-1]
	h := header{
		magic:   binary.BigEndian.Uint32(b),
		flags:   binary.BigEndian.Uint16(b[4:]),
		command: unknownCommand,
		cookie:  binary.BigEndian.Uint64(b[8:]),
		offset:  binary.BigEndian.Uint64(b[16:]),
		length:  binary.BigEndian.Uint32(b[24:]),
	}
	if c := binary.BigEndian.Uint16(b[6:]); c < uint16(unknownCommand) {
		h.command = Command(c)
	}
	return h
}

// unknownCommand stands for every number that Command cannot hold.
const unknownCommand Command = 255

// putReplyHeader writes the header of a simple reply into b.
func putReplyHeader(b []byte, e syscall.Errno, cookie uint64) {
	_ = b[replyHeaderSize-1]
	binary.BigEndian.PutUint32(b, simpleReplyMagic)
	binary.BigEndian.PutUint32(b[4:], uint32(e))
	binary.BigEndian.PutUint64(b[8:], cookie)
}

// wireErrno returns the error number that the client is told. Linux and the
// protocol agree on the numbers; the protocol has only a few of them.
func wireErrno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var e syscall.Errno
	if !errors.As(err, &e) {
		return syscall.EIO
	}
	switch e {
	case syscall.EPERM, syscall.EIO, syscall.ENOMEM, syscall.EINVAL, syscall.ENOSPC,
		syscall.EOVERFLOW, syscall.ENOTSUP, syscall.ESHUTDOWN:
		return e
	case syscall.EROFS:
		return syscall.EPERM
	case syscall.EDQUOT, syscall.EFBIG:
		return syscall.ENOSPC
	}
	return syscall.EIO
}
