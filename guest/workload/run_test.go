package workload

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	most    int // ops that ran at the same time
}

func (j *journal) Start(op uint64) {
	j.started = append(j.started, op)
	j.most = max(j.most, len(j.started)-len(j.records))
}

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

// TestAllocations: whatever the file begins as, its size is right and what no op
// writes reads as before.
func TestAllocations(t *testing.T) {
	for _, a := range []Allocation{Written, Unwritten, Sparse} {
		t.Run(string(a), func(t *testing.T) {
			p := Plan{Kind: Overwrite, Path: "f", Size: 64 << 10, Count: 3, Bytes: 1000, Stride: 5000, Allocate: a, Call: Fdatasync}
			content, j := runHere(t, p)
			want := make([]byte, p.Size)
			p.Content(p.Count, 0, want)
			if !bytes.Equal(content, want) || (content[p.Size-1] == 0) != p.Blank() {
				t.Error("the file is not what the plan says")
			}
			checkJournal(t, p, j)
		})
	}
}

// TestThreads: each op runs once; starts come in order; an op has begun only after
// all that are as many before it as there are threads were published.
func TestThreads(t *testing.T) {
	for _, kind := range []Kind{Overwrite, Append} {
		t.Run(string(kind), func(t *testing.T) {
			p := Plan{Kind: kind, Path: "f", Size: 32 << 10, Count: 50, Bytes: 512, Stride: 4096, Threads: 4, Gap: 1000, Call: Fdatasync}
			if kind == Append {
				p.Size = 0
			}
			content, j := runHere(t, p)
			want := make([]byte, p.SizeAfter(p.Count))
			p.Content(p.Count, 0, want)
			if !bytes.Equal(content, want) {
				t.Error("the file is not what the plan says")
			}
			together := j.most
			slices.SortFunc(j.records, func(a, b ledger.Record) int { return cmp.Compare(a.Op, b.Op) })
			checkJournal(t, p, j)
			if together < 2 || together > p.Threads {
				t.Errorf("%d ops ran at the same time, on %d threads", together, p.Threads)
			}
		})
	}
}

// TestThreadsEnd: where one thread cannot go on, no other waits for it.
func TestThreadsEnd(t *testing.T) {
	turns := newTurns(&journal{})
	done := make(chan bool)
	go func() { done <- turns.begin(2) }() // op 1 never begins
	turns.giveUp(errors.New("first"))
	turns.giveUp(errors.New("second"))
	if <-done || turns.broken.Error() != "first" {
		t.Errorf("the other thread goes on, or ends for another reason: %v", turns.broken)
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
