package nbd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	fua      = 1
	noHole   = 2
	diskSize = 1 << 20
)

func TestRequestsReachTheDevice(t *testing.T) {
	block := bytes.Repeat([]byte("powercut"), 512)
	zero := make([]byte, 4096)
	const w, r, f, tr, z = uint16(Write), uint16(Read), uint16(Flush), uint16(Trim), uint16(WriteZeroes)
	steps := []struct {
		send wire
		want Request
		data []byte
	}{
		{wire{w, 0, 4096, 4096, block}, Request{Command: Write, Offset: 4096, Length: 4096}, nil},
		{wire{r, 0, 4096, 4096, nil}, Request{Command: Read, Offset: 4096, Length: 4096}, block},
		{wire{w, fua, diskSize - 512, 512, block[:512]}, Request{Command: Write, FUA: true, Offset: diskSize - 512, Length: 512}, nil},
		{wire{r, fua, diskSize - 512, 512, nil}, Request{Command: Read, Offset: diskSize - 512, Length: 512}, block[:512]},
		{wire{f, 0, 0, 0, nil}, Request{Command: Flush}, nil},
		{wire{f, fua, 0, 0, nil}, Request{Command: Flush}, nil},
		{wire{tr, 0, 4096, 512, nil}, Request{Command: Trim, Offset: 4096, Length: 512}, nil},
		{wire{r, 0, 4096, 512, nil}, Request{Command: Read, Offset: 4096, Length: 512}, zero[:512]},
		{wire{tr, fua, 0, diskSize, nil}, Request{Command: Trim, FUA: true, Length: diskSize}, nil},
		{wire{z, 0, 0, 512, nil}, Request{Command: WriteZeroes, Length: 512}, nil},
		{wire{z, noHole, 512, 512, nil}, Request{Command: WriteZeroes, NoHole: true, Offset: 512, Length: 512}, nil},
		{wire{z, noHole | fua, 0, diskSize, nil}, Request{Command: WriteZeroes, NoHole: true, FUA: true, Length: diskSize}, nil},
	}
	e := all(diskSize)
	e.MaxBlock = 8192 // does not bind what has no payload
	m := newMemory(diskSize)
	c := open(t, e, m)
	var want []Request
	for i, s := range steps {
		a := c.do(s.send)
		if a.errno != 0 || !bytes.Equal(a.data, s.data) {
			t.Errorf("step %d: errno %d, %d bytes of data, want %d", i, a.errno, len(a.data), len(s.data))
		}
		want = append(want, s.want)
	}
	c.leave()
	if d := cmp.Diff(want, m.log(), asFields); d != "" {
		t.Error(d)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	const w, r, f, tr, z = uint16(Write), uint16(Read), uint16(Flush), uint16(Trim), uint16(WriteZeroes)
	const inval, nospc, perm = syscall.EINVAL, syscall.ENOSPC, syscall.EPERM
	bare := Export{Size: diskSize, MaxBlock: 8192}
	full := all(diskSize)
	full.MaxBlock = 8192
	ro := full
	ro.ReadOnly = true
	bytewise := full
	bytewise.MinBlock = 1
	sent := make([]byte, 16384)
	tests := []struct {
		name string
		e    Export
		send wire
		want syscall.Errno
	}{
		{"read past the end", full, wire{r, 0, diskSize, 512, nil}, inval},
		{"read across the end", full, wire{r, 0, diskSize - 512, 1024, nil}, inval},
		{"read at the last offset", full, wire{r, 0, 1<<64 - 512, 512, nil}, inval},
		{"read that wraps around", full, wire{r, 0, 1<<64 - 512, 1024, nil}, inval},
		{"read too long", full, wire{r, 0, 0, 8704, nil}, inval},
		{"read of nothing", full, wire{r, 0, 0, 0, nil}, inval},
		{"read of an odd length", full, wire{r, 0, 0, 513, nil}, inval},
		{"read at an odd offset", full, wire{r, 0, 1, 512, nil}, inval},
		{"read with NO_HOLE", full, wire{r, noHole, 0, 512, nil}, inval},
		{"read with DF", full, wire{r, 4, 0, 512, nil}, inval},
		{"read with FUA, unadvertised", bare, wire{r, fua, 0, 512, nil}, inval},
		{"read of a byte past the end", bytewise, wire{r, 0, diskSize - 1, 2, nil}, inval},
		{"write past the end", full, wire{w, 0, diskSize, 512, sent[:512]}, nospc},
		{"write across the end", full, wire{w, 0, diskSize - 512, 1024, sent[:1024]}, nospc},
		{"write at the last offset", full, wire{w, 0, 1<<64 - 512, 512, sent[:512]}, nospc},
		{"write too long", full, wire{w, 0, 0, 16384, sent}, inval},
		{"write of nothing", full, wire{w, 0, 0, 0, nil}, inval},
		{"write of an odd length", full, wire{w, 0, 0, 700, sent[:700]}, inval},
		{"write at an odd offset", full, wire{w, 0, 256, 512, sent[:512]}, inval},
		{"write with FUA, unadvertised", bare, wire{w, fua, 0, 512, sent[:512]}, inval},
		{"write with an unknown flag", full, wire{w, 1 << 15, 0, 512, sent[:512]}, inval},
		{"write, read only", ro, wire{w, 0, 0, 512, sent[:512]}, perm},
		{"trim, read only", ro, wire{tr, 0, 0, 512, nil}, perm},
		{"write-zeroes, read only", ro, wire{z, 0, 0, 512, nil}, perm},
		{"flush, unadvertised", bare, wire{f, 0, 0, 0, nil}, inval},
		{"flush of a range", full, wire{f, 0, 512, 512, nil}, inval},
		{"trim, unadvertised", bare, wire{tr, 0, 0, 512, nil}, inval},
		{"trim across the end", full, wire{tr, 0, 512, diskSize, nil}, inval},
		{"write-zeroes, unadvertised", bare, wire{z, 0, 0, 512, nil}, inval},
		{"write-zeroes across the end", full, wire{z, 0, 512, diskSize, nil}, nospc},
		{"write-zeroes, fast", full, wire{z, 16, 0, 512, nil}, inval},
		{"cache", full, wire{5, 0, 0, 512, nil}, inval},
		{"block status", full, wire{7, 0, 0, 512, nil}, inval},
		{"resize", full, wire{8, 0, 0, 512, nil}, inval},
		{"command 256", full, wire{256, 0, 0, 512, nil}, inval},
		{"command 258, as if disconnect", full, wire{258, 0, 0, 512, nil}, inval},
		{"last command", full, wire{1<<16 - 1, 0, 0, 512, nil}, inval},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(diskSize)
			c := open(t, tt.e, m)
			if a := c.do(tt.send); a.errno != tt.want || len(a.data) != 0 {
				t.Errorf("errno %d and %d bytes, want errno %d", a.errno, len(a.data), tt.want)
			}
			// What follows is understood: the payload was skipped.
			if a := c.do(wire{Command: r, Length: 512}); a.errno != 0 {
				t.Errorf("the next read: errno %d", a.errno)
			}
			c.leave()
			if d := cmp.Diff([]Request{{Command: Read, Length: 512}}, m.log(), asFields); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrorsOfTheDevice(t *testing.T) {
	tests := []struct {
		err  error
		want syscall.Errno
	}{
		{syscall.EPERM, 1},
		{syscall.EIO, 5},
		{syscall.ENOMEM, 12},
		{syscall.EINVAL, 22},
		{syscall.ENOSPC, 28},
		{syscall.EOVERFLOW, 75},
		{syscall.ENOTSUP, 95},
		{syscall.ESHUTDOWN, 108},
		{syscall.EROFS, 1},
		{syscall.EDQUOT, 28},
		{syscall.EFBIG, 28},
		{syscall.ENOENT, 5},
		{errors.New("no number at all"), 5},
		{fmt.Errorf("write sector 7: %w", syscall.ENOSPC), 28},
		{nil, 0},
	}
	var fault error
	c := open(t, all(diskSize), deviceFunc(func(_ *Request, reply func(error)) { reply(fault) }))
	for _, tt := range tests {
		fault = tt.err
		for _, w := range []wire{
			{Command: uint16(Read), Length: 512},
			{Command: uint16(Write), Length: 512, Data: make([]byte, 512)},
			{Command: uint16(Flush)},
			{Command: uint16(Trim), Length: 512},
		} {
			if a := c.do(w); a.errno != tt.want {
				t.Errorf("%v of %v: errno %d, want %d", Command(w.Command), tt.err, a.errno, tt.want)
			}
		}
	}
	c.leave()
}

func TestRepliesOutOfOrder(t *testing.T) {
	type held struct {
		r     *Request
		reply func(error)
	}
	var hold []held
	c := open(t, all(diskSize), deviceFunc(func(r *Request, reply func(error)) {
		if r.Command == Read {
			for i := range r.Data {
				r.Data[i] = byte(r.Offset / 512)
			}
		}
		if hold = append(hold, held{r, reply}); len(hold) < 3 {
			return
		}
		for i := range hold { // the last one first
			hold[len(hold)-1-i].reply(nil)
		}
		hold = nil
	}))
	c.send(10, wire{Command: uint16(Read), Offset: 512, Length: 512})
	c.send(11, wire{Command: uint16(Flush)})
	c.send(12, wire{Command: uint16(Read), Offset: 1024, Length: 2048})
	want := []answer{
		{12, 0, bytes.Repeat([]byte{2}, 2048)},
		{11, 0, nil},
		{10, 0, bytes.Repeat([]byte{1}, 512)},
	}
	got := []answer{c.receive(), c.receive(), c.receive()}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); d != "" {
		t.Error(d)
	}
	c.leave()
}

func TestSecondReplyDoesNothing(t *testing.T) {
	var first func(error)
	c := open(t, all(diskSize), deviceFunc(func(_ *Request, reply func(error)) {
		if first == nil {
			first = reply
		}
		reply(nil)
		reply(syscall.EIO)
		first(syscall.EIO)
	}))
	for cookie := range uint64(5) {
		c.send(cookie, wire{Command: uint16(Read), Length: 512})
	}
	for cookie := range uint64(5) {
		if a := c.receive(); a.cookie != cookie || a.errno != 0 {
			t.Errorf("reply %d: cookie %d, errno %d", cookie, a.cookie, a.errno)
		}
	}
	c.leave() // nothing is left over
}

// TestPayloadsInFlightAreApart writes while earlier payloads are still with
// the device: no buffer may be used twice at a time.
func TestPayloadsInFlightAreApart(t *testing.T) {
	const n = 64
	requests := make(chan *Request, n)
	replies := make(chan func(error), n)
	c := open(t, all(diskSize), deviceFunc(func(r *Request, reply func(error)) {
		requests <- r
		replies <- reply
	}))
	for round := range 3 {
		for i := range n {
			c.send(uint64(i), wire{Command: uint16(Write), Length: 1024, Data: bytes.Repeat([]byte{byte(round + i)}, 1024)})
		}
		for i := range n {
			if r := receiveFrom(t, requests, "a request"); !bytes.Equal(r.Data, bytes.Repeat([]byte{byte(round + i)}, 1024)) {
				t.Errorf("round %d: payload %d holds %d…", round, i, r.Data[0])
			}
		}
		for range n {
			receiveFrom(t, replies, "a reply")(nil)
			if a := c.receive(); a.errno != 0 {
				t.Errorf("errno %d", a.errno)
			}
		}
	}
	c.leave()
}

func TestCommandNames(t *testing.T) {
	for c, want := range map[Command]string{
		0: "read", 1: "write", 2: "disconnect", 3: "flush", 4: "trim", 5: "command(5)", 6: "write-zeroes",
	} {
		if got := c.String(); got != want {
			t.Errorf("command %d is %q, want %q", uint8(c), got, want)
		}
	}
}

func TestBrokenTransmission(t *testing.T) {
	write := wire{Command: uint16(Write), Length: 512, Data: make([]byte, 512)}.bytes(1)
	refused := wire{Command: uint16(Write), Offset: diskSize, Length: 512, Data: make([]byte, 512)}.bytes(1)
	tests := []struct {
		name string
		send []byte
		want string // "" for an end in good order
	}{
		{"end", nil, ""},
		{"end after a request", write, ""},
		{"disconnect", wire{Command: uint16(disconnect)}.bytes(1), ""},
		{"disconnect, and more", append(wire{Command: uint16(disconnect)}.bytes(1), "more"...), ""},
		{"bad magic", append([]byte{0x25, 0x60, 0x95, 0x14}, write[4:]...), "bad magic 0x25609514"},
		{"end in a header", write[:27], "unexpected EOF"},
		{"end before the payload", write[:28], "unexpected EOF"},
		{"end in the payload", write[:539], "unexpected EOF"},
		{"end in a payload to be skipped", refused[:539], "unexpected EOF"},
		{"end before a payload to be skipped", refused[:28], "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, all(diskSize), newMemory(diskSize))
			c.write(tt.send)
			if err := c.conn.(*net.UnixConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c.conn) // until the server closes
			err := c.wait()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestKeep: data that a device keeps stays as it is, whatever is written later, until it
// says that it is done; then the memory is used again.
func TestKeep(t *testing.T) {
	const size, rounds = 64 << 10, 50
	var kept [][]byte
	var done []func()
	device := deviceFunc(func(r *Request, reply func(error)) {
		if r.Command == Write {
			kept, done = append(kept, r.Data), append(done, r.Keep())
		}
		reply(nil)
	})
	c := open(t, all(diskSize), device)
	for i := range rounds {
		c.do(wire{uint16(Write), 0, 0, size, bytes.Repeat([]byte{byte(i)}, size)})
		c.do(wire{uint16(Read), 0, 0, size, nil}) // takes a buffer, too
	}
	c.leave()
	for i, data := range kept {
		if !bytes.Equal(data, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Errorf("what was kept of write %d has changed", i)
		}
	}
	if len(kept) != rounds {
		t.Errorf("%d writes, not %d", len(kept), rounds)
	}
	for _, d := range done {
		d()
	}
}
