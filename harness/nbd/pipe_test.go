package nbd

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pipe starts Serve on a connection that is no socket, and whose deadlines
// follow the clock of a synctest bubble.
func pipe(t *testing.T, e Export, d Device) *client {
	server, peer := net.Pipe()
	t.Cleanup(func() { peer.Close() })
	c := &client{t: t, conn: peer, reads: map[uint64]int{}, done: make(chan error, 1), stop: func(error) {}}
	go func() { c.done <- Serve(t.Context(), server, e, d) }()
	return c
}

// TestNoDeadlineAfterHandshake leaves the disk idle for a day.
func TestNoDeadlineAfterHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipe(t, all(4096), deviceFunc(func(_ *Request, reply func(error)) { reply(syscall.EIO) }))
		c.greet(fixedNoZeroes)
		c.enter()
		time.Sleep(24 * time.Hour)
		if a := c.do(wire{Command: uint16(Flush)}); a.errno != syscall.EIO {
			t.Errorf("errno %d", a.errno)
		}
		c.leave()
	})
}

func TestStalledHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := pipe(t, all(4096), newMemory(4096))
		c.greet(fixedNoZeroes)
		c.option(optList, nil)
		if err := c.wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v, want a deadline", err)
		}
		if d := time.Since(began); d != handshakeTimeout {
			t.Errorf("it took %v, want %v", d, handshakeTimeout)
		}
	})
}
