package nbd

import (
	"io"
	"testing"
)

// The benchmarks measure a round trip over a unix socket with a device that
// answers at once. BenchmarkEcho is the same without a server: what the socket
// and the scheduler cost on this machine. The difference is the server's.

func BenchmarkWrite4K(b *testing.B) {
	roundTrips(b, wire{Command: uint16(Write), Offset: 8192, Length: 4096, Data: make([]byte, 4096)}, 16)
}

func BenchmarkRead4K(b *testing.B) {
	roundTrips(b, wire{Command: uint16(Read), Offset: 8192, Length: 4096}, 16+4096)
}

func BenchmarkFlush(b *testing.B) { roundTrips(b, wire{Command: uint16(Flush)}, 16) }

func roundTrips(b *testing.B, w wire, replySize int) {
	c := open(b, all(1<<20), deviceFunc(func(_ *Request, reply func(error)) { reply(nil) }))
	pingPong(b, c.conn, w.bytes(1), make([]byte, replySize))
	c.leave()
}

func pingPong(b *testing.B, conn io.ReadWriter, request, reply []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(request) - requestHeaderSize))
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, reply); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEcho4K(b *testing.B) {
	client, server := socketPair(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		in, out := make([]byte, requestHeaderSize+4096), make([]byte, replyHeaderSize)
		for {
			if _, err := io.ReadFull(server, in); err != nil {
				return
			}
			if _, err := server.Write(out); err != nil {
				return
			}
		}
	}()
	pingPong(b, client, make([]byte, requestHeaderSize+4096), make([]byte, replyHeaderSize))
	client.Close()
	<-done
}

// BenchmarkSession is the server without the socket: reading, checking,
// submitting and answering a 4 KiB write.
func BenchmarkSession(b *testing.B) {
	d := deviceFunc(func(_ *Request, reply func(error)) { reply(nil) })
	message := wire{Command: uint16(Write), Offset: 8192, Length: 4096, Data: make([]byte, 4096)}.bytes(1)
	e, err := all(1 << 20).complete()
	if err != nil {
		b.Fatal(err)
	}
	s := newSession(b.Context(), &loop{message: message}, e, d)
	b.ReportAllocs()
	for b.Loop() {
		h, err := s.next()
		if err == nil {
			err = s.handle(h)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
