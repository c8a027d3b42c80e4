package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/nbd"
)

// TestLargeDrive: a drive of 8 GiB costs what is written to it: base, log and crash
// state, and each reads as it should from end to end.
func TestLargeDrive(t *testing.T) {
	const size, piece = 8 << 30, 64 << 10
	dir := t.TempDir()
	base, err := os.Create(filepath.Join(dir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	if err := base.Truncate(size); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "log")
	log, err := blocklog.Create(path, size)
	if err != nil {
		t.Fatal(err)
	}
	d := disk.New(disk.Config{Base: base, Size: size, Log: log, WriteCache: true})
	defer d.Close()
	places := []int64{0, 1<<31 - piece/2, 1<<32 - piece/2, 5 << 30, size - piece}
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, piece) }
	submit := func(r *nbd.Request) {
		t.Helper()
		answered := false
		d.Submit(r, func(err error) { answered = err == nil })
		if !answered {
			t.Fatalf("%v at %d failed", r.Command, r.Offset)
		}
	}
	for i, at := range places {
		submit(&nbd.Request{Command: nbd.Write, Offset: at, Length: piece, Data: content(i)})
	}
	submit(&nbd.Request{Command: nbd.Trim, Offset: 6 << 30, Length: 1 << 30})
	got := make([]byte, piece)
	for i, at := range places {
		if submit(&nbd.Request{Command: nbd.Read, Offset: at, Length: piece, Data: got}); !bytes.Equal(got, content(i)) {
			t.Errorf("the drive reads other bytes at %d", at)
		}
	}
	submit(&nbd.Request{Command: nbd.Flush})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := blocklog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	state, err := Build(base, read, len(read.Events), Lose, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range places {
		if _, err := state.Media.ReadAt(got, at); err != nil || !bytes.Equal(got, content(i)) {
			t.Errorf("the crash state has other bytes at %d: %v", at, err)
		}
	}
	for _, p := range []string{path, base.Name()} {
		var s syscall.Stat_t
		if err := syscall.Stat(p, &s); err != nil || s.Blocks*512 > 1<<20 {
			t.Errorf("%s takes %d KiB, %v", filepath.Base(p), s.Blocks/2, err)
		}
	}
}
