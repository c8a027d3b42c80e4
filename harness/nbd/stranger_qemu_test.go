package nbd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// qio runs qemu-io on the disk, with the guest's write cache on, so that a
// write is durable only if it says so.
func qio(t *testing.T, s *station, cmds ...string) (string, error) {
	t.Helper()
	args := []string{"-f", "raw", "-t", "writeback", "-d", "unmap"}
	for _, c := range cmds {
		args = append(args, "-c", c)
	}
	return run(t, qemuIO(t), append(args, s.uri)...)
}

func TestQemuIO(t *testing.T) {
	qemuIO(t)
	eachManner(t, strangerSize, func(t *testing.T, m *memory) {
		s := serveStrangers(t, all(strangerSize), m)
		out, err := qio(
			t, s,
			"write -P 0x11 0 64k",
			"write -f -P 0xab 4k 4k",
			"flush",
			"read -P 0xab 4k 4k",
			"read -P 0x11 8k 56k",
			"discard 16k 8k",
			"read -P 0 16k 8k",
			"write -z 32k 4k",
			"write -z -u 36k 4k",
			"write -z -f 40k 4k",
			"read -P 0 32k 12k",
			"write -P 0x77 25165824 512", // the last sector
			"read -P 0x77 25165824 512",
			"flush",
		)
		if err != nil || strings.Contains(out, "failed") {
			t.Fatalf("%v\n%s", err, out)
		}
		want := []Request{
			{Command: Write, Length: 64 << 10},
			{Command: Write, FUA: true, Offset: 4 << 10, Length: 4 << 10},
			{Command: Flush},
			{Command: Trim, Offset: 16 << 10, Length: 8 << 10},
			{Command: WriteZeroes, NoHole: true, Offset: 32 << 10, Length: 4 << 10},
			{Command: WriteZeroes, Offset: 36 << 10, Length: 4 << 10},
			{Command: WriteZeroes, NoHole: true, FUA: true, Offset: 40 << 10, Length: 4 << 10},
			{Command: Write, Offset: 24 << 20, Length: 512},
			{Command: Flush},
		}
		got := commands(m.log(), Write, Flush, Trim, WriteZeroes)
		if n := len(want); len(got) > n {
			// qemu-io flushes when it closes the disk.
			for _, r := range got[n:] {
				if r.Command != Flush {
					t.Errorf("%+v after the end", r)
				}
			}
			got = got[:n]
		}
		if d := cmp.Diff(want, got, asFields); d != "" {
			t.Error(d)
		}
	})
}

// TestQemuIOWriteThrough turns the guest's write cache off: each write then
// comes with FUA.
func TestQemuIOWriteThrough(t *testing.T) {
	m := newMemory(strangerSize)
	s := serveStrangers(t, all(strangerSize), m)
	must(t, qemuIO(t), "-f", "raw", "-t", "writethrough", "-c", "write -P 5 0 4k", s.uri)
	if d := cmp.Diff([]Request{{Command: Write, FUA: true, Length: 4096}}, commands(m.log(), Write), asFields); d != "" {
		t.Error(d)
	}
}

// TestQemuIOUnadvertised has a drive that does not own up to its cache: QEMU
// then sends no flush, and puts nothing in the place of FUA but a flush.
func TestQemuIOUnadvertised(t *testing.T) {
	m := newMemory(strangerSize)
	s := serveStrangers(t, Export{Size: strangerSize}, m)
	out, err := qio(t, s, "write -f -P 5 0 4k", "flush", "discard 0 4k", "read -P 5 0 4k", "write -z 0 4k", "read -P 0 0 4k")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []Request{{Command: Write, Length: 4096}, {Command: Write, Length: 4096}} // of data, of zeroes
	if d := cmp.Diff(want, commands(m.log(), Write, Flush, Trim, WriteZeroes), asFields); d != "" {
		t.Error(d)
	}
}

func TestQemuIOReadOnly(t *testing.T) {
	m := newMemory(strangerSize)
	e := all(strangerSize)
	e.ReadOnly = true
	s := serveStrangers(t, e, m)
	if out, err := qio(t, s, "write 0 4k"); err == nil {
		t.Errorf("a write succeeded: %s", out)
	}
	must(t, qemuIO(t), "-r", "-f", "raw", "-c", "read -P 0 0 1M", s.uri)
	if got := commands(m.log(), Write, Trim, WriteZeroes); len(got) != 0 {
		t.Errorf("the device was given %v", got)
	}
}

func TestQemuIOBytewise(t *testing.T) {
	m := newMemory(100001)
	e := all(100001)
	e.MinBlock = 1
	s := serveStrangers(t, e, m)
	out, err := qio(t, s, "write -P 0x21 99999 1", "write -P 0x42 7 3", "read -P 0x42 7 3", "read -P 0 10 1000")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []Request{{Command: Write, Offset: 99999, Length: 1}, {Command: Write, Offset: 7, Length: 3}}
	if d := cmp.Diff(want, commands(m.log(), Write), asFields); d != "" {
		t.Error(d)
	}
}

