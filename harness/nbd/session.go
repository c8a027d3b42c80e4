package nbd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// readAhead is the size of the input buffer in bytes: room for many headers
// and for small writes, so that one read of the socket gets a whole request.
// Long payloads bypass it.
const readAhead = 32 << 10

// session is one connection.
type session struct {
	ctx    context.Context
	conn   net.Conn
	export Export
	device Device
	in     *bufio.Reader // of the reading goroutine alone
	budget *budget
	pool   pool

	mu   sync.Mutex            // held while a reply is written, so that replies do not mix
	head [replyHeaderSize]byte // guarded by mu
	fail error                 // guarded by mu: the first error of writing; nothing is written after it
}

func newSession(ctx context.Context, conn net.Conn, e Export, d Device) *session {
	return &session{
		ctx:    ctx,
		conn:   conn,
		export: e,
		device: d,
		in:     bufio.NewReaderSize(conn, readAhead),
		budget: newBudget(maxInFlight, maxBytesInFlight),
	}
}

// run serves the connection to its end. It never returns nil other than for a
// client that took its leave.
func (s *session) run() error {
	if err := s.handshake(); err != nil {
		if errors.Is(err, errDone) {
			return nil
		}
		return err
	}
	for {
		h, err := s.next()
		if err != nil {
			return err
		}
		if h.command == disconnect {
			return nil
		}
		if err := s.handle(h); err != nil {
			return err
		}
	}
}

// next reads the header of the next request.
func (s *session) next() (header, error) {
	b, err := s.in.Peek(requestHeaderSize)
	if err != nil {
		if len(b) > 0 {
			err = midMessage(err)
		}
		return header{}, fmt.Errorf("read request: %w", err)
	}
	h := parseHeader(b)
	if h.magic != requestMagic {
		return header{}, fmt.Errorf("read request: bad magic %#x", h.magic)
	}
	_, err = s.in.Discard(requestHeaderSize)
	return h, err
}

// handle refuses a request, or reads the rest of it and submits it.
func (s *session) handle(h header) error {
	if e := s.export.check(h); e != 0 {
		return s.refuse(h, e)
	}
	q := &request{
		Request: Request{
			Command: h.command,
			FUA:     h.flags&requestFUA != 0 && h.command != Read && h.command != Flush,
			NoHole:  h.flags&requestNoHole != 0,
			Offset:  int64(h.offset),
			Length:  int(h.length),
		},
		session: s,
		cookie:  h.cookie,
		read:    h.command == Read,
	}
	if h.command == Read || h.command == Write {
		q.payload = q.Length
	}
	if err := s.budget.acquire(s.ctx, s.conn, q.payload); err != nil {
		return err
	}
	if q.payload > 0 {
		q.pool, q.buffer = &s.pool, s.pool.get(q.payload)
		q.Data = q.buffer.payload(q.payload)
	}
	if h.command == Write {
		if err := s.readFull(q.Data); err != nil {
			return fmt.Errorf("read data of a write: %w", midMessage(err))
		}
	}
	s.device.Submit(&q.Request, q.reply)
	return nil
}

// refuse answers a request that the device does not get to see. The payload of
// a write has to be skipped, whatever its length, to find the next request.
func (s *session) refuse(h header, e syscall.Errno) error {
	if h.command == Write {
		if err := s.discard(h.length); err != nil {
			return fmt.Errorf("skip data of a write: %w", err)
		}
	}
	s.send(nil, e, h.cookie)
	return nil
}

// send writes one reply. message is the whole reply with its data, with room
// for the header in front, or nil if there is no data.
func (s *session) send(message []byte, e syscall.Errno, cookie uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return
	}
	if message == nil {
		message = s.head[:]
	}
	putReplyHeader(message, e, cookie)
	if _, err := s.conn.Write(message); err != nil {
		// Part of the reply may be out: nothing that follows would be
		// understood. Closing wakes the reading goroutine.
		s.fail = fmt.Errorf("write reply: %w", err)
		s.conn.Close()
	}
}

// outcome turns the error that ended the reading goroutine into what Serve
// reports. A failed reply comes first: it closed the connection.
func (s *session) outcome(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		return nil
	}
	if s.fail != nil {
		err = s.fail
	}
	// A client that dies with replies unread resets the connection.
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, errGone) {
		return nil
	}
	return err
}

// midMessage marks the end of input inside a message as unexpected.
func midMessage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// request is a Request on its way.
//
// It is not pooled: only so can a second call of reply be told from the first
// of another request.
type request struct {
	Request
	session *session
	cookie  uint64
	// read and payload are kept apart from Request, which the device may write to.
	read    bool
	payload int // bytes of payload, in either direction; what is charged to the budget
	replied atomic.Bool
}

// reply answers the request. It is what Device.Submit is given.
func (q *request) reply(err error) {
	if !q.replied.CompareAndSwap(false, true) {
		return
	}
	e := wireErrno(err)
	var message []byte
	if q.read && e == 0 {
		message = q.buffer.message(q.payload)
	}
	q.session.send(message, e, q.cookie)
	if q.buffer != nil && !q.kept {
		q.session.pool.put(q.buffer)
	}
	q.session.budget.release(q.payload)
}
