package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Numbers of the NBD protocol, doc/proto.md of the NBD project.
const (
	nbdGreeting     = 0x4e42444d41474943
	nbdOption       = 0x49484156454f5054
	nbdExportName   = 1
	nbdFlags        = 1<<0 | 1<<1 // fixed newstyle, no zeroes after the handshake
	nbdRequest      = 0x25609513
	nbdReply        = 0x67446698
	nbdRead         = 0
	nbdWrite        = 1
	nbdDisconnect   = 2
	nbdFlush        = 3
	nbdSendsFlushes = 1 << 2
	nbdForce        = 1 << 0 // FUA, a flag of a request
)

// client is an NBD client with one request in flight, for one goroutine.
type client struct {
	conn    net.Conn
	size    int64
	flushes bool // the server takes flushes
	cookie  uint64
}

// dial shakes hands with a server over conn, which it does not close, for its
// default export.
func dial(conn net.Conn) (*client, error) {
	be := binary.BigEndian
	var hello [18]byte
	if _, err := io.ReadFull(conn, hello[:]); err != nil {
		return nil, fmt.Errorf("greet NBD server: %w", err)
	}
	if be.Uint64(hello[:]) != nbdGreeting || be.Uint64(hello[8:]) != nbdOption || be.Uint16(hello[16:])&nbdFlags != nbdFlags {
		return nil, errors.New("greet NBD server: it does not speak fixed newstyle")
	}
	out := be.AppendUint32(nil, nbdFlags)
	out = be.AppendUint64(out, nbdOption)
	out = be.AppendUint32(out, nbdExportName)
	out = be.AppendUint32(out, 0)
	if _, err := conn.Write(out); err != nil {
		return nil, fmt.Errorf("greet NBD server: %w", err)
	}
	var export [10]byte
	if _, err := io.ReadFull(conn, export[:]); err != nil {
		return nil, fmt.Errorf("greet NBD server: %w", err)
	}
	return &client{conn: conn, size: int64(be.Uint64(export[:])), flushes: be.Uint16(export[8:])&nbdSendsFlushes != 0}, nil
}

// write writes p at offset and waits until that is answered.
func (c *client) write(p []byte, offset int64) error {
	if err := c.send(0, nbdWrite, p, len(p), offset); err != nil {
		return err
	}
	return c.await()
}

// force does the same with FUA.
func (c *client) force(p []byte, offset int64) error {
	if err := c.send(nbdForce, nbdWrite, p, len(p), offset); err != nil {
		return err
	}
	return c.await()
}

// read fills p from offset on.
func (c *client) read(p []byte, offset int64) error {
	if err := c.send(0, nbdRead, nil, len(p), offset); err != nil {
		return err
	}
	if err := c.await(); err != nil {
		return err
	}
	if _, err := io.ReadFull(c.conn, p); err != nil {
		return fmt.Errorf("read NBD data: %w", err)
	}
	return nil
}

// flush waits until all that was written is durable.
func (c *client) flush() error {
	if err := c.send(0, nbdFlush, nil, 0, 0); err != nil {
		return err
	}
	return c.await()
}

// leave says goodbye. The caller closes the connection.
func (c *client) leave() error { return c.send(0, nbdDisconnect, nil, 0, 0) }

func (c *client) send(flags, command uint16, p []byte, length int, offset int64) error {
	c.cookie++
	be := binary.BigEndian
	h := be.AppendUint32(nil, nbdRequest)
	h = be.AppendUint16(h, flags)
	h = be.AppendUint16(h, command)
	h = be.AppendUint64(h, c.cookie)
	h = be.AppendUint64(h, uint64(offset))
	h = be.AppendUint32(h, uint32(length))
	parts := net.Buffers{h}
	if len(p) > 0 {
		parts = append(parts, p)
	}
	if _, err := parts.WriteTo(c.conn); err != nil {
		return fmt.Errorf("send NBD request: %w", err)
	}
	return nil
}

func (c *client) await() error {
	var b [16]byte
	if _, err := io.ReadFull(c.conn, b[:]); err != nil {
		return fmt.Errorf("await NBD reply: %w", err)
	}
	be := binary.BigEndian
	if be.Uint32(b[:]) != nbdReply || be.Uint64(b[8:]) != c.cookie {
		return fmt.Errorf("await NBD reply: this is none: % x", b)
	}
	if e := be.Uint32(b[4:]); e != 0 {
		return fmt.Errorf("await NBD reply: the server failed: %w", unix.Errno(e))
	}
	return nil
}

// upload writes what a sparse file holds, and leaves out its holes: the server's
// disk reads as zeros there.
func (c *client) upload(f *os.File) error {
	buf := make([]byte, 1<<20)
	for at := int64(0); at < c.size; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole from here on
		}
		if err != nil {
			return fmt.Errorf("find data of the image: %w", err)
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("find data of the image: %w", err)
		}
		if err := c.copy(f, start, min(end, c.size), buf); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// copy writes the bytes of f from at to end.
func (c *client) copy(f *os.File, at, end int64, buf []byte) error {
	for at < end {
		p := buf[:min(int64(len(buf)), end-at)]
		if _, err := f.ReadAt(p, at); err != nil {
			return fmt.Errorf("read image: %w", err)
		}
		if err := c.write(p, at); err != nil {
			return err
		}
		at += int64(len(p))
	}
	return nil
}
