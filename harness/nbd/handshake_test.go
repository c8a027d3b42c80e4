package nbd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const fixedNoZeroes = handshakeFixedNewstyle | handshakeNoZeroes

func TestGoTellsExportAndBlockSizes(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name  string
		e     Export
		size  uint64
		flags uint16
		block [3]uint32
	}{
		{"bare", Export{Size: mib}, mib, 1, [3]uint32{512, 4096, 32 * mib}},
		{"all", all(mib), mib, 1 | 4 | 8 | 32 | 64, [3]uint32{512, 4096, 32 * mib}},
		{"no cache", Export{Size: mib, FUA: true}, mib, 1 | 8, [3]uint32{512, 4096, 32 * mib}},
		{
			"read only",
			Export{Size: mib, ReadOnly: true, Flush: true, Trim: true, WriteZeroes: true},
			mib, 1 | 2 | 4,
			[3]uint32{512, 4096, 32 * mib},
		},
		{"bytes", Export{Size: 1000001, MinBlock: 1}, 1000001, 1, [3]uint32{1, 4096, 32 * mib}},
		{"large blocks", Export{Size: mib, MinBlock: 65536}, mib, 1, [3]uint32{65536, 65536, 32 * mib}},
		{"chosen blocks", Export{MinBlock: 4096, PreferredBlock: 8192, MaxBlock: mib}, 0, 1, [3]uint32{4096, 8192, mib}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := []optionReply{
				{repInfo, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64([]byte{0, 0}, tt.size), tt.flags)},
				{repInfo, []byte{0, 3}},
				{repAck, []byte{}},
			}
			for _, n := range tt.block {
				want[1].data = binary.BigEndian.AppendUint32(want[1].data, n)
			}
			c := dial(t, tt.e, newMemory(0))
			c.greet(fixedNoZeroes)
			for range 2 { // INFO may come first, any number of times
				if d := cmp.Diff(want, c.option(optInfo, infoRequest("")), cmp.AllowUnexported(optionReply{})); d != "" {
					t.Error("INFO", d)
				}
			}
			if d := cmp.Diff(want, c.enter(), cmp.AllowUnexported(optionReply{})); d != "" {
				t.Error("GO", d)
			}
			c.leave()
		})
	}
}

func TestImpossibleExport(t *testing.T) {
	tests := []struct {
		e    Export
		want string
	}{
		{Export{Size: -512}, "size -512"},
		{Export{Size: 1000}, "size 1000"},
		{Export{MinBlock: 3}, "minimum block 3"},
		{Export{MinBlock: 128 << 10}, "minimum block 131072"},
		{Export{PreferredBlock: 256, MinBlock: 1}, "preferred block 256"},
		{Export{PreferredBlock: 5000}, "preferred block 5000"},
		{Export{PreferredBlock: 512, MinBlock: 4096}, "preferred block 512"},
		{Export{MaxBlock: 512}, "maximum block 512"},
		{Export{MaxBlock: 4097}, "maximum block 4097"},
		{Export{MaxBlock: 128 << 20}, "maximum block 134217728"},
	}
	for _, tt := range tests {
		conn, peer := socketPair(t)
		err := Serve(t.Context(), conn, tt.e, newMemory(0))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one with %q", tt.e, err, tt.want)
		}
		if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%+v: client read %d bytes, %v; want the connection closed", tt.e, n, err)
		}
		peer.Close()
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	long := make([]byte, maxOption+1)
	tests := []struct {
		name string
		opt  uint32
		data []byte
		want uint32
	}{
		{"starttls", 5, nil, repErrUnsup},
		{"peek export", 4, nil, repErrUnsup},
		{"structured reply", 8, nil, repErrUnsup},
		{"list meta context", 9, []byte("\x00\x00\x00\x00\x00\x00\x00\x00"), repErrUnsup},
		{"set meta context", 10, []byte("x"), repErrUnsup},
		{"extended headers", 11, nil, repErrUnsup},
		{"number zero", 0, nil, repErrUnsup},
		{"last number", 1<<32 - 1, make([]byte, maxOption), repErrUnsup},
		{"unknown and too long", 77, long, repErrTooBig},
		{"too long", optGo, long, repErrTooBig},
		{"list with data", optList, []byte("x"), repErrInvalid},
		{"other export", optGo, infoRequest("other"), repErrUnknown},
		{"other export, asked about", optInfo, infoRequest("other"), repErrUnknown},
		{"info without data", optInfo, nil, repErrInvalid},
		{"go without a count", optGo, make([]byte, 5), repErrInvalid},
		{"go with a name longer than the data", optGo, append(binary.BigEndian.AppendUint32(nil, 1<<32-1), "name"...), repErrInvalid},
		{"go with a name over the count", optGo, append(binary.BigEndian.AppendUint32(nil, 1), 0, 0), repErrInvalid},
		{"go with too few kinds", optGo, append(infoRequest(""), 0), repErrInvalid},
		{"go with kinds that are missing", optGo, []byte{0, 0, 0, 0, 0, 1}, repErrInvalid},
	}
	c := dial(t, all(4096), newMemory(4096))
	c.greet(fixedNoZeroes)
	for _, tt := range tests {
		replies := c.option(tt.opt, tt.data)
		if len(replies) != 1 || replies[0].kind != tt.want {
			t.Errorf("%s: replies %x, want one of kind %#x", tt.name, replies, tt.want)
		}
	}
	c.enter() // none of it did harm
	c.leave()
}

