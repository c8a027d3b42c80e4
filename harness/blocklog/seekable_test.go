package blocklog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestCompress: a compressed log is the same log, from end to end and from any place.
func TestCompress(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "log")
		defer os.Remove(path + Suffix)
		long := rapid.SampledFrom([]int{0, 0, 0, 1, 9, 17}).Draw(t, "long") // up to three frames
		want := written(t, path, append(drawSteps(t), halves(long)...))
		plain, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes, err := Compress(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + Suffix)
		if err != nil || sizes != (Sizes{int64(len(plain)), info.Size()}) {
			t.Fatalf("sizes %v, %v", sizes, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the plain log is still there: %v", err)
		}
		l, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for i := range want {
			if want[i].Kind == Reply {
				want[i].DataAt = 0
			}
		}
		if d := cmp.Diff(want, l.Events); d != "" {
			t.Fatalf("events (-want +got):\n%s", d)
		}
		for range 20 {
			off := rapid.IntRange(0, len(plain)-1).Draw(t, "offset")
			p := make([]byte, rapid.IntRange(1, len(plain)-off).Draw(t, "length"))
			if n, err := l.ReadAt(p, int64(off)); err != nil || n != len(p) || !bytes.Equal(p, plain[off:off+n]) {
				t.Fatalf("read %d+%d: %d bytes, %v", off, len(p), n, err)
			}
		}
		if n, err := l.ReadAt(make([]byte, 10), int64(len(plain)-3)); n != 3 || err == nil {
			t.Fatalf("a read over the end: %d bytes, %v", n, err)
		}
	})
}

// halves are n writes of half a megabyte.
func halves(n int) []step {
	var out []step
	for range n {
		out = append(out, step{op: Write, length: 512 << 10, acked: 1000})
	}
	return out
}

// compressed is a small log in its compressed form.
func compressed(t fataler, dir string) (plain []Event, whole []byte) {
	t.Helper()
	path := filepath.Join(dir, "log")
	plain = written(t, path, []step{{op: Write, length: 512}, {op: Flush}, {op: Write, offset: 512, length: 300 << 10, fua: true}})
	if _, err := Compress(path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path + Suffix)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain {
		if plain[i].Kind == Reply {
			plain[i].DataAt = 0
		}
	}
	return plain, whole
}

// TestCompressedDamage: whatever byte changes, and wherever the file ends, the log is
// refused or still the same.
func TestCompressedDamage(t *testing.T) {
	want, whole := compressed(t, t.TempDir())
	check := func(what string, i int, b []byte) {
		l, err := Load(bytes.NewReader(b), int64(len(b)))
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s %d: error %v is not ErrDamaged", what, i, err)
		}
		if err == nil && !cmp.Equal(want, l.Events) {
			t.Fatalf("%s %d of %d: another log was read, truncated %v: %d events of %d\n%s", what, i, len(whole), l.Truncated, len(l.Events), len(want), cmp.Diff(want, l.Events))
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x40
		check("byte changed at", i, b)
		check("cut at", i, whole[:i])
	}
}

// TestZstdReadsIt: the zstd tool makes the plain log of it again.
func TestZstdReadsIt(t *testing.T) {
	zstd, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("zstd is not installed (apt-get install zstd)")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	written(t, path, append(halves(3), step{op: Flush, acked: 1000}))
	plain, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compress(path); err != nil {
		t.Fatal(err)
	}
	got, err := exec.CommandContext(t.Context(), zstd, "-d", "-c", path+Suffix).Output()
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("zstd makes %d bytes of it, the log has %d: %v", len(got), len(plain), err)
	}
}

// TestPrefix: what a killed harness leaves, at any time, is a prefix, and all once it
// has settled.
func TestPrefix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(path, driveSize)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	there := func() int {
		l, err := Open(path)
		if err != nil {
			t.Fatal(err) // a last event of which only a part is there is none
		}
		defer l.Close()
		return len(l.Events)
	}
	random := rand.New(rand.NewPCG(1, 2))
	arrived, replied := uint64(0), uint64(0)
	for n := 1; n < 500; n++ {
		e := Event{Kind: Arrive, Op: Write, Length: 512, Request: arrived + 1}
		var payload []byte
		if arrived == replied || random.IntN(2) == 0 && arrived-replied < 100 {
			payload = make([]byte, 512)
			arrived++
		} else {
			replied++
			e.Kind, e.Request = Reply, replied
		}
		if err := w.Append(&e, payload); err != nil {
			t.Fatal(err)
		}
		if k := there(); k > n {
			t.Fatalf("%d of %d events are in the file", k, n)
		}
		if n%50 == 0 {
			if err := w.Settle(); err != nil || there() != n {
				t.Fatalf("settled: %d of %d events are in the file, %v", there(), n, err)
			}
		}
	}
}

