package nbd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests. It is no assertion about speed.
const patience = time.Minute

// failer is what *testing.T, *testing.B, *testing.F and *rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// memory is a device that keeps its bytes in memory. It carries a request out
// when it is submitted; answer decides when, and whether, to reply.
type memory struct {
	// answer replies to a request that was carried out with result err.
	// Nil: at once.
	answer func(r *Request, err error, reply func(error))
	// fault says what error a request ends with, instead of being carried
	// out. Nil: none.
	fault func(r *Request) error

	mu   sync.Mutex
	data []byte
	seen []Request // without Data
}

func newMemory(size int64) *memory { return &memory{data: make([]byte, size)} }

func (m *memory) Submit(r *Request, reply func(error)) {
	err := m.apply(r)
	if m.answer == nil {
		reply(err)
		return
	}
	m.answer(r, err, reply)
}

func (m *memory) apply(r *Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	note := *r
	note.Data = nil
	m.seen = append(m.seen, note)
	if m.fault != nil {
		if err := m.fault(r); err != nil {
			return err
		}
	}
	if r.Command == Flush {
		return nil
	}
	span := m.data[r.Offset : r.Offset+int64(r.Length)]
	switch r.Command {
	case Read:
		copy(r.Data, span)
	case Write:
		copy(span, r.Data)
	case Trim, WriteZeroes:
		clear(span)
	default:
		return syscall.ENOTSUP
	}
	return nil
}

// asFields compares requests by what a device is told in them.
var asFields = cmpopts.IgnoreUnexported(Request{})

// log returns the requests seen so far.
func (m *memory) log() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Request(nil), m.seen...)
}

// content returns a copy of the bytes.
func (m *memory) content() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.data)
}

// deviceFunc is a device that is one function.
type deviceFunc func(r *Request, reply func(error))

func (f deviceFunc) Submit(r *Request, reply func(error)) { f(r, reply) }

// all advertises everything.
func all(size int64) Export {
	return Export{Size: size, Flush: true, FUA: true, Trim: true, WriteZeroes: true}
}

// client is a minimal NBD client.
type client struct {
	t     failer
	conn  net.Conn
	reads map[uint64]int // cookie to length of a read under way
	done  chan error     // what Serve returned
	stop  context.CancelCauseFunc
}

// tempFolder is a private folder with a short name: the path of a socket in it
// must fit an address. It outlives nothing but the test.
func tempFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nbd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// dial starts Serve on one end of a connection over a unix socket and returns
// a client on the other end, not yet shaken hands with.
func dial(t testing.TB, e Export, d Device) *client {
	t.Helper()
	c := connect(t, filepath.Join(tempFolder(t), "s"), e, d)
	t.Cleanup(func() { c.conn.Close() })
	return c
}

func connect(t failer, path string, e Export, d Device) *client {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		l.Close()
		if err != nil {
			done <- err
			return
		}
		done <- Serve(ctx, conn, e, d)
	}()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatalf("%v", err)
	}
	return &client{t: t, conn: conn, reads: map[uint64]int{}, done: done, stop: stop}
}

// open is dial and a handshake.
func open(t testing.TB, e Export, d Device) *client {
	t.Helper()
	c := dial(t, e, d)
	c.greet(handshakeFixedNewstyle | handshakeNoZeroes)
	c.enter()
	return c
}

// enter asks for the transmission phase, and takes no refusal.
func (c *client) enter() []optionReply {
	c.t.Helper()
	replies := c.option(optGo, infoRequest("", infoBlockSize))
	if last := replies[len(replies)-1]; last.kind != repAck {
		c.t.Fatalf("GO was answered by %#x", last.kind)
	}
	return replies
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatalf("client: %v", err)
	}
}

func (c *client) read(n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		c.t.Fatalf("client: %v", err)
	}
	return b
}

// greet reads the server's greeting and answers with flags.
func (c *client) greet(flags uint32) {
	c.t.Helper()
	if b := c.read(18); string(b) != "NBDMAGICIHAVEOPT\x00\x03" {
		c.t.Fatalf("greeting %q", b)
	}
	c.write(binary.BigEndian.AppendUint32(nil, flags))
}

