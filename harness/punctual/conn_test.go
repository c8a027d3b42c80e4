package punctual

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair is a connected pair of unix sockets.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// TestStream: what is written at one end comes out at the other, long waits on either
// side included.
func TestStream(t *testing.T) {
	for _, thread := range []bool{false, true} {
		a, b := pair(t)
		want := make([]byte, 8<<20)
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		sent := make(chan error, 1)
		go func() {
			if thread {
				Thread()
			}
			c := Conn(a)
			for p := want; len(p) > 0; {
				n := min(len(p), 1+rand.IntN(1<<20))
				if rand.IntN(4) == 0 {
					time.Sleep(30 * time.Millisecond)
				}
				if k, err := c.Write(p[:n]); err != nil || k != n {
					sent <- errors.Join(err, errors.New("short write"))
					return
				}
				p = p[n:]
			}
			sent <- c.Close()
		}()
		var got bytes.Buffer
		if _, err := io.Copy(&got, struct{ io.Reader }{Conn(b)}); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%d bytes of %d, or wrong ones: %v", got.Len(), len(want), err)
		}
	}
}

// TestEnds: a Read ends with the peer, with the connection, and with its deadline; a
// Write to nobody fails.
func TestEnds(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(a, b net.Conn)
		want error
	}{
		"peer closes":      {func(a, b net.Conn) { a.Close() }, io.EOF},
		"we close":         {func(a, b net.Conn) { b.Close() }, net.ErrClosed},
		"deadline":         {func(a, b net.Conn) { b.SetReadDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"deadline, future": {func(a, b net.Conn) { b.SetReadDeadline(time.Now().Add(time.Millisecond)) }, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			for _, when := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
				a, b := pair(t)
				ended := make(chan error, 1)
				go func() {
					_, err := Conn(b).Read(make([]byte, 10))
					ended <- err
				}()
				time.Sleep(when)
				end.do(a, b)
				if err := <-ended; !errors.Is(err, end.want) {
					t.Errorf("after %v: %v, want %v", when, err, end.want)
				}
			}
		})
	}
	a, b := pair(t)
	a.Close()
	if _, err := Conn(b).Write([]byte{1}); err == nil {
		t.Error("written to nobody")
	}
}

// TestNoSocket: what has no descriptor is left as it is.
func TestNoSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Conn(a) != a {
		t.Error("a pipe was changed")
	}
}