// TestQemuIOLargeBlocks has QEMU read, change and write whole blocks.
func TestQemuIOLargeBlocks(t *testing.T) {
	m := newMemory(1 << 20)
	e := all(1 << 20)
	e.MinBlock = 4096
	e.MaxBlock = 64 << 10
	s := serveStrangers(t, e, m)
	out, err := qio(t, s, "write -P 1 0 512k", "write -P 2 512 1024", "read -P 2 512 1024", "read -P 1 1536 500k")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, r := range m.log() {
		if r.Length > 64<<10 || r.Offset%4096 != 0 || r.Length%4096 != 0 {
			t.Errorf("%+v does not keep to the block sizes", r)
		}
	}
}

// TestQemuIOOutOfOrder holds the first of two reads until the second was
// answered.
func TestQemuIOOutOfOrder(t *testing.T) {
	m := newMemory(strangerSize)
	copy(m.data[4096:], bytes.Repeat([]byte{2}, 4096))
	copy(m.data, bytes.Repeat([]byte{1}, 4096))
	var first func()
	swapped := 0
	m.answer = func(r *Request, err error, reply func(error)) {
		switch {
		case r.Command == Read && r.Length == 4096 && first == nil:
			first = func() { reply(err) }
		case first != nil:
			reply(err)
			first()
			first = nil
			swapped++
		default:
			reply(err)
		}
	}
	s := serveStrangers(t, all(strangerSize), m)
	out, err := qio(t, s, "aio_read -P 1 0 4k", "aio_read -P 2 4k 4k", "aio_flush")
	if err != nil || strings.Contains(out, "failed") || swapped == 0 {
		t.Errorf("%v, %d swapped\n%s", err, swapped, out)
	}
}

func TestQemuIOHearsErrors(t *testing.T) {
	for _, tt := range []struct {
		command string
		on      Command
		fault   syscall.Errno
		want    string
	}{
		{"read 0 4k", Read, syscall.EIO, "Input/output error"},
		{"write 0 4k", Write, syscall.ENOSPC, "No space left on device"},
		{"write -f 0 4k", Write, syscall.EIO, "Input/output error"},
		{"flush", Flush, syscall.EIO, ""}, // it only exits with 1
		{"discard 0 4k", Trim, syscall.EIO, "Input/output error"},
		{"write -z 0 4k", WriteZeroes, syscall.EPERM, "Operation not permitted"},
	} {
		t.Run(tt.command, func(t *testing.T) {
			m := newMemory(strangerSize)
			m.fault = func(r *Request) error {
				if r.Command == tt.on {
					return tt.fault
				}
				return nil
			}
			s := serveStrangers(t, all(strangerSize), m)
			if out, err := qio(t, s, tt.command); err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("%v\n%s\nwant %q", err, out, tt.want)
			}
		})
	}
}

