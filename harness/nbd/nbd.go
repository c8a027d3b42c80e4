// Package nbd serves one disk over the NBD protocol, on one connection, to
// QEMU and to any other client of the fixed newstyle handshake.
//
// The protocol is that of the NBD project, doc/proto.md. Of it the server
// speaks the baseline: simple replies, the default export (the one with the
// empty name), and the commands read, write, flush, trim and write-zeroes.
// Structured replies, metadata contexts and TLS are refused, so clients fall
// back. CAN_MULTI_CONN is never advertised: a flush on one connection says
// nothing about another, and a drive has one cable.
//
// # Data flow
//
//	client ─▶ Serve ─▶ check ─▶ Device.Submit ─ … ─▶ reply ─▶ client
//
// One goroutine reads requests and submits them in their order of arrival.
// The device answers each at once, later, in any order, from any goroutine, or
// never. A device that answers inside Submit costs no hand-over to another
// goroutine.
//
// # Limits
//
// At most 128 requests and 64 MiB of payload are in flight on a connection;
// beyond that nothing more is read until the device has answered something.
// A payload is at most MaxBlock bytes, an option at most 8 KiB, a handshake at
// most 64 options and 30 seconds.
package nbd

import (
	"context"
	"fmt"
	"net"

	"powercut/harness/punctual"
)

// Command is what a request asks for. The values are those of the protocol.
type Command uint8

// The commands that reach a Device.
const (
	Read        Command = 0
	Write       Command = 1
	Flush       Command = 3
	Trim        Command = 4
	WriteZeroes Command = 6
)

// disconnect ends a connection; it never reaches a Device.
const disconnect Command = 2

// String returns the command's name, "write-zeroes" for example.
func (c Command) String() string {
	switch c {
	case Read:
		return "read"
	case Write:
		return "write"
	case disconnect:
		return "disconnect"
	case Flush:
		return "flush"
	case Trim:
		return "trim"
	case WriteZeroes:
		return "write-zeroes"
	}
	return fmt.Sprintf("command(%d)", uint8(c))
}

// Request is one request of the client, already checked against the export.
type Request struct {
	Command Command
	// FUA asks that the data be durable before the reply. It is set for
	// write, trim and write-zeroes only.
	FUA bool
	// NoHole asks write-zeroes to keep the range allocated.
	NoHole bool
	// Offset is in bytes, a multiple of Export.MinBlock. Zero for a flush.
	Offset int64
	// Length is in bytes, a multiple of Export.MinBlock and never zero, but
	// for a flush, where it is. Trim and write-zeroes carry no payload and
	// may be longer than Export.MaxBlock.
	Length int
	// Data is the payload of a write, or the buffer of Length bytes that a
	// read has to fill entirely before it is answered (it holds stale bytes
	// until then). It belongs to the device until it calls reply, or longer (Keep).
	Data []byte

	buffer *buffer // where Data lies
	pool   *pool   // where buffer belongs
	kept   bool
}

// Keep lets the device have Data until it calls done, from any goroutine, also when it
// has replied. Keep comes before reply.
func (r *Request) Keep() (done func()) {
	r.kept = true
	b, p := r.buffer, r.pool
	return func() {
		if b != nil {
			p.put(b)
		}
	}
}

// Device is what is served.
type Device interface {
	// Submit takes one request. The server calls it from one goroutine a
	// connection, in order of arrival, with requests already checked against
	// size and limits. While it runs, no other request is taken, and Serve
	// does not end: a device that is slow returns, and replies later.
	//
	// reply is called at most once, at once or later and from any goroutine,
	// with nil or an error that wraps a syscall.Errno (EIO, ENOSPC, EINVAL,
	// …; see Serve for what the client is told). A second call does nothing.
	// It may never be called: the world has stopped (the power was cut) and
	// the client must not hear an answer. It may be called after Serve has
	// returned, to no effect.
	//
	// reply writes to the socket before it returns. It blocks while the
	// client does not read, so hold no lock that Submit needs.
	Submit(r *Request, reply func(error))
}

// Serve handshakes and serves one connection. It owns conn and closes it.
//
// It returns nil when the client has disconnected between two messages: with
// NBD_CMD_DISC or NBD_OPT_ABORT, or by being gone (killed, say). A client that
// dies inside a message gives an error that wraps io.ErrUnexpectedEOF. If ctx
// ends, the error wraps its cause. Any other error is a failed connection or
// a client that does not follow the protocol.
//
// Requests that came whole before the client went are all submitted, unless
// they were held back by the limits. Serve returns without waiting for
// requests which the device has not answered.
//
// The client is told the errors EPERM, EIO, ENOMEM, EINVAL, ENOSPC, EOVERFLOW,
// ENOTSUP and ESHUTDOWN as they are; EROFS becomes EPERM, EDQUOT and EFBIG
// become ENOSPC, anything else is EIO.
func Serve(ctx context.Context, conn net.Conn, e Export, d Device) error {
	defer conn.Close()
	e, err := e.complete()
	if err != nil {
		return fmt.Errorf("serve nbd: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	s := newSession(ctx, punctual.Conn(conn), e, d)
	err = s.outcome(s.run())
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("serve nbd: %w", err)
}
