package nbd

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
)

// silent is a device whose world can stop: it tells of each request and keeps
// the replies.
type silent struct {
	arrived chan *Request

	mu      sync.Mutex
	replies []func(error)
	bytes   int // payload not yet answered
	peak    int // most requests unanswered at a time
	peakB   int // most bytes unanswered at a time
}

func newSilent() *silent { return &silent{arrived: make(chan *Request, 4096)} }

func (s *silent) Submit(r *Request, reply func(error)) {
	s.mu.Lock()
	n := len(r.Data)
	s.bytes += n
	s.replies = append(s.replies, func(err error) {
		s.mu.Lock()
		s.bytes -= n
		s.mu.Unlock()
		reply(err)
	})
	s.peak, s.peakB = max(s.peak, len(s.replies)), max(s.peakB, s.bytes)
	s.mu.Unlock()
	s.arrived <- r
}

// answer answers the oldest request.
func (s *silent) answer(err error) {
	s.mu.Lock()
	reply := s.replies[0]
	s.replies = s.replies[1:]
	s.mu.Unlock()
	reply(err)
}

func TestSilentDeviceAndClientThatLeaves(t *testing.T) {
	s := newSilent()
	c := open(t, all(diskSize), s)
	c.send(1, wire{Command: uint16(Write), Length: 4096, Data: make([]byte, 4096)})
	c.send(2, wire{Command: uint16(Read), Length: 4096})
	for range 2 {
		receiveFrom(t, s.arrived, "a request")
	}
	c.conn.Close()
	if err := c.wait(); err != nil {
		t.Error(err)
	}
	for range 2 {
		s.answer(nil) // late, and to no effect
	}
}

func TestSilentDeviceAndDisconnect(t *testing.T) {
	s := newSilent()
	c := open(t, all(diskSize), s)
	c.send(1, wire{Command: uint16(Flush)})
	c.leave()
	s.answer(syscall.EIO)
}

func TestSilentDeviceAndContext(t *testing.T) {
	s := newSilent()
	c := open(t, all(diskSize), s)
	c.send(1, wire{Command: uint16(Flush)})
	receiveFrom(t, s.arrived, "a request")
	cause := errors.New("power cut")
	c.stop(cause)
	if err := c.wait(); !errors.Is(err, cause) {
		t.Errorf("error %v, want one that wraps the cause", err)
	}
	if b, err := io.ReadAll(c.conn); len(b) != 0 {
		t.Errorf("the client heard %x, %v", b, err)
	}
	s.answer(nil)
}

// flood sends n requests from a goroutine of its own. Once the server is held
// back it blocks, until the connection is closed.
func flood(c *client, n int, w wire) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			if _, err := c.conn.Write(w.bytes(uint64(i))); err != nil {
				return
			}
		}
	}()
	return done
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	bigWrite := wire{Command: uint16(Write), Length: 4 << 20, Data: make([]byte, 4<<20)}
	tests := []struct {
		name         string
		w            wire
		total, bound int
		boundB       int
	}{
		{"requests", wire{Command: uint16(Flush)}, 1000, maxInFlight, 0},
		{"bytes of reads", wire{Command: uint16(Read), Length: 16 << 20}, 20, 4, maxBytesInFlight},
		{"bytes of writes", bigWrite, 40, 16, maxBytesInFlight},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSilent()
			c := open(t, all(16<<20), s)
			done := flood(c, tt.total, tt.w)
			for range tt.bound {
				receiveFrom(t, s.arrived, "a request")
			}
			for i := range tt.total {
				answered := make(chan struct{})
				go func() { // it may have to wait for the client to read
					defer close(answered)
					s.answer(nil)
				}()
				if Command(tt.w.Command) == Read {
					c.reads[uint64(i)] = int(tt.w.Length)
				}
				if a := c.receive(); a.cookie != uint64(i) || a.errno != 0 {
					t.Fatalf("reply %d: cookie %d, errno %d", i, a.cookie, a.errno)
				}
				<-answered
				if i+tt.bound < tt.total {
					receiveFrom(t, s.arrived, "a request that was held back")
				}
			}
			<-done
			c.leave()
			if s.peak != tt.bound || s.peakB != tt.boundB {
				t.Errorf("%d requests and %d bytes in flight, want %d and %d", s.peak, s.peakB, tt.bound, tt.boundB)
			}
		})
	}
}

// TestHeldBackClientThatLeaves has a client go while the server does not read:
// its unread requests stand before the end of input.
func TestHeldBackClientThatLeaves(t *testing.T) {
	for _, tt := range []struct {
		name  string
		w     wire
		bound int
	}{
		{"requests", wire{Command: uint16(Flush)}, maxInFlight},
		{"bytes", wire{Command: uint16(Write), Length: 8 << 20, Data: make([]byte, 8<<20)}, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSilent()
			c := open(t, all(16<<20), s)
			done := flood(c, 100000, tt.w)
			for range tt.bound {
				receiveFrom(t, s.arrived, "a request")
			}
			c.conn.Close()
			<-done
			if err := c.wait(); err != nil {
				t.Error(err)
			}
			if n := len(s.arrived); n != 0 {
				t.Errorf("%d requests beyond the limit", n)
			}
		})
	}
}

func TestHeldBackClientAndContext(t *testing.T) {
	s := newSilent()
	c := open(t, all(diskSize), s)
	done := flood(c, 100000, wire{Command: uint16(Flush)})
	for range maxInFlight {
		receiveFrom(t, s.arrived, "a request")
	}
	cause := errors.New("power cut")
	c.stop(cause)
	if err := c.wait(); !errors.Is(err, cause) {
		t.Errorf("error %v, want one that wraps the cause", err)
	}
	<-done
}

// TestClientThatDoesNotRead fills the socket with replies until the device is
// stuck in one. The end of the client, or of the context, frees it.
func TestClientThatDoesNotRead(t *testing.T) {
	for _, byContext := range []bool{false, true} {
		c := open(t, all(16<<20), newMemory(16<<20))
		done := flood(c, 8, wire{Command: uint16(Read), Length: 16 << 20})
		c.read(1) // the first of 16 MiB: the rest does not fit the socket
		var want error
		if byContext {
			want = errors.New("power cut")
			c.stop(want)
		} else {
			c.conn.Close()
		}
		if err := c.wait(); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		c.conn.Close()
		<-done
	}
}

// TestClientThatShutsItsEars can be sent no reply, yet stays connected.
func TestClientThatShutsItsEars(t *testing.T) {
	c := open(t, all(diskSize), newMemory(diskSize))
	if err := c.conn.(*net.UnixConn).CloseRead(); err != nil {
		t.Fatal(err)
	}
	c.send(1, wire{Command: uint16(Flush)})
	if err := c.wait(); err != nil {
		t.Error(err)
	}
}
