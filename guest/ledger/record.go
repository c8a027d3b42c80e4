// Package ledger is the guest's record of ops, sync results and latencies, kept
// in a piece of guest memory that the harness maps too, so that it is still
// there, to the last store, after the guest was killed.
//
// Layout of the region (Size bytes at physical address Base, little endian):
//
//	0     magic, version, record size, capacity
//	64    published: number of records written since the region was cleared (guest)
//	128   started: number of the op that has begun last (guest)
//	192   consumed: number of records that the harness has taken (harness)
//	4096  a ring of Capacity records of RecordSize bytes
//
// The guest writes a record first and then the published count; it waits while
// published − consumed equals the capacity, so nothing is ever overwritten.
package ledger

// Record says how one op went. Times are CLOCK_MONOTONIC of the guest, in
// nanoseconds.
type Record struct {
	Op     uint64 `json:"op"`     // 0 is the creation of the file, then 1, 2, …
	Start  int64  `json:"start"`  // before the op's first system call
	Sync   int64  `json:"sync"`   // before its sync call; equal to Start where the write itself is the sync call
	End    int64  `json:"end"`    // after its last system call
	Errno  int32  `json:"errno"`  // 0, or the error of the call that failed
	Synced bool   `json:"synced"` // a sync call was made and returned success: the op is acknowledged
	// Of an op that failed: Asked observers issued a sync call afterwards, Told of
	// them got an error, and Again is what the op's own descriptor got from a second
	// sync call after them, 0 or an errno. A success of these is no acknowledgement:
	// an error of writeback is reported once (fsync(2)).
	Asked int32 `json:"asked,omitempty"`
	Told  int32 `json:"told,omitempty"`
	Again int32 `json:"again,omitempty"`
}

// Latency is the time from before the op's write to its acknowledgement, in
// nanoseconds: what a program waits for one durable write, and what the thread of
// 2004 ("Why is fsync so much slower than O_SYNC?") measured.
func (r Record) Latency() int64 { return r.End - r.Start }

// SyncLatency is the time that the sync call alone took, in nanoseconds.
func (r Record) SyncLatency() int64 { return r.End - r.Sync }
