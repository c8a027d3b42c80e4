// Package verdict holds promise against survivors. It is pure: what it says is a
// function of the plan, the ledger and what was read back, and of nothing else.
package verdict

import (
	"powercut/guest/ledger"
	"powercut/guest/workload"
)

// Class is the verdict on one op.
type Class string

// The classes. Of an acknowledged op the write must survive, as far as its call
// promises that: it is Kept, Lost or Unpromised (or Foreign). Of any other it may: it
// is Early, Absent or Torn (or Foreign).
const (
	Kept Class = "kept" // acked, and each of its bytes is its own or that of a later op
	Lost Class = "lost" // acked, and at least one byte that its call promised is older, or the file too short for it
	// Unpromised: acked, and bytes are older, but none of those that its call promised:
	// it promises nothing here, or was for another range.
	Unpromised Class = "unpromised"
	Early      Class = "early"   // never acked, yet there in full, as far as no later op wrote over it
	Absent     Class = "absent"  // never acked, and none of it is there
	Torn       Class = "torn"    // never acked, and there in part
	Foreign    Class = "foreign" // acked or not: at least one byte that no op ever wrote there
)

// History is what the guest did, as the ledger tells it.
type History struct {
	Plan    workload.Plan   // a valid one
	Records []ledger.Record // in order of publication; the first is the file's creation, op 0
	Started uint64          // the op that had begun last; ops above it never touched the file
	// InPlace: the drive had no volatile cache, and data is overwritten where it lies,
	// so that what the drive has answered stays. See Transfer.
	InPlace bool
	// Doubtful is how many of the records, at their end, came after the drive had an error
	// in store, which sync(2) does not tell of.
	Doubtful int
	Erred    bool // the drive had an error in store for a request
}

// Survivors is what recovery left of the plan's file.
type Survivors struct {
	Exists bool
	Size   int64   // as stat(2) says
	Data   Content // the file's, from offset 0: Size bytes, or as many as the plan can have written where Size is more; nil: none
	// Rounding is the block size of a file system whose checker made the file's
	// size good before it was mounted, in bytes: e2fsck, which finds a block behind
	// the end of a file that was cut off while it grew, moves the end to that of
	// the block, and the bytes in between read as zeros. 0 where nothing was
	// checked.
	Rounding int64
}

// OpVerdict is the verdict on one op.
type OpVerdict struct {
	Op     int             `json:"op"`
	Extent workload.Extent `json:"extent"`
	Acked  bool            `json:"acked"`
	Class  Class           `json:"class"`
	// Missing is the part of the extent from its first to its last byte that is
	// older than the op, or foreign where that is the class; empty where nothing
	// is missing. Where the class is Lost it is of the part that was promised. It is
	// the whole extent, or part, where no byte is surely the op's own or a later one's.
	Missing workload.Extent `json:"missing"`
	// Found tells in words what is there instead, such as "the content of op 12"
	// or "the file ends at 4096": the oldest of it, where there are several.
	Found string `json:"found,omitempty"`
}

// Counts adds up the ops of a run, op 0 left out.
type Counts struct {
	Ops   int `json:"ops"` // begun
	Acked int `json:"acked"`
	Kept  int `json:"kept"`
	Lost  int `json:"lost"`
	// Unpromised ops have returned success, and are not there in full; it was not promised.
	Unpromised int `json:"unpromised"`
	Early      int `json:"early"`
	Absent     int `json:"absent"`
	Torn       int `json:"torn"`
	Foreign    int `json:"foreign"`
	Failed     int `json:"failed"` // the sync call or the write returned an error
	// Ambiguous counts the kept ops of which each byte could also be older
	// content with an equal stamp: see workload.Generations.
	Ambiguous int `json:"ambiguous"`
}

// Result is the verdict on one run.
type Result struct {
	Counts Counts      `json:"counts"`
	Setup  OpVerdict   `json:"setup"` // op 0: the file's creation and its first content
	Ops    []OpVerdict `json:"ops"`   // op 1 first
	// Size is empty where the file's size is one that the history allows, and
	// otherwise says what is wrong with it.
	Size string `json:"size,omitempty"`
	// Stray is what stands in a file that began blank where no op that had begun
	// writes; nil where zeros do. (Of another op 0 writes every byte, and Setup is
	// foreign instead.)
	Stray *Stray `json:"stray,omitempty"`
}

// Stray is content in a place where there should be none.
type Stray struct {
	Extent workload.Extent `json:"extent"` // from its first to its last byte
	Found  string          `json:"found"`
}

// Broken tells whether the survivors break a promise, or hold what nobody wrote.
func (r Result) Broken() bool {
	return r.Counts.Lost > 0 || r.Counts.Foreign > 0 || r.Setup.Class.broken() || r.Size != "" || r.Stray != nil
}

// broken tells whether the class is a finding against the file system.
func (c Class) broken() bool { return c == Lost || c == Foreign }

// RecoveryClass tells how the recovery of a crash state went.
type RecoveryClass string

// Recovery that does not end in Recovered is a finding about the file system,
// unless it is the harness that failed.
const (
	Recovered   RecoveryClass = "recovered"
	MountFailed RecoveryClass = "mount failed"
	FsckFailed  RecoveryClass = "fsck failed"
	ReadFailed  RecoveryClass = "read failed"
	Oops        RecoveryClass = "oops"
	Hang        RecoveryClass = "hang"
)

// Recovery is how the fresh guest fared with the crash state.
type Recovery struct {
	Class   RecoveryClass `json:"class"`
	Detail  string        `json:"detail,omitempty"`  // the error, in words
	Console []string      `json:"console,omitempty"` // the console's last lines, where Class is not Recovered
}
