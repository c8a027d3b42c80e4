package bench

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/nbd"
)

const testSize = 2 << 20

// serve gives a client of a recording drive of testSize bytes, and a function that
// says goodbye and returns what the drive then holds.
func serve(t *testing.T) (*client, func() []byte) {
	t.Helper()
	log, err := blocklog.Create(filepath.Join(t.TempDir(), blockLog), testSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	d := disk.New(disk.Config{Base: machine.Zeros{}, Size: testSize, Log: log, WriteCache: true})
	near, far, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connection(far)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- nbd.Serve(t.Context(), conn, d.Export(), d) }()
	c, err := dial(near)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() []byte {
		if err := c.leave(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		near.Close()
		return content(t, d)
	}
}

// content reads all of a drive whose client is gone.
func content(t *testing.T, d *disk.Drive) []byte {
	t.Helper()
	b := make([]byte, testSize)
	answered := make(chan error, 1)
	d.Submit(&nbd.Request{Command: nbd.Read, Length: len(b), Data: b}, func(err error) { answered <- err })
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	return b
}

// sparse makes a file of testSize bytes with data in some places.
func sparse(t *testing.T, places map[int64]int) (*os.File, []byte) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	want := make([]byte, testSize)
	if err := f.Truncate(testSize); err != nil {
		t.Fatal(err)
	}
	for at, n := range places {
		for i := range n {
			want[at+int64(i)] = byte(at/512) + byte(i) | 1
		}
		if _, err := f.WriteAt(want[at:at+int64(n)], at); err != nil {
			t.Fatal(err)
		}
	}
	return f, want
}

func TestUpload(t *testing.T) {
	for name, places := range map[string]map[int64]int{
		"nothing":   {},
		"ends":      {0: 4096, testSize - 512: 512},
		"long runs": {4096: 1<<20 + 512, 3 << 19: 1 << 18},
	} {
		t.Run(name, func(t *testing.T) {
			c, leave := serve(t)
			f, want := sparse(t, places)
			if err := c.upload(f); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(leave(), want) {
				t.Error("the drive does not hold the file")
			}
		})
	}
}

// TestWrite: the drive holds what was written last.
func TestWrite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, leave := serve(t)
		want := make([]byte, testSize)
		for i := range rapid.IntRange(1, 20).Draw(rt, "writes") {
			sectors := rapid.IntRange(1, 64).Draw(rt, "sectors")
			at := rapid.Int64Range(0, testSize/512-int64(sectors)).Draw(rt, "at") * 512
			p := bytes.Repeat([]byte{byte(i + 1)}, sectors*512)
			copy(want[at:], p)
			if err := c.write(p, at); err != nil {
				rt.Fatal(err)
			}
			if err := c.flush(); err != nil {
				rt.Fatal(err)
			}
		}
		if !bytes.Equal(leave(), want) {
			rt.Error("the drive does not hold what was written")
		}
	})
}

// TestServerFailure: what the server refuses is an error, and the next request works.
func TestServerFailure(t *testing.T) {
	c, leave := serve(t)
	if err := c.write(make([]byte, 512), testSize); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a write beyond the end gives %v", err)
	}
	if err := c.write([]byte{511: 1}, 0); err != nil {
		t.Error(err)
	}
	if leave()[511] != 1 {
		t.Error("the write after it was lost")
	}
}

// TestNbdkit: nbdkit serves what was loaded, judged by a stranger.
func TestNbdkit(t *testing.T) {
	program, err := exec.LookPath("nbdkit")
	if err != nil {
		t.Skipf("nbdkit is not installed (apt-get install nbdkit): %v", err)
	}
	stranger, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skipf("qemu-img is not installed (apt-get install qemu-utils): %v", err)
	}
	f, want := sparse(t, map[int64]int{0: 512, 1 << 20: 1 << 19})
	dir := t.TempDir()
	n, err := startNbdkit(t.Context(), program, dir, f.Name())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), stranger, "convert", "-O", "raw", "nbd+unix:///?socket="+nbdkitSocket, "copy")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("qemu-img: %v\n%s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "copy"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("nbdkit does not serve the image: %v", err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, nbdkitSocket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := startNbdkit(t.Context(), "/bin/false", t.TempDir(), f.Name()); err == nil || !strings.Contains(err.Error(), "nbdkit has ended") {
		t.Errorf("a program that is no nbdkit gives %v", err)
	}
}