type optionReply struct {
	kind uint32
	data []byte
}

// optionBytes is an option as it stands on the wire.
func optionBytes(opt uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte("IHAVEOPT"), opt)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// infoRequest is the data of the options INFO and GO.
func infoRequest(name string, kinds ...uint16) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(kinds)))
	for _, k := range kinds {
		b = binary.BigEndian.AppendUint16(b, k)
	}
	return b
}

// option sends an option and returns its replies, the last of which is an
// acknowledgement or an error.
func (c *client) option(opt uint32, data []byte) []optionReply {
	c.t.Helper()
	c.write(optionBytes(opt, data))
	return c.replies(opt)
}

func (c *client) replies(opt uint32) (replies []optionReply) {
	c.t.Helper()
	for {
		b := c.read(20)
		if m := binary.BigEndian.Uint64(b); m != 0x3e889045565a9 {
			c.t.Fatalf("option reply magic %#x", m)
		}
		if o := binary.BigEndian.Uint32(b[8:]); o != opt {
			c.t.Fatalf("reply to option %d, want %d", o, opt)
		}
		r := optionReply{kind: binary.BigEndian.Uint32(b[12:]), data: c.read(int(binary.BigEndian.Uint32(b[16:])))}
		replies = append(replies, r)
		if r.kind == repAck || r.kind&(1<<31) != 0 {
			return replies
		}
	}
}

// wire is one request as a client writes it.
type wire struct {
	Command uint16
	Flags   uint16
	Offset  uint64
	Length  uint32
	Data    []byte
}

func (w wire) bytes(cookie uint64) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 28+len(w.Data)), 0x25609513)
	b = binary.BigEndian.AppendUint16(b, w.Flags)
	b = binary.BigEndian.AppendUint16(b, w.Command)
	b = binary.BigEndian.AppendUint64(b, cookie)
	b = binary.BigEndian.AppendUint64(b, w.Offset)
	b = binary.BigEndian.AppendUint32(b, w.Length)
	return append(b, w.Data...)
}

func (c *client) send(cookie uint64, w wire) {
	c.t.Helper()
	if Command(w.Command) == Read {
		c.reads[cookie] = int(w.Length)
	}
	c.write(w.bytes(cookie))
}

// answer is one reply.
type answer struct {
	cookie uint64
	errno  syscall.Errno
	data   []byte
}

func (c *client) receive() answer {
	c.t.Helper()
	b := c.read(16)
	if m := binary.BigEndian.Uint32(b); m != 0x67446698 {
		c.t.Fatalf("reply magic %#x", m)
	}
	a := answer{cookie: binary.BigEndian.Uint64(b[8:]), errno: syscall.Errno(binary.BigEndian.Uint32(b[4:]))}
	if n, ok := c.reads[a.cookie]; ok && a.errno == 0 {
		a.data = c.read(n)
	}
	delete(c.reads, a.cookie)
	return a
}

// do sends a request and waits for its reply.
func (c *client) do(w wire) answer {
	c.t.Helper()
	const cookie = 0xfeedfacecafebeef
	c.send(cookie, w)
	a := c.receive()
	if a.cookie != cookie {
		c.t.Fatalf("cookie %#x, want %#x", a.cookie, uint64(cookie))
	}
	return a
}

// wait returns what Serve returned.
func (c *client) wait() error {
	c.t.Helper()
	select {
	case err := <-c.done:
		c.stop(nil)
		return err
	case <-time.After(patience):
		c.stop(errors.New("test lost its patience"))
		c.t.Fatalf("Serve did not return")
		return nil
	}
}

// leave disconnects in good order, and wants the server to close in return.
func (c *client) leave() {
	c.t.Helper()
	c.write(wire{Command: uint16(disconnect)}.bytes(0))
	if rest, err := io.ReadAll(c.conn); err != nil || len(rest) != 0 {
		c.t.Fatalf("after a disconnect: %q, %v", rest, err)
	}
	if err := c.wait(); err != nil {
		c.t.Fatalf("Serve: %v", err)
	}
}

// receiveFrom waits for a value, for as long as a test may.
func receiveFrom[T any](t failer, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}
