package nbd

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// model says, from the protocol's text and apart from the server's code, what
// a client is to be told, and what the disk then holds.
type model struct {
	e    Export
	data []byte
}

// errno is what a request is answered with by a device that has no faults.
func (m *model) errno(w wire) syscall.Errno {
	command := Command(w.Command)
	payload := command == Read || command == Write
	ranged := payload || command == Trim || command == WriteZeroes
	offered := map[Command]bool{
		Read: true, Write: true, Flush: m.e.Flush,
		Trim: m.e.Trim, WriteZeroes: m.e.WriteZeroes,
	}[command]
	flags := w.Flags
	if m.e.FUA {
		flags &^= fua
	}
	if command == WriteZeroes {
		flags &^= noHole
	}
	switch {
	case w.Command > 255 || !offered || flags != 0:
		return syscall.EINVAL
	case command == Flush && (w.Offset != 0 || w.Length != 0):
		return syscall.EINVAL
	case command == Flush:
		return 0
	case m.e.ReadOnly && command != Read:
		return syscall.EPERM
	case w.Offset%uint64(m.e.MinBlock) != 0 || w.Length%m.e.MinBlock != 0 || w.Length == 0:
		return syscall.EINVAL
	case payload && w.Length > m.e.MaxBlock:
		return syscall.EINVAL
	case ranged && (w.Offset >= 1<<63 || w.Offset+uint64(w.Length) > uint64(m.e.Size)):
		if command == Write || command == WriteZeroes {
			return syscall.ENOSPC
		}
		return syscall.EINVAL
	}
	return 0
}

// do carries a request out and returns its reply.
func (m *model) do(cookie uint64, w wire) answer {
	a := answer{cookie: cookie, errno: m.errno(w)}
	if a.errno != 0 || Command(w.Command) == Flush {
		return a
	}
	span := m.data[w.Offset : w.Offset+uint64(w.Length)]
	switch Command(w.Command) {
	case Read:
		a.data = bytes.Clone(span)
	case Write:
		copy(span, w.Data)
	case Trim, WriteZeroes:
		clear(span)
	}
	return a
}

// batch is a device that keeps its replies until a number of requests has
// come, and then gives them in a chosen order.
type batch struct {
	*memory
	mu    sync.Mutex
	order []int
	held  []func()
}

// expect begins a batch of len(order) requests.
func (b *batch) expect(order []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order, b.held = order, nil
}

func (b *batch) hold(_ *Request, err error, reply func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = append(b.held, func() { reply(err) })
	if len(b.held) < len(b.order) {
		return
	}
	var done sync.WaitGroup
	defer done.Wait()
	for i, n := range b.order {
		if i%2 == 0 {
			b.held[n]()
			continue
		}
		done.Go(b.held[n])
	}
}

// draw draws an export.
func drawExport(t *rapid.T) Export {
	yes := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) > 0 }
	minBlock := rapid.SampledFrom([]uint32{1, 512, 4096}).Draw(t, "minimum block")
	return Export{
		Size:  int64(minBlock) * rapid.Int64Range(0, 1<<17/int64(minBlock)).Draw(t, "blocks"),
		Flush: yes("flush"), FUA: yes("fua"), Trim: yes("trim"), WriteZeroes: yes("write-zeroes"),
		ReadOnly:       !yes("writable"),
		MinBlock:       minBlock,
		PreferredBlock: 4096,
		MaxBlock:       32 << 10,
	}
}

// drawRequest draws a request that is more often right than wrong.
func drawRequest(t *rapid.T, e Export) wire {
	w := wire{Command: rapid.SampledFrom([]uint16{0, 0, 0, 1, 1, 1, 1, 3, 4, 6, 6, 5, 7, 300}).Draw(t, "command")}
	w.Flags = rapid.SampledFrom([]uint16{0, 0, 0, 0, fua, fua, noHole, noHole | fua, 4, 16}).Draw(t, "flags")
	unit := uint64(e.MinBlock)
	if rapid.IntRange(0, 9).Draw(t, "aligned") == 0 {
		unit = 1
	}
	w.Offset = unit * rapid.Uint64Range(0, uint64(e.Size)/unit+1).Draw(t, "offset")
	w.Length = uint32(unit * rapid.Uint64Range(0, min(uint64(e.Size), 36<<10)/unit+1).Draw(t, "length"))
	switch {
	case Command(w.Command) == Flush && rapid.IntRange(0, 9).Draw(t, "flush range") > 0:
		w.Offset, w.Length = 0, 0
	case rapid.IntRange(0, 19).Draw(t, "far") == 0:
		w.Offset |= 1 << rapid.IntRange(32, 63).Draw(t, "bit")
	}
	if Command(w.Command) == Write {
		w.Data = bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, int(w.Length))
	}
	return w
}

// TestServerAgreesWithModel sends batches of requests, right and wrong ones,
// that are answered in any order, and compares every reply, and the disk.
func TestServerAgreesWithModel(t *testing.T) {
	dir := tempFolder(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		e := drawExport(t)
		m := &model{e: e, data: make([]byte, e.Size)}
		d := &batch{memory: newMemory(e.Size)}
		d.answer = d.hold
		runs++
		c := connect(t, filepath.Join(dir, fmt.Sprint(runs)), e, d)
		defer c.conn.Close()
		c.greet(fixedNoZeroes)
		c.enter()
		cookie := rapid.Uint64().Draw(t, "first cookie")
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wire { return drawRequest(t, e) }), 1, 8).Draw(t, "requests")
			runBatch(t, c, d, m, cookie, requests)
			cookie += uint64(len(requests))
		}
		c.leave()
		if !bytes.Equal(d.content(), m.data) {
			t.Fatalf("the disk differs from the model")
		}
	})
}

func runBatch(t *rapid.T, c *client, d *batch, m *model, cookie uint64, requests []wire) {
	var order []int
	for _, w := range requests {
		if m.errno(w) == 0 {
			order = append(order, len(order))
		}
	}
	if len(order) > 0 {
		order = rapid.Permutation(order).Draw(t, "order of replies")
	}
	d.expect(order)
	want := map[uint64]answer{}
	for i, w := range requests {
		want[cookie+uint64(i)] = m.do(cookie+uint64(i), w)
	}
	for i, w := range requests {
		c.send(cookie+uint64(i), w)
	}
	for range requests {
		got := c.receive()
		a, ok := want[got.cookie]
		if !ok || a.errno != got.errno || !bytes.Equal(a.data, got.data) {
			t.Fatalf("request %+v: errno %d and %d bytes, want errno %d and %d bytes",
				requests[got.cookie-cookie], got.errno, len(got.data), a.errno, len(a.data))
		}
		delete(want, got.cookie)
	}
}
