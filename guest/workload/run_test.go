package workload

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"powercut/guest/fsyncrange"
	"powercut/guest/ledger"
)

// journal keeps what a run says of itself.
type journal struct {
	started []uint64
	records []ledger.Record
}

func (j *journal) Start(op uint64)         { j.started = append(j.started, op) }
func (j *journal) Publish(r ledger.Record) { j.records = append(j.records, r) }

// runHere runs a plan in a folder of this machine, on its kernel and file system.
// A call that these do not have skips the test.
func runHere(t *testing.T, p Plan) (content []byte, j *journal) {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	j = &journal{}
	err := p.Run(dir, j, func() error { return nil })
	if err != nil && strings.Contains(err.Error(), "not supported by this kernel and file system") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(filepath.Join(dir, p.Path))
	if err != nil {
		t.Fatal(err)
	}
	return content, j
}

// TestRunWritesThePlan: by each call, in one write or several, the file holds what
// the plan says, and each op is acknowledged but those of none.
func TestRunWritesThePlan(t *testing.T) {
	for _, call := range Calls {
		for _, kind := range []Kind{Overwrite, Append} {
			for _, chunk := range []int64{0, 1536} {
				t.Run(string(call)+"/"+string(kind), func(t *testing.T) {
					if call == FsyncRangeFile || call == FsyncRangeData {
						t.Skip("needs a module of its own")
					}
					p := Plan{Kind: kind, Path: "d/f", Size: 64 << 10, Count: 11, Bytes: 4096, Stride: 8192, Chunk: chunk, Call: call, Seed: 7}
					if kind == Append {
						p.Size = 0
					}
					content, j := runHere(t, p)
					want := make([]byte, p.SizeAfter(p.Count))
					p.Content(p.Count, 0, want)
					if !bytes.Equal(content, want) {
						t.Errorf("the file of %d bytes is not what the plan says", len(content))
					}
					checkJournal(t, p, j)
				})
			}
		}
	}
}

func checkJournal(t *testing.T, p Plan, j *journal) {
	t.Helper()
	if len(j.started) != p.Count+1 || len(j.records) != p.Count+1 {
		t.Fatalf("%d starts and %d records of %d ops", len(j.started), len(j.records), p.Count)
	}
	for k, r := range j.records {
		if r.Op != uint64(k) || j.started[k] != r.Op || r.Errno != 0 || r.Synced != (k == 0 || p.Call != None) || r.Sync < r.Start || r.End < r.Sync {
			t.Errorf("record %d: %+v", k, r)
		}
	}
}

// TestRangedRun: a call for another range than what was written leaves the file as
// the plan says, too.
func TestRangedRun(t *testing.T) {
	for _, call := range Ranged {
		t.Run(string(call), func(t *testing.T) {
			if call == FsyncRangeFile || call == FsyncRangeData {
				t.Skip("needs a module of its own")
			}
			p := Plan{Kind: Overwrite, Path: "f", Size: 100_000, Count: 3, Bytes: 100_000, Chunk: 1 << 16, Sync: Extent{Offset: 5000, Length: 10_000}, Call: call}
			content, j := runHere(t, p)
			want := make([]byte, p.Size)
			p.Content(p.Count, 0, want)
			if !bytes.Equal(content, want) {
				t.Error("the file is not what the plan says")
			}
			checkJournal(t, p, j)
		})
	}
}

// TestRangeDeviceMissing: without the module the refusal says what to do.
func TestRangeDeviceMissing(t *testing.T) {
	if _, err := os.Stat(fsyncrange.Path); err == nil {
		t.Skip("this machine has the device")
	}
	p := Plan{Kind: Overwrite, Path: "f", Size: 512, Count: 1, Bytes: 1, Call: FsyncRangeData}
	err := p.Run(t.TempDir(), &journal{}, func() error { return nil })
	if err == nil || !strings.Contains(err.Error(), fsyncrange.Path) || !strings.Contains(err.Error(), "guest.module") {
		t.Errorf("without %s: %v", fsyncrange.Path, err)
	}
}

// TestStoreFault: a page of a mapping that the kernel cannot provide is an error of
// the op, and not the end of the guest.
func TestStoreFault(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := store(mem, []byte("beyond the end of the file")); !errors.Is(err, unix.EIO) {
		t.Errorf("a store beyond the file's end gave %v", err)
	}
}