// TestQemuIOAndSilentDevice kills a client that waits for an answer: this is
// what a power cut looks like from here.
func TestQemuIOAndSilentDevice(t *testing.T) {
	name := qemuIO(t)
	for _, command := range []string{"read 0 4k", "write 0 64k", "flush", "write -f 0 4k"} {
		t.Run(command, func(t *testing.T) {
			stopped := newSilent()
			m := newMemory(strangerSize)
			asked := map[string]Command{"read": Read, "write": Write, "flush": Flush}[strings.Fields(command)[0]]
			s := serveStrangers(t, all(strangerSize), deviceFunc(func(r *Request, reply func(error)) {
				if r.Command == asked && (r.Command == Flush || r.Length >= 4096) {
					stopped.Submit(r, reply)
					return
				}
				m.Submit(r, reply) // QEMU reads a sector or so when it opens a disk
			}))
			cmd := exec.Command(name, "-f", "raw", "-t", "writeback", "-c", command, s.uri)
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r := receiveFrom(t, stopped.arrived, command)
			if want := strings.Contains(command, "-f"); r.FUA != want {
				t.Errorf("FUA is %v", r.FUA)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			if err := receiveFrom(t, s.ended, "Serve"); err != nil {
				t.Errorf("Serve: %v", err)
			}
			stopped.answer(nil) // too late
			if out.Len() > 0 {
				t.Errorf("qemu-io heard an answer: %s", &out)
			}
		})
	}
}

func TestQemuImgInfo(t *testing.T) {
	s := serveStrangers(t, all(strangerSize), newMemory(strangerSize))
	var info struct {
		Size   int64  `json:"virtual-size"`
		Format string `json:"format"`
	}
	out := must(t, qemuImg(t), "info", "--output=json", s.uri)
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if info.Size != strangerSize || info.Format != "raw" {
		t.Errorf("%+v", info)
	}
}

func TestQemuImgMap(t *testing.T) {
	s := serveStrangers(t, all(strangerSize), newMemory(strangerSize))
	var extents []struct {
		Start, Length int64
		Data          bool
	}
	out := must(t, qemuImg(t), "map", "-f", "raw", "--output=json", s.uri)
	if err := json.Unmarshal([]byte(out), &extents); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Without metadata contexts all is data.
	var end int64
	for _, x := range extents {
		if x.Start != end || !x.Data {
			t.Errorf("extent %+v, want data from %d", x, end)
		}
		end = x.Start + x.Length
	}
	if end != strangerSize {
		t.Errorf("the map ends at %d, want %d", end, strangerSize)
	}
}

func TestQemuImgConvert(t *testing.T) {
	img := qemuImg(t)
	want := image(strangerSize)
	eachManner(t, strangerSize, func(t *testing.T, m *memory) {
		source := writeFile(t, "source", want)
		copy(m.data, bytes.Repeat([]byte{0xff}, strangerSize)) // zeroes must be written too
		s := serveStrangers(t, all(strangerSize), m)
		must(t, img, "convert", "-n", "-W", "-f", "raw", "-O", "raw", source, s.uri)
		same(t, "the disk", m.content(), want)
		must(t, img, "compare", "-f", "raw", "-F", "raw", source, s.uri)

		back := filepath.Join(t.TempDir(), "back")
		must(t, img, "convert", "-W", "-f", "raw", "-O", "raw", s.uri, back)
		same(t, "the copy", readFile(t, back), want)

		qcow := filepath.Join(t.TempDir(), "qcow2")
		must(t, img, "convert", "-f", "raw", "-O", "qcow2", s.uri, qcow)
		must(t, img, "compare", "-f", "qcow2", "-F", "raw", qcow, s.uri)
	})
}

func TestQemuImgCompareFindsADifference(t *testing.T) {
	img := qemuImg(t)
	data := image(strangerSize)
	source := writeFile(t, "source", data)
	m := newMemory(strangerSize)
	copy(m.data, data)
	m.data[20<<20] ^= 1
	s := serveStrangers(t, all(strangerSize), m)
	if out, err := run(t, img, "compare", "-f", "raw", "-F", "raw", source, s.uri); err == nil {
		t.Errorf("no difference: %s", out)
	}
}

func TestQemuImgDD(t *testing.T) {
	img := qemuImg(t)
	want := image(strangerSize)
	m := newMemory(strangerSize)
	copy(m.data, want)
	s := serveStrangers(t, all(strangerSize), m)
	out := filepath.Join(t.TempDir(), "out")
	must(t, img, "dd", "-f", "raw", "-O", "raw", "bs=1M", "skip=3", "count=7", "if="+s.uri, "of="+out)
	// count is from the start of the input: skip is part of it.
	same(t, "the part", readFile(t, out), want[3<<20:7<<20])
}

func TestQemuImgBench(t *testing.T) {
	img := qemuImg(t)
	eachManner(t, strangerSize, func(t *testing.T, m *memory) {
		s := serveStrangers(t, all(strangerSize), m)
		const n = 400
		must(t, img, "bench", "-f", "raw", "-c", fmt.Sprint(n), "-d", "16", "-s", "4096", s.uri)
		must(t, img, "bench", "-f", "raw", "-t", "none", "-w", "--pattern=90", "--flush-interval=40",
			"-c", fmt.Sprint(n), "-d", "16", "-s", "4096", s.uri)
		log := m.log()
		if w, f := len(commands(log, Write)), len(commands(log, Flush)); w != n || f < n/40 {
			t.Errorf("%d writes and %d flushes, want %d and at least %d", w, f, n, n/40)
		}
		want := append(bytes.Repeat([]byte{90}, 4096*n), make([]byte, strangerSize-4096*n)...)
		same(t, "the disk", m.content(), want)
	})
}

// TestQemuImgOverTheLongSocketPath reaches a socket whose path does not fit an
// address by a name relative to its folder.
func TestQemuImgOverTheLongSocketPath(t *testing.T) {
	img := qemuImg(t)
	dir := filepath.Join(tempFolder(t), strings.Repeat("d", 100))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(filepath.Join(dir, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = Serve(t.Context(), conn, all(4096), newMemory(4096))
		}
		ended <- err
	}()
	t.Chdir(dir)
	must(t, img, "info", "--image-opts", "driver=nbd,server.type=unix,server.path=disk")
	if err := receiveFrom(t, ended, "Serve"); err != nil {
		t.Error(err)
	}
}
