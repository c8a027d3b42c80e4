// Package workload describes what a guest does to its file system and runs it.
//
// The description (Plan), the content of every byte (Stamp) and the map from
// bytes back to the ops that write them (Layout) are pure functions, shared by
// the guest, which writes, and by the harness, which judges what survived: the
// two cannot disagree on what an op wrote.
package workload

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Kind tells how the file begins.
type Kind string

// The kinds of workload, in the words of the thread of March 2004 "Why is fsync so much
// slower than O_SYNC?".
const (
	// Overwrite writes into a file that was created at its full size and
	// synced before the first op.
	Overwrite Kind = "overwrite"
	// Append writes into a file that was created empty, so that each op grows it.
	Append Kind = "append"
)

// Allocation tells what the blocks of an overwritten file are before op 1.
type Allocation string

// The allocations. The empty one is Written.
const (
	Written   Allocation = "written"   // they hold data
	Unwritten Allocation = "fallocate" // they are allocated, and marked as unwritten: posix_fallocate(3)
	Sparse    Allocation = "none"      // there are none
)

// The limits of a plan.
const (
	MaxSize      = 1 << 30 // bytes of the file
	MaxCount     = 1_000_000
	MaxBytes     = 16 << 20 // of one op
	MaxObservers = 16
	MaxThreads   = 32
	MaxGap       = int64(10 * time.Second) // nanoseconds
	MaxPath      = 1024                    // bytes; each element of it has at most 255, as in ext4, btrfs and XFS
)

// Plan is one workload for one sync call: op k (1 ≤ k ≤ Count) writes Bytes
// bytes at offset ((k-1)·Stride) mod Size of the file Path, Chunk bytes at a time,
// and then issues Call. Before op 1 the file is created (op 0): with Overwrite it holds Size
// bytes of Stamp(Seed, off, 0), or zeros as Allocate says, with Append it is empty; either way it and its
// parent directory are synced by fsync before op 1 starts.
//
// With Append offsets do not wrap: op k writes at (k-1)·Stride, and Size is
// either 0 or a bound that the last op must stay within.
type Plan struct {
	Kind   Kind   `json:"kind"`
	Path   string `json:"path"`   // below the mount point, no leading slash
	Size   int64  `json:"size"`   // bytes
	Count  int    `json:"count"`  // ops
	Bytes  int64  `json:"bytes"`  // written by each op
	Stride int64  `json:"stride"` // from op to op, bytes
	// Chunk is what one write call writes, the last one of an op excepted; 0: all
	// that the op does.
	Chunk int64 `json:"chunk,omitempty"`
	// Sync is the range that the sync call is for, whatever the op wrote; empty for
	// that which the op wrote. Calls other than those in Ranged have none.
	Sync Extent `json:"sync,omitzero"`
	// Observers is the number of further descriptors of the file, which are open
	// from before op 1 on. After an op that failed each of them issues a sync call of
	// its own, and the op's descriptor a second one: see ledger.Record.
	Observers int `json:"observers,omitempty"`
	// Allocate is what an overwritten file consists of before op 1.
	Allocate Allocation `json:"allocate,omitempty"`
	// Threads run the ops, op k the one of number (k-1) mod Threads, with a descriptor
	// each; 0 is one. An op begins once all before it have begun.
	Threads int `json:"threads,omitempty"`
	// Gap is how long a thread sleeps between two of its ops, in nanoseconds.
	Gap  int64  `json:"gap,omitempty"`
	Call Call   `json:"call"`
	Seed uint64 `json:"seed"`
}

// Extent is a byte range of a file.
type Extent struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// End is the offset of the first byte after the extent.
func (e Extent) End() int64 { return e.Offset + e.Length }

// within is what e has in common with o; of no length where there is nothing.
func (e Extent) within(o Extent) Extent {
	from := max(e.Offset, o.Offset)
	return Extent{Offset: from, Length: max(0, min(e.End(), o.End())-from)}
}

// Synced is the part of op k's bytes that its sync call is for: all of them, or
// those in the range Sync. Its length may be 0.
func (p Plan) Synced(k int) Extent {
	if p.Sync == (Extent{}) {
		return p.Op(k)
	}
	return p.Op(k).within(p.Sync)
}

// Op returns the extent that op k (1 ≤ k ≤ Count) writes. An op never wraps
// around the end of the file: Validate demands that each fits.
func (p Plan) Op(k int) Extent {
	off := int64(k-1) * p.Stride
	if p.Kind == Overwrite {
		off %= p.Size
	}
	return Extent{Offset: off, Length: p.Bytes}
}

// Blank tells whether no byte is written before op 1, so that what no op wrote reads
// as zeros.
func (p Plan) Blank() bool {
	return p.Kind == Append || p.Allocate == Unwritten || p.Allocate == Sparse
}

// SizeAfter is the file's size in bytes after ops 0..k, without a crash.
func (p Plan) SizeAfter(k int) int64 {
	switch {
	case p.Kind == Overwrite:
		return p.Size
	case k < 1:
		return 0
	}
	return p.Op(k).End() // offsets of Append only ascend
}

// readBeyond is more than the largest block that a checker may have added to a
// file that was growing, in bytes.
const readBeyond = 128 << 10

