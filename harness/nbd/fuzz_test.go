package nbd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"
)

// Which goroutine runs first changes the coverage of one and the same input, so
// minimising takes long and gains little here: run the fuzz targets with
// -fuzzminimizetime=20x.

// fuzzExport is small, so that arbitrary bytes often hit something.
func fuzzExport() Export {
	e := all(1 << 16)
	e.MaxBlock = 4096
	return e
}

// converse sends in to a server of d and returns what it says, and what Serve
// returns. If deaf, the client hangs up without listening.
func converse(t *testing.T, e Export, d Device, in []byte, deaf bool) (out []byte, err error) {
	t.Helper()
	lost := errors.New("Serve did not end by itself")
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, lost)
	defer cancel()
	server, client := socketPair(t)
	var talk sync.WaitGroup
	talk.Go(func() {
		_, _ = client.Write(in) // the server may close early
		if deaf {
			client.Close()
			return
		}
		_ = client.CloseWrite()
	})
	if !deaf {
		talk.Go(func() { out, _ = io.ReadAll(client) }) // a reset after the last byte is as good as an end
	}
	err = Serve(ctx, server, e, d)
	talk.Wait()
	client.Close()
	if errors.Is(err, lost) {
		t.Fatal(err)
	}
	return out, err
}

// checked is a device that wants each request to keep to the export.
type checked struct {
	t    *testing.T
	e    Export
	next Device
}

func (c checked) Submit(r *Request, reply func(error)) {
	payload := r.Command == Read || r.Command == Write
	writes := r.Command == Write || r.Command == Trim || r.Command == WriteZeroes
	switch {
	case r.Offset < 0 || r.Length < 0 || r.Offset+int64(r.Length) > c.e.Size,
		r.Offset%512 != 0 || r.Length%512 != 0,
		payload && (len(r.Data) != r.Length || cap(r.Data) != r.Length || r.Length > int(c.e.MaxBlock)),
		!payload && r.Data != nil,
		r.Command == Flush && (r.Offset != 0 || r.Length != 0),
		r.Command != Flush && r.Length == 0,
		!payload && !writes && r.Command != Flush,
		r.FUA && !writes,
		r.NoHole && r.Command != WriteZeroes:
		c.t.Errorf("the device was given %v at %d, length %d, %d bytes of data, FUA %v, NoHole %v",
			r.Command, r.Offset, r.Length, len(r.Data), r.FUA, r.NoHole)
	}
	c.next.Submit(r, reply)
}

func FuzzHandshake(f *testing.F) {
	fixed := []byte{0, 0, 0, 3}
	enter := optionBytes(optGo, infoRequest("", infoBlockSize))
	disc := wire{Command: uint16(disconnect)}.bytes(1)
	f.Add([]byte{})
	f.Add(bytes.Join([][]byte{fixed, enter, disc}, nil))
	f.Add(bytes.Join([][]byte{{0, 0, 0, 0}, optionBytes(optExportName, nil), disc}, nil))
	f.Add(bytes.Join([][]byte{fixed, optionBytes(optList, nil), optionBytes(optAbort, nil)}, nil))
	f.Add(bytes.Join([][]byte{fixed, optionBytes(8, nil), optionBytes(5, []byte("x")), optionBytes(optInfo, infoRequest("sda")), enter}, nil))
	f.Add(append(bytes.Clone(fixed), "IHAVEOPT\x00\x00\x00\x63\xff\xff\xff\xff"...))
	f.Fuzz(func(t *testing.T, in []byte) {
		e := fuzzExport()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, _ := converse(t, e, checked{t, e, newMemory(e.Size)}, in, false)
		runtime.ReadMemStats(&after)
		if !bytes.HasPrefix(out, []byte("NBDMAGICIHAVEOPT\x00\x03")) {
			t.Errorf("greeting %q", out)
		}
		// The input is copied a few times at most; the rest is the disk, the
		// server's buffers and the replies to the options.
		if n, most := after.TotalAlloc-before.TotalAlloc, uint64(4<<20+64*len(in)); n > most {
			t.Errorf("%d bytes were allocated for an input of %d", n, len(in))
		}
	})
}

