package disk_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/nbd"
)

const driveSize = 16 << 20

// served is a drive that strangers can connect to, one after the other or several
// at once.
type served struct {
	uri, log string
	close    func()
}

func serve(t *testing.T) served {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "block.log")
	log, err := blocklog.Create(path, driveSize)
	if err != nil {
		t.Fatal(err)
	}
	d := disk.New(disk.Config{Base: machine.Zeros{}, Size: driveSize, Log: log, WriteCache: true})
	l, err := nbd.Listen(filepath.Join(dir, "nbd"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serveOne(ctx, t, c, d) })
		}
	})
	return served{uri: "nbd+unix:///?socket=" + filepath.Join(dir, "nbd"), log: path, close: sync.OnceFunc(func() {
		l.Close()
		cancel()
		all.Wait()
		d.Close()
		log.Close()
	})}
}

func serveOne(ctx context.Context, t *testing.T, c net.Conn, d *disk.Drive) {
	if err := nbd.Serve(ctx, c, d.Export(), d); err != nil && ctx.Err() == nil {
		t.Errorf("a client's connection failed: %v", err)
	}
}

// tool runs a program and returns what it printed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// content writes a file with data, holes and zeros in it.
func content(t *testing.T) (path string, sum [32]byte) {
	t.Helper()
	b := make([]byte, driveSize)
	r := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < len(b); at += 1 << 20 {
		for i := range 300 << 10 {
			b[at+i] = byte(r.Uint32())
		}
	}
	path = filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path, sha256.Sum256(b)
}

func sumOf(t *testing.T, path string) [32]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}

// TestNbdinfo: what the drive says of itself.
func TestNbdinfo(t *testing.T) {
	s := serve(t)
	defer s.close()
	var info struct {
		Exports []map[string]any `json:"exports"`
	}
	if err := json.Unmarshal([]byte(tool(t, "nbdinfo", "--json", s.uri)), &info); err != nil || len(info.Exports) != 1 {
		t.Fatalf("%v: %v", err, info)
	}
	for field, want := range map[string]any{
		"export-size": float64(driveSize), "is_read_only": false, "can_flush": true, "can_fua": true,
		"can_trim": true, "can_zero": true, "can_multi_conn": false,
	} {
		if got := info.Exports[0][field]; got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	tool(t, "nbdinfo", "--size", s.uri)
	tool(t, "nbdinfo", "--can", "flush", s.uri)
	tool(t, "nbdinfo", "--list", s.uri)
}

// TestCopies: what strangers copy in, other strangers copy out again, and it is
// what the log says, too.
func TestCopies(t *testing.T) {
	source, want := content(t)
	for name, in := range map[string]func(s served){
		"nbdcopy":          func(s served) { tool(t, "nbdcopy", "--flush", source, s.uri) },
		"qemu-img convert": func(s served) { tool(t, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", source, s.uri) },
		"qemu-img convert, out of order": func(s served) {
			tool(t, "qemu-img", "convert", "-W", "-m", "16", "-n", "-f", "raw", "-O", "raw", source, s.uri)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			defer s.close()
			in(s)
			out := filepath.Join(t.TempDir(), "out")
			tool(t, "nbdcopy", s.uri, out)
			if sumOf(t, out) != want {
				t.Error("nbdcopy reads something else")
			}
			out += "2"
			tool(t, "qemu-img", "convert", "-f", "raw", "-O", "raw", s.uri, out)
			if sumOf(t, out) != want {
				t.Error("qemu-img convert reads something else")
			}
			tool(t, "qemu-img", "compare", "-f", "raw", "-F", "raw", source, s.uri)
			tool(t, "qemu-img", "info", "-f", "raw", s.uri)
			tool(t, "qemu-img", "map", "-f", "raw", s.uri)
			tool(t, "qemu-img", "measure", "-f", "raw", "-O", "qcow2", s.uri)
			s.close()
			if got := logged(t, s.log, crash.Lose); sha256.Sum256(got) != want {
				t.Error("after a flush the log's durable content is something else")
			}
		})
	}
}

// logged is the content that a log leaves at its end.
func logged(t *testing.T, path string, p crash.Policy) []byte {
	t.Helper()
	l, err := blocklog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := crash.Build(machine.Zeros{}, l, len(l.Events), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, l.Size)
	if _, err := s.Media.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestQemuIO: each request of qemu-io reaches the drive as what it is, and a cut
// leaves of it what the fault model says.
func TestQemuIO(t *testing.T) {
	for _, c := range []struct {
		name, commands string
		lose, keep     byte // the first byte after a cut
	}{
		{"write", "write -P 1 0 4k", 0, 1},
		{"write, FUA", "write -f -P 1 0 4k", 1, 1},
		{"write, flush", "write -P 1 0 4k; flush", 1, 1},
		{"write, flush, write", "write -P 1 0 4k; flush; write -P 2 0 4k", 1, 2},
		{"write, flush, discard", "write -P 1 0 4k; flush; discard 0 4k", 1, 0},
		{"write, flush, zeroes", "write -P 1 0 4k; flush; write -z 0 4k", 1, 0},
		{"write, flush, zeroes, FUA", "write -P 1 0 4k; flush; write -z -f 0 4k", 0, 0},
		{"several in flight", "aio_write -P 1 0 64k; aio_write -P 2 64k 64k; aio_write -P 3 128k 64k; aio_flush; flush; read -P 2 64k 64k; read -P 3 128k 64k", 1, 1},
		{"unaligned", "write -P 1 1 100; flush; read -P 1 1 100; read -P 0 101 100", 0, 0},
		{"vectors", "writev -P 1 0 512 1024 512; flush; readv -v -P 1 0 1k 1k", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			defer s.close()
			args := []string{"-f", "raw", "-d", "unmap", "-t", "writeback"}
			for cmd := range strings.SplitSeq(c.commands, "; ") {
				args = append(args, "-c", cmd)
			}
			// A qemu-io that ends flushes the drive; one that is killed does not.
			args = append(args, "-c", "sigraise 9", s.uri)
			killed(t, "qemu-io", args...)
			s.close()
			lose, keep := logged(t, s.log, crash.Lose)[0], logged(t, s.log, crash.Keep)[0]
			if lose != c.lose || keep != c.keep {
				t.Errorf("the cut leaves %d, or %d where all is kept; want %d, %d", lose, keep, c.lose, c.keep)
			}
		})
	}
}

// killed runs a program that ends itself by SIGKILL, after nothing has failed.
func killed(t *testing.T, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || strings.Contains(string(out), "fail") {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
