package punctual

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// patience is how long the calling thread itself waits for a connection, in
// milliseconds, before Go's poller does. It also bounds how late a deadline, or the
// closing of the connection, ends a Read or Write.
const patience = 20

// Conn returns the connection with a Read and a Write that wait on the calling thread,
// and so are woken by the kernel, and not by another thread that Go's poller has to
// run on first: that saves two system calls a message, and on a busy machine up to
// milliseconds. A connection that is no socket is returned as it is.
func Conn(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	return &conn{Conn: c, raw: raw}
}

// conn is a connection with its descriptor. It reads and writes with package
// syscall, as package net does: to the race detector the two are then one
// connection.
type conn struct {
	net.Conn
	raw syscall.RawConn
}

// SyscallConn implements syscall.Conn.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

func (c *conn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	closed := c.raw.Read(func(fd uintptr) (done bool) {
		n, err = attempt(int(fd), unix.POLLIN, func() (int, error) { return syscall.Read(int(fd), p) })
		return err != unix.EAGAIN
	})
	switch {
	case closed != nil:
		return 0, closed
	case err != nil:
		return 0, failure("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (c *conn) Write(p []byte) (done int, err error) {
	for done < len(p) {
		var n int
		closed := c.raw.Write(func(fd uintptr) bool {
			n, err = attempt(int(fd), unix.POLLOUT, func() (int, error) { return syscall.Write(int(fd), p[done:]) })
			return err != unix.EAGAIN
		})
		if closed != nil {
			return done, closed
		}
		if err != nil {
			return done, failure("write", err)
		}
		done += n
	}
	return done, nil
}

// attempt does what may have to wait for the descriptor, once before and once after
// that wait. It ends with EAGAIN where there was nothing to be had.
func attempt(fd int, events int16, do func() (int, error)) (n int, err error) {
	for first := true; ; first = false {
		for {
			if n, err = do(); err != unix.EINTR {
				break
			}
		}
		if err != unix.EAGAIN || !first {
			return max(n, 0), err
		}
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		_, _ = unix.Poll(fds[:], patience) // where it is interrupted, Go's poller waits on
	}
}

// failure is the error of a system call, as package net has it.
func failure(op string, err error) error { return &net.OpError{Op: op, Net: "unix", Err: err} }