// FuzzTransmission sends arbitrary bytes after a handshake. The first byte
// picks how the device answers: at once (then the model says what the client
// must hear), from other goroutines, or never.
func FuzzTransmission(f *testing.F) {
	stream := func(first byte, requests ...wire) (b []byte) {
		b = []byte{first}
		for i, w := range requests {
			b = append(b, w.bytes(uint64(i))...)
		}
		return b
	}
	write := wire{Command: uint16(Write), Flags: fua, Offset: 512, Length: 1024, Data: bytes.Repeat([]byte("ab"), 512)}
	read := wire{Command: uint16(Read), Offset: 0, Length: 2048}
	flush := wire{Command: uint16(Flush)}
	zero := wire{Command: uint16(WriteZeroes), Flags: noHole, Offset: 512, Length: 512}
	trim := wire{Command: uint16(Trim), Offset: 1024, Length: 512}
	end := wire{Command: uint16(disconnect)}
	long := wire{Command: uint16(Write), Length: 8192, Data: make([]byte, 8192)}
	for mode := range byte(3) {
		f.Add([]byte{mode})
		f.Add(stream(mode, write, read, flush, zero, trim, read, end))
		f.Add(stream(mode, long, read, wire{Command: uint16(Write), Offset: 1 << 63, Length: 512, Data: make([]byte, 512)}, read))
		f.Add(stream(mode, wire{Command: 5}, wire{Command: 999, Flags: 0xffff}, wire{Length: 1<<32 - 1}, write)[:1000])
		f.Add(append([]byte{mode}, bytes.Repeat(flush.bytes(7), 300)...))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		fuzzTransmission(t, in[0]%3, in[1:])
	})
}

func fuzzTransmission(t *testing.T, mode byte, in []byte) {
	e, err := fuzzExport().complete()
	if err != nil {
		t.Fatal(err)
	}
	m := newMemory(e.Size)
	device := checked{t, e, m}
	var late sync.WaitGroup
	switch mode {
	case 1:
		m.answer = func(_ *Request, err error, reply func(error)) { late.Go(func() { reply(err) }) }
	case 2:
		device.next = newQuiet(t)
		in = in[:min(len(in), 64<<10)] // what fits the socket: the server may stop to read
	}
	handshake := append([]byte{0, 0, 0, 3}, optionBytes(optGo, infoRequest(""))...)
	out, err := converse(t, e, device, append(handshake, in...), mode == 2)
	late.Wait()
	if mode != 0 {
		return
	}
	want, clean := replay(&model{e: e, data: make([]byte, e.Size)}, in)
	const greeting = 18 + (20 + 12) + (20 + 14) + 20
	if got := out[min(greeting, len(out)):]; !bytes.Equal(got, want) {
		t.Errorf("the client heard %d bytes, want %d:\n%x\n%x", len(got), len(want), got, want)
	}
	if clean != (err == nil) {
		t.Errorf("error %v; the stream ends in good order: %v", err, clean)
	}
}

// replay returns what a client must hear if it sends the stream in to a device
// that answers at once, and whether the stream ends in good order.
func replay(m *model, in []byte) (out []byte, clean bool) {
	for len(in) >= 28 {
		w := wire{
			Flags:   binary.BigEndian.Uint16(in[4:]),
			Command: binary.BigEndian.Uint16(in[6:]),
			Offset:  binary.BigEndian.Uint64(in[16:]),
			Length:  binary.BigEndian.Uint32(in[24:]),
		}
		magic, cookie := in[:4], in[8:16]
		in = in[28:]
		if !bytes.Equal(magic, []byte{0x25, 0x60, 0x95, 0x13}) {
			return out, false
		}
		if w.Command == 2 {
			return out, true
		}
		if w.Command == 1 {
			if uint64(len(in)) < uint64(w.Length) {
				return out, false
			}
			w.Data, in = in[:w.Length], in[w.Length:]
		}
		a := m.do(0, w)
		out = append(out, 0x67, 0x44, 0x66, 0x98, 0, 0, 0, byte(a.errno))
		out = append(append(out, cookie...), a.data...)
	}
	return out, len(in) == 0
}

// quiet is a device that never answers. It wants the limits to hold.
type quiet struct {
	t               *testing.T
	requests, bytes int
}

func newQuiet(t *testing.T) *quiet { return &quiet{t: t} }

func (q *quiet) Submit(r *Request, _ func(error)) {
	q.requests++
	q.bytes += len(r.Data)
	if q.requests > maxInFlight || q.bytes > maxBytesInFlight {
		q.t.Errorf("%d requests and %d bytes in flight", q.requests, q.bytes)
	}
}