// ReadLimit is how much of the file has to be read to judge it, in bytes: its size
// after a crash may be wrong, and huge.
func (p Plan) ReadLimit() int64 { return max(p.Size, p.SizeAfter(p.Count)) + readBeyond }

// Validate says what is impossible in the plan. The error begins with the JSON
// name of the field that has to change.
//
// It also refuses a plan that would hide losses: see Generations.
func (p Plan) Validate() error {
	for _, check := range []func() error{p.validNames, p.validNumbers, p.validDirect, p.validExtents, p.validSync, p.validThreads, p.validStamps} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validNames checks the fields that are words.
func (p Plan) validNames() error {
	switch {
	case p.Kind != Overwrite && p.Kind != Append:
		return fmt.Errorf("kind: %q is not one of overwrite, append", p.Kind)
	case !slices.Contains([]Allocation{"", Written, Unwritten, Sparse}, p.Allocate):
		return fmt.Errorf("allocate: %q is not one of written, fallocate, none", p.Allocate)
	case p.Kind == Append && p.Allocate != "":
		return fmt.Errorf("allocate: is for %s; with %s the file begins empty", Overwrite, Append)
	case !slices.Contains(Calls, p.Call):
		return fmt.Errorf("call: %q is not one of %s", p.Call, joined(Calls))
	case p.Path == "." || !fs.ValidPath(p.Path) || strings.ContainsRune(p.Path, 0):
		return fmt.Errorf("path: %q is not a file's path below the mount point, such as data/file", p.Path)
	case len(p.Path) > MaxPath:
		return fmt.Errorf("path: %d bytes are more than %d", len(p.Path), MaxPath)
	}
	for name := range strings.SplitSeq(p.Path, "/") {
		if len(name) > 255 {
			return fmt.Errorf("path: an element of %d bytes is longer than 255", len(name))
		}
	}
	return nil
}

// validNumbers checks each number by itself.
func (p Plan) validNumbers() error {
	least := map[Kind]struct{ size, stride int64 }{Overwrite: {1, 0}, Append: {0, 1}}[p.Kind]
	for _, n := range []struct {
		name       string
		value      int64
		least, top int64
	}{
		{"size", p.Size, least.size, MaxSize},
		{"count", int64(p.Count), 1, MaxCount},
		{"bytes", p.Bytes, 1, MaxBytes},
		{"stride", p.Stride, least.stride, MaxSize},
		{"chunk", p.Chunk, 0, MaxBytes},
		{"threads", int64(p.Threads), 0, MaxThreads},
		{"gap", p.Gap, 0, MaxGap},
		{"observers", int64(p.Observers), 0, MaxObservers},
	} {
		if n.value < n.least || n.value > n.top {
			return fmt.Errorf("%s: %d is not in the range from %d to %d for %s", n.name, n.value, n.least, n.top, p.Kind)
		}
	}
	return nil
}

// validDirect checks that each write of a call with O_DIRECT begins and ends at a
// sector (open(2), "O_DIRECT").
func (p Plan) validDirect() error {
	if !p.Call.Direct() {
		return nil
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"bytes", p.Bytes}, {"stride", p.Stride}, {"chunk", p.Chunk}, {"size", p.Size}} {
		if n.value%sector != 0 && (n.name != "size" || p.Kind == Overwrite) {
			return fmt.Errorf("%s: %d is not a multiple of %d, as the call %s demands of each write", n.name, n.value, sector, p.Call)
		}
	}
	return nil
}

// validSync checks the range that is synced.
func (p Plan) validSync() error {
	switch limit := max(p.Size, p.SizeAfter(p.Count)); {
	case p.Sync == (Extent{}):
		return nil
	case !slices.Contains(Ranged, p.Call):
		return fmt.Errorf("sync: the call %s has no range; those that have one: %s", p.Call, joined(Ranged))
	case p.Sync.Length < 1 || p.Sync.Offset < 0 || p.Sync.Length > limit || p.Sync.Offset > limit-p.Sync.Length:
		return fmt.Errorf("sync: %d bytes from offset %d are not within the file's %d", p.Sync.Length, p.Sync.Offset, limit)
	}
	return nil
}

// validExtents checks that each op stays within the file.
func (p Plan) validExtents() error {
	if p.Kind == Append {
		end, limit, name := p.SizeAfter(p.Count), int64(MaxSize), "count"
		if p.Size > 0 {
			limit, name = p.Size, "size"
		}
		if end > limit {
			return fmt.Errorf("%s: %d ops of stride %d and %d bytes end at %d, beyond %d",
				name, p.Count, p.Stride, p.Bytes, end, limit)
		}
		return nil
	}
	if p.Bytes > p.Size {
		return fmt.Errorf("bytes: %d do not fit in a file of %d", p.Bytes, p.Size)
	}
	if k := p.Layout().firstBeyond(p.Size - p.Bytes); k > 0 && k <= p.Count {
		return fmt.Errorf("bytes: %d do not fit between offset %d, where op %d writes, and the file's end at %d; choose a size that is a multiple of the stride, and no more bytes than the stride",
			p.Bytes, p.Op(k).Offset, k, p.Size)
	}
	return nil
}
