package nbd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests of this group put strangers before the server: clients that others
// wrote. This file has what they share.

// strangerSize is no multiple of 4096, and holds a few requests of any tool.
const strangerSize = 24<<20 + 512

// tool is the path of a program, or a reason to skip the test.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is missing: apt-get install %s", name, pkg)
	}
	return path
}

func qemuIO(t *testing.T) string  { return tool(t, "qemu-io", "qemu-utils") }
func qemuImg(t *testing.T) string { return tool(t, "qemu-img", "qemu-utils") }
func nbdInfo(t *testing.T) string { return tool(t, "nbdinfo", "libnbd-bin") }
func nbdCopy(t *testing.T) string { return tool(t, "nbdcopy", "libnbd-bin") }

// run runs a program to its end and returns what it printed, errors included.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("run %s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// must is run for a program that has to succeed.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := run(t, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// station serves every connection that comes, each with the same device.
type station struct {
	uri   string
	ended chan error // what Serve returned, a connection each
}

func serveStrangers(t *testing.T, e Export, d Device) *station {
	t.Helper()
	path := filepath.Join(tempFolder(t), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &station{uri: "nbd+unix:///?socket=" + path, ended: make(chan error, 64)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			serving.Go(func() { s.ended <- Serve(ctx, conn, e, d) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		// Strangers have exited, so their connections end by themselves.
		timer := time.AfterFunc(patience, func() { cancel(errors.New("Serve did not end by itself")) })
		serving.Wait()
		timer.Stop()
		cancel(nil)
		close(s.ended)
		for err := range s.ended {
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	})
	return s
}

// image returns n bytes that are the same at each run: noise, text, and holes
// of zeroes of many sizes, such as a file system leaves.
func image(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for at := 0; at < n; {
		span := b[at:min(n, at+512*(1+rng.IntN(600)))]
		switch rng.IntN(3) {
		case 0:
			for i := range span {
				span[i] = byte(rng.Uint32())
			}
		case 1:
			copy(span, bytes.Repeat([]byte("powercut"), len(span)/8+1))
		}
		at += len(span)
	}
	return b
}

// same compares by hash, and says where the first difference is.
func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if sha256.Sum256(got) == sha256.Sum256(want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: sha256 %x of %d bytes, want %x of %d; they differ from byte %d",
		what, sha256.Sum256(got), len(got), sha256.Sum256(want), len(want), at)
}

func writeFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// manner is a way in which a device may answer.
type manner struct {
	name   string
	attach func(t *testing.T, m *memory)
}

// manners are all of them: whatever the order of the replies, a client must
// find its data.
var manners = []manner{
	{"at once", func(*testing.T, *memory) {}},
	{"backwards", backwards},
	{"from many goroutines", func(t *testing.T, m *memory) {
		var late sync.WaitGroup
		m.answer = func(_ *Request, err error, reply func(error)) { late.Go(func() { reply(err) }) }
		t.Cleanup(late.Wait)
	}},
}

// backwards lets the device answer whatever has come in the reverse order.
func backwards(t *testing.T, m *memory) {
	held := make(chan func(), maxInFlight)
	m.answer = func(_ *Request, err error, reply func(error)) { held <- func() { reply(err) } }
	var answering sync.WaitGroup
	answering.Go(func() {
		for first := range held {
			answers := []func(){first}
			for n := len(held); n > 0; n-- {
				answers = append(answers, <-held)
			}
			for i := range answers {
				answers[len(answers)-1-i]()
			}
		}
	})
	// Cleanups run backwards too: this one must come after the last Submit,
	// so attach before the connection is served.
	t.Cleanup(func() { close(held); answering.Wait() })
}

// eachManner runs a test once for each manner, with a device of n bytes.
func eachManner(t *testing.T, n int64, test func(t *testing.T, m *memory)) {
	for _, way := range manners {
		t.Run(way.name, func(t *testing.T) {
			m := newMemory(n)
			way.attach(t, m)
			test(t, m)
		})
	}
}

// commands leaves out of a log what a test does not look at.
func commands(log []Request, keep ...Command) (kept []Request) {
	for _, r := range log {
		for _, c := range keep {
			if r.Command == c {
				kept = append(kept, r)
			}
		}
	}
	return kept
}
