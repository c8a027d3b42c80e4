package workload

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestLoad: the files are there at their sizes before anything reads, and reading
// goes on until it is stopped.
func TestLoad(t *testing.T) {
	for _, c := range []struct {
		load  Load
		files int
		size  int64
	}{
		{Load{Kind: Sequential, Size: 1 << 20, Readers: 2}, 2, 512 << 10},
		{Load{Kind: ManyFiles, Size: 1 << 20, Readers: 2}, 16, 64 << 10},
		{Load{}, 0, 0},
	} {
		if err := c.load.Validate(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := c.load.Prepare(dir); err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadDir(dir + "/" + loadFolder)
		if err != nil && c.files > 0 || len(list) != c.files {
			t.Fatalf("%v made %d files, want %d: %v", c.load, len(list), c.files, err)
		}
		for _, f := range list {
			if info, err := f.Info(); err != nil || info.Size() != c.size {
				t.Errorf("%v: %s has %d bytes, want %d: %v", c.load, f.Name(), info.Size(), c.size, err)
			}
		}
		before := bytesRead(t)
		stop := c.load.Begin(dir)
		for end := time.Now().Add(20 * time.Second); c.files > 0 && bytesRead(t) < before+4*c.load.Size; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%v: after 20 s %d bytes are read, want four times all there is", c.load, bytesRead(t)-before)
			}
		}
		stop()
	}
}

// bytesRead is what this process has read so far (proc(5), /proc/PID/io, rchar).
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("this kernel counts no reads: %v", err)
	}
	for line := range strings.Lines(string(io)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "rchar: "); ok {
			for _, digit := range value {
				n = 10*n + int64(digit-'0')
			}
		}
	}
	return n
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		load Load
		want string
	}{
		{Load{Kind: "random", Size: 1 << 20, Readers: 1}, "kind: "},
		{Load{Kind: Sequential, Size: 1 << 20}, "readers: "},
		{Load{Kind: Sequential, Size: 1 << 20, Readers: MaxReaders + 1}, "readers: "},
		{Load{Kind: ManyFiles, Size: 100 << 10, Readers: 2}, "size: "},
		{Load{Kind: ManyFiles, Size: MaxLoadSize + 1, Readers: 1}, "size: "},
	} {
		if err := c.load.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v gave %v, want an error about %s", c.load, err, c.want)
		}
	}
}