func TestListNamesTheDefaultExport(t *testing.T) {
	c := dial(t, all(4096), newMemory(4096))
	c.greet(fixedNoZeroes)
	want := []optionReply{{repServer, make([]byte, 4)}, {repAck, []byte{}}}
	if d := cmp.Diff(want, c.option(optList, nil), cmp.AllowUnexported(optionReply{})); d != "" {
		t.Error(d)
	}
	want = want[1:]
	if d := cmp.Diff(want, c.option(optAbort, nil), cmp.AllowUnexported(optionReply{})); d != "" {
		t.Error(d)
	}
	if err := c.wait(); err != nil {
		t.Error("after ABORT:", err)
	}
}

func TestExportName(t *testing.T) {
	for _, tt := range []struct {
		flags   uint32
		padding int
	}{{fixedNoZeroes, 0}, {handshakeFixedNewstyle, 124}, {0, 124}, {handshakeNoZeroes, 0}} {
		c := dial(t, all(1<<20), newMemory(1<<20))
		c.greet(tt.flags)
		c.write(optionBytes(optExportName, nil))
		want := append([]byte{0, 0, 0, 0, 0, 16, 0, 0, 0, 109}, make([]byte, tt.padding)...)
		if got := c.read(10 + tt.padding); !bytes.Equal(got, want) {
			t.Errorf("flags %d: %x, want %x", tt.flags, got, want)
		}
		if a := c.do(wire{Command: uint16(Read), Length: 512}); a.errno != 0 || len(a.data) != 512 {
			t.Errorf("flags %d: read: %v, %d bytes", tt.flags, a.errno, len(a.data))
		}
		c.leave()
	}
}

// TestBrokenHandshake has clients that cannot be answered: the connection is
// closed, with an error.
func TestBrokenHandshake(t *testing.T) {
	fixed := []byte{0, 0, 0, 3}
	tests := []struct {
		name string
		send []byte
		want string
	}{
		{"unknown client flag", []byte{0, 0, 0, 4}, "unknown flags 0x4"},
		{"bad option magic", append(fixed, "ihaveopt\x00\x00\x00\x07\x00\x00\x00\x00"...), "bad magic"},
		{"options without fixed newstyle", append([]byte{0, 0, 0, 2}, optionBytes(optGo, infoRequest(""))...), "fixed newstyle"},
		{"export name that is not served", append(fixed, optionBytes(optExportName, []byte("sda"))...), `"sda"`},
		{"export name that is too long", append(fixed, optionBytes(optExportName, make([]byte, maxOption+1))...), "8193 bytes"},
		{"too many options", append(fixed, bytes.Repeat(optionBytes(optList, nil), maxOptions)...), "more than 64"},
		{"end in the flags", fixed[:2], "unexpected EOF"},
		{"end in an option", append(fixed, "IHAVEOPT"...), "unexpected EOF"},
		{"end before the data", append(fixed, "IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x06"...), "unexpected EOF"},
		{"end in the data", append(fixed, "IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x06\x00"...), "unexpected EOF"},
		{"end in data that is too long", append(fixed, "IHAVEOPT\x00\x00\x00\x07\xff\xff\xff\xff\x00"...), "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, all(4096), newMemory(4096))
			c.read(18)
			c.write(tt.send)
			if err := c.conn.(*net.UnixConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c.conn) // until the server closes
			err := c.wait()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if wantEnd := tt.want == "unexpected EOF"; errors.Is(err, io.ErrUnexpectedEOF) != wantEnd {
				t.Errorf("error %v: wraps ErrUnexpectedEOF is %v", err, !wantEnd)
			}
		})
	}
}

func TestClientLeavesInHandshake(t *testing.T) {
	c := dial(t, all(4096), newMemory(4096))
	c.conn.Close() // before a word
	if err := c.wait(); err != nil {
		t.Error(err)
	}
	c = dial(t, all(4096), newMemory(4096))
	c.greet(fixedNoZeroes)
	c.option(optList, nil)
	c.conn.Close() // between two options
	if err := c.wait(); err != nil {
		t.Error(err)
	}
}

func TestContextEndsHandshake(t *testing.T) {
	cause := errors.New("enough")
	c := dial(t, all(4096), newMemory(4096))
	c.greet(fixedNoZeroes)
	c.stop(cause)
	if err := c.wait(); !errors.Is(err, cause) {
		t.Errorf("error %v, want one that wraps the cause", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // before it began
	a, b := socketPair(t)
	defer b.Close()
	if err := Serve(ctx, a, all(4096), newMemory(4096)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// TestLengthsAreNotBelieved has a client claim much more than it sends: what
// the server sets aside must not follow the claim.
func TestLengthsAreNotBelieved(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<32-1)
	tests := map[string][]byte{
		"option":      append([]byte("IHAVEOPT\x00\x00\x00\x4d"), huge...),
		"name length": optionBytes(optGo, append(bytes.Clone(huge), 0, 0)),
		"kinds":       optionBytes(optGo, []byte{0, 0, 0, 0, 0xff, 0xff}),
		"write": append(optionBytes(optGo, infoRequest("")),
			wire{Command: uint16(Write), Length: 1<<32 - 512}.bytes(1)...),
		"read": append(optionBytes(optGo, infoRequest("")),
			wire{Command: uint16(Read), Length: 1<<32 - 512}.bytes(1)...),
	}
	for name, send := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := dial(t, all(1<<20), newMemory(0))
			c.greet(fixedNoZeroes)
			c.write(send)
			if err := c.conn.(*net.UnixConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c.conn)
			_ = c.wait() // some of these end well, some do not
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
		})
	}
}
