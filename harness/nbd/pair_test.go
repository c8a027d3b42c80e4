package nbd

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socketPair returns two ends of a unix socket.
func socketPair(t failer) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("socketpair: %v", err)
	}
	return unixConn(t, fds[0]), unixConn(t, fds[1])
}

func unixConn(t failer, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatalf("socketpair: %v", err)
	}
	return c.(*net.UnixConn)
}

// loop is a connection on which the same message comes again and again, and
// whose output goes nowhere.
type loop struct {
	net.Conn
	message []byte
	at      int
}

func (l *loop) Read(b []byte) (int, error) {
	n := copy(b, l.message[l.at:])
	l.at = (l.at + n) % len(l.message)
	return n, nil
}

func (l *loop) Write(b []byte) (int, error) { return len(b), nil }