// TestOtherVersion: a log of a version that is not known is refused.
func TestOtherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	written(t, path, []step{{op: Write, length: 512}})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	le.PutUint32(b[8:], version+1)
	le.PutUint64(b[56:], xxhash.Sum64(b[:56]))
	if _, err := Load(bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrDamaged) {
		t.Errorf("version %d is read: %v", version+1, err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Compress(path); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(string) error{
		func(path string) error { _, err := Open(path); return err },
		func(path string) error { _, _, err := Salvage(path); return err },
	} {
		if err := open(path); err == nil || !strings.Contains(err.Error(), path+Suffix) {
			t.Errorf("the file that is there is %s: %v", path+Suffix, err)
		}
	}
}

// TestSalvageCompressed: of a log that was damaged before it was compressed Salvage
// tells the same as before, and both are found under one name.
func TestSalvageCompressed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if Exists(path) {
		t.Error("a log is there that is not")
	}
	want := written(t, path, []step{{op: Write, length: 512}, {op: Write, length: 512}})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := int64(headerSize + eventSize + 512)
	spoiled := bytes.Clone(whole)
	spoiled[second+8] ^= 1
	for name, b := range map[string][]byte{"changed": spoiled, "short": whole[:second+100]} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{"plain", "compressed"} {
			l, d, err := Salvage(path)
			if err != nil || !Exists(path) {
				t.Fatal(err, Exists(path))
			}
			if d == nil || d.Event != 1 || d.Byte != second || !cmp.Equal(want[:1], l.Events) {
				t.Errorf("%s, %s: %d events, %v; want damage at event 1, byte %d", name, form, len(l.Events), d, second)
			}
			l.Close()
			if form == "plain" {
				if _, err := Compress(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestSalvageEnd: of a compressed log whose end is missing all is read that the file
// still holds, of whole frames and of one that breaks off, and it is never taken for the
// whole log.
func TestSalvageEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	random := rand.NewChaCha8([32]byte{})
	w, err := Create(path, driveSize)
	if err != nil {
		t.Fatal(err)
	}
	const writes, length = 24, 512 << 10 // three frames
	for i := range uint64(writes) {
		payload := make([]byte, length)
		random.Read(payload)
		if err := w.Append(&Event{Kind: Arrive, Op: Write, Request: i + 1, Length: length}, payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Compress(path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path + Suffix)
	if err != nil {
		t.Fatal(err)
	}
	table := 3*tableEntry + tableHeader + tableFooter
	for _, missing := range []int{1, table - 1, table, table + 1, 1 << 20, 5 << 20, 11 << 20, len(whole) - 100} {
		left := len(whole) - missing
		if err := os.Truncate(path+Suffix, int64(left)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes missing: opened with %v", missing, err)
		}
		got, d, err := Salvage(path)
		if left < 1<<10 { // not even one block of the first frame
			if err == nil {
				t.Errorf("%d bytes left: no error", left)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n := len(got.Events)
		// Of random bytes the file holds as many as of the log; a block of the last frame may
		// be lost, of 128 KiB at most, and the event that is not whole.
		if least := (left - (128 << 10)) / (length + eventSize); d == nil || n < min(least, writes) || !cmp.Equal(l.Events[:n], got.Events) {
			t.Errorf("%d bytes missing: %d events, at least %d are there; %v", missing, n, least, d)
		}
		for _, e := range got.Events {
			a, _ := l.Payload(e)
			b, err := got.Payload(e)
			if err != nil || !bytes.Equal(a, b) {
				t.Fatalf("%d bytes missing: another payload of request %d, %v", missing, e.Request, err)
			}
		}
		got.Close()
	}
}
