package nbd

import (
	"context"
	"errors"
	"math/bits"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a client may have in flight on one connection. QEMU keeps up to 16
// requests, nbdcopy 64. A single request always fits, as Export.MaxBlock is at
// most maxBytesInFlight.
const (
	maxInFlight      = 128
	maxBytesInFlight = 64 << 20
)

// hangUpCheck is how often a connection that is held back is asked whether its
// client is still there.
const hangUpCheck = 20 * time.Millisecond

// errGone says that the client went away while it was held back.
var errGone = errors.New("client is gone")

// budget bounds what is in flight. A request is charged before its payload is
// read and released once its reply is written, so a client that sends too much
// or reads too little is held back by its own socket.
type budget struct {
	maxRequests, maxBytes int

	mu       sync.Mutex
	requests int // guarded by mu
	bytes    int // guarded by mu

	// freed holds a token after a release. There is one goroutine that waits.
	freed chan struct{}
}

func newBudget(requests, bytes int) *budget {
	return &budget{maxRequests: requests, maxBytes: bytes, freed: make(chan struct{}, 1)}
}

// acquire charges one request with n bytes of payload. It waits for room until
// ctx ends or the client is gone (errGone). Nothing reads from the connection
// meanwhile, and what the client has sent hides the end of input behind it, so
// the socket is asked for its state instead.
func (b *budget) acquire(ctx context.Context, conn net.Conn, n int) error {
	if b.try(n) {
		return nil
	}
	check := time.NewTicker(hangUpCheck)
	defer check.Stop()
	for !b.try(n) {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-check.C:
			if hungUp(conn) {
				return errGone
			}
		}
	}
	return nil
}

func (b *budget) try(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests >= b.maxRequests || b.bytes+n > b.maxBytes {
		return false
	}
	b.requests++
	b.bytes += n
	return true
}

func (b *budget) release(n int) {
	b.mu.Lock()
	b.requests--
	b.bytes -= n
	b.mu.Unlock()
	select {
	case b.freed <- struct{}{}:
	default:
	}
}

// hungUp says whether the peer has closed the connection altogether, even if
// there is still something of it to be read: poll(2), POLLHUP. It is false for
// a connection that is no socket and not closed.
func hungUp(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	var fds [1]unix.PollFd // POLLHUP and POLLERR are always reported
	err = raw.Control(func(fd uintptr) {
		fds[0].Fd = int32(fd)
		// EINTR leaves no event: the next check will tell.
		_, _ = unix.Poll(fds[:], 0)
	})
	return err != nil || fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// buffer is room for a payload, with room for a reply's header in front, so
// that the reply to a read leaves in one piece without being copied.
type buffer struct {
	bytes []byte
	class int
}

// payload is the part for n bytes of payload.
func (b *buffer) payload(n int) []byte {
	return b.bytes[replyHeaderSize : replyHeaderSize+n : replyHeaderSize+n]
}

// message is the header and n bytes of payload.
func (b *buffer) message(n int) []byte { return b.bytes[:replyHeaderSize+n] }

// pool keeps buffers for reuse, by powers of two from 512 bytes up to
// maxMaxBlock. What the device never gives back is left to the collector.
type pool struct {
	classes [18]sync.Pool
}

// minClass is the exponent of the smallest buffer.
const minClass = 9

// get returns a buffer for n bytes of payload, which it does not clear.
func (p *pool) get(n int) *buffer {
	class := max(bits.Len(uint(n-1)), minClass) - minClass
	if b, ok := p.classes[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{bytes: make([]byte, replyHeaderSize+1<<(class+minClass)), class: class}
}

func (p *pool) put(b *buffer) { p.classes[b.class].Put(b) }
