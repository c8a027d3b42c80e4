package wire

import (
	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/guest/workload"
)

// The messages. The harness asks; the guest answers. Each request is answered by
// its own reply or by Failed.
const (
	// Hello comes from the guest once, when it has booted (payload Greeting).
	Hello Type = 1 + iota
	// Record asks for a workload on the disk (Workload). The guest answers
	// RecordDone, if it lives that long.
	Record
	// RecordDone says that the workload came to its end (Outcome).
	RecordDone
	// Ack carries one ledger record, where there is no ledger in memory.
	Ack
	// Recover asks the guest to check and mount the disk and read a file (Recovery).
	Recover
	// Content carries a piece of the file's content, raw, in order.
	Content
	// Recovered ends the recovery (Survivor).
	Recovered
	// Echo is answered with the same payload; it measures the round trip.
	Echo
	// Failed says that the guest could not do what was asked (Failure).
	Failed
	// Begun says that the op of the given number has begun (Start), where there is
	// no ledger in memory.
	Begun
	// Measure asks for the cost of a ledger record (payload Measurement both ways).
	Measure
	// AwaitDrive asks the guest to wait until it has found its disks (Awaited); the answer
	// has the same type (payload FoundDrive).
	AwaitDrive
	// Mounted says, before a workload begins, what the guest's kernel takes the
	// drive for (FoundDrive).
	Mounted
	// Exercising asks for requests to the drive itself (payload Exercise), whose
	// content is then no file system's any more.
	Exercising
	// Exercised is the answer (Exertion).
	Exercised
	// Digests carries digests of the file's blocks, 8 bytes each, little endian, in
	// order: see Recovery.Block.
	Digests
	// Inspect asks the guest to check and mount the disk, to read its whole tree, and
	// to try whether it still works (Mount). Content carries the files' bytes.
	Inspect
	// Inspected ends the inspection (Inspection).
	Inspected
	// Rehearse asks for many plans, each in a directory of its own (Rehearsal). After
	// them the file system is unmounted and mounted again, and each plan is answered by
	// Content, the files' bytes, and one Rehearsed; RecordDone ends them.
	Rehearse
	// Rehearsed says what became of one plan (Performance).
	Rehearsed
	// OpenShell asks for a shell (Session), in a guest that has one. Nothing is served
	// after it.
	OpenShell
	// Input is what is typed into the shell, raw; an empty payload ends it.
	Input
	// Output is what the shell prints, raw.
	Output
	// Resized says that the terminal has another size (Size).
	Resized
	// SessionEnded says that the shell has ended (Ended).
	SessionEnded
)

// Greeting tells what booted.
type Greeting struct {
	Release string `json:"release"` // uname -r
	// Ledger is "memory", or "serial" where /dev/mem could not be mapped; Reason
	// then says why.
	Ledger string `json:"ledger"`
	Reason string `json:"reason,omitempty"`
	// Modules are those that the guest was told to load, with their build IDs as its
	// kernel tells them (package buildid); empty where it does not.
	Modules map[string]string `json:"modules,omitempty"`
}

// Awaited is what AwaitDrive waits for.
type Awaited struct {
	Disks int `json:"disks"` // their number
}

// FoundDrive is the drive that the guest sees; of two disks that of the file system.
type FoundDrive struct {
	Device string `json:"device"` // such as /dev/sda
	// WriteCache is what the guest's kernel takes the drive's cache to be:
	// "write back" or "write through" (sysfs, queue/write_cache).
	WriteCache string `json:"write_cache"`
	// FUA tells whether the guest's kernel sends the drive writes with FUA (sysfs,
	// queue/fua).
	FUA bool `json:"fua"`
}

// Mount says how the file system on the drive is checked and mounted.
type Mount struct {
	Type    string `json:"type"`
	Options string `json:"options,omitempty"` // as for mount -o
	// Check runs e2fsck -fy, or jfs_fsck -a, first: file systems without a journal, or
	// whose driver does not replay it, are checked before they are mounted, as at boot.
	Check bool `json:"check,omitempty"`
}

// Workload is what Record asks for.
type Workload struct {
	Mount Mount         `json:"mount"`
	Plan  workload.Plan `json:"plan"`
	// Ops take the place of Plan, where there are any: several are carried out at the
	// same time, as ops.RunTogether does.
	Ops []ops.Plan `json:"ops,omitempty"`
	// Serial sends the ledger over the control channel even where memory would do.
	Serial bool `json:"serial,omitempty"`
	// Cache is what the guest does to the drive's write cache before the mount.
	Cache CacheSwitches `json:"cache,omitzero"`
	// Queue is how the guest's block layer treats requests on their way to the drive.
	Queue QueueSwitches `json:"queue,omitzero"`
	// Load reads beside the workload.
	Load workload.Load `json:"load,omitzero"`
	// Repeated: another workload or recovery follows in this guest. The ledger in memory
	// is begun anew, and in the end the file system is unmounted.
	Repeated bool `json:"repeated,omitempty"`
}

// QueueSwitches are settings of the drive's request queue (sysfs-block); what is
// zero is left alone.
type QueueSwitches struct {
	// NoMerges keeps requests apart: each block that a file system submits by itself
	// reaches the drive by itself (queue/nomerges, 2).
	NoMerges bool `json:"no_merges,omitempty"`
	// Scheduler is the I/O scheduler: none, mq-deadline, bfq or kyber.
	Scheduler string `json:"scheduler,omitempty"`
}

// CacheSwitches are the guest's own ways to change a drive's write cache; what is
// empty is left alone.
type CacheSwitches struct {
	// HdparmW is "on" or "off": the drive is told to switch its cache, as by
	// hdparm -W.
	HdparmW string `json:"hdparm_w,omitempty"`
	// Kernel is "write back" or "write through": what the guest's kernel is to take
	// the cache for, whatever the drive says.
	Kernel string `json:"kernel,omitempty"`
}

// Outcome ends a workload.
type Outcome struct {
	Records uint64 `json:"records"` // published
	Elapsed int64  `json:"elapsed_ns"`
}

// Recovery is what Recover asks for.
type Recovery struct {
	Mount Mount  `json:"mount"`
	Path  string `json:"path"` // of the file, below the mount point
	// Limit bounds what is sent of the content, in bytes: the size may be wrong,
	// and huge.
	Limit int64 `json:"limit"`
	// Block is the size in bytes of the blocks whose digests (workload.Digest) are sent
	// in place of the content; 0: none are.
	Block int64 `json:"block,omitempty"`
	// Blocks asks for the content of these blocks, ascending, and for no digests.
	Blocks []int64 `json:"blocks,omitempty"`
	// Watch asks what recovery looked at, and where the file lies: see Survivor.Watched.
	Watch bool `json:"watch,omitempty"`
	// Cache is what the guest does to the drive's write cache before.
	Cache CacheSwitches `json:"cache,omitzero"`
}

// Survivor ends a recovery. Stage is empty where all went well, and else names
// what failed: fsck, mount, read or unmount.
type Survivor struct {
	Exists    bool   `json:"exists"`
	Size      int64  `json:"size"`
	BlockSize int64  `json:"block_size"` // of the file system, in bytes (statfs(2))
	Stage     string `json:"stage,omitempty"`
	Error     string `json:"error,omitempty"`
	Fsck      string `json:"fsck,omitempty"` // e2fsck's output, at most its last 4 KiB
	// Nanoseconds of guest time for each stage.
	FsckTime  int64 `json:"fsck_ns,omitempty"`
	MountTime int64 `json:"mount_ns"`
	ReadTime  int64 `json:"read_ns"`
	// Watched is what was seen beside, where that was asked for.
	Watched *Watched `json:"watched,omitempty"`
}

// Watched is what a guest saw of its own recovery.
type Watched struct {
	// Looked are the blocks of a jbd2 journal that the mount looked at, by their place in
	// the journal, ascending; what it only read ahead is not among them. Blind says why
	// that is not known; it is empty where it is.
	Looked []uint32 `json:"looked,omitempty"`
	Blind  string   `json:"blind,omitempty"`
	// Extents are the parts of the file whose bytes lie on the drive as they are, ascending.
	Extents []Extent `json:"extents,omitempty"`
}

// Extent is a part of a file and its place on the drive, in bytes.
type Extent struct {
	Logical  int64 `json:"logical"`
	Physical int64 `json:"physical"`
	Length   int64 `json:"length"`
}

// Failure says what the guest could not do, and at which stage.
type Failure struct {
	Stage string `json:"stage"`
	Error string `json:"error"`
}

// Start is the payload of Begun.
type Start struct {
	Op uint64 `json:"op"`
}

// Acked is the payload of Ack.
type Acked struct {
	Record ledger.Record `json:"record"`
}

// Measurement is what Measure asks for, Rounds ledger records, and its answer.
type Measurement struct {
	Rounds  int   `json:"rounds"`
	Elapsed int64 `json:"elapsed_ns,omitempty"`
}

// Session is what OpenShell asks for: the disk recovered and mounted, and a shell.
type Session struct {
	Mount Mount `json:"mount"`
	// Terminal: somebody sits at a terminal of that kind and size. Else the input is a
	// script.
	Terminal bool   `json:"terminal,omitempty"`
	Term     string `json:"term,omitempty"` // as in the variable TERM
	Size     Size   `json:"size,omitzero"`
}

// Size is that of a terminal, in characters.
type Size struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Ended is how a shell ended.
type Ended struct {
	Status int `json:"status"` // its exit code, or -1: by a signal
}

// Exercise is a series of requests to the drive, one after the other, each of Bytes
// bytes (a multiple of 512) at a multiple of that within the first Span bytes.
type Exercise struct {
	Bytes  int    `json:"bytes"`
	Count  int    `json:"count"`
	Span   int64  `json:"span"`
	Random bool   `json:"random,omitempty"` // at random places; else from the beginning on
	Read   bool   `json:"read,omitempty"`   // else they are writes
	Sync   bool   `json:"sync,omitempty"`   // each followed by fdatasync
	Seed   uint64 `json:"seed"`             // of places and content
}

// Exertion is how long an Exercise took, in nanoseconds of guest time.
type Exertion struct {
	Elapsed int64 `json:"elapsed_ns"` // in all
	Median  int64 `json:"median_ns"`  // of a request, its fdatasync included
}

// Inspection ends an inspection. The tree's data has come before it.
type Inspection struct {
	Survivor
	Tree inspect.Tree `json:"tree"`
	// Work lists what does not work any more, each in a few words.
	Work []string `json:"work,omitempty"`
}

// Rehearsal is what Rehearse asks for.
type Rehearsal struct {
	Mount Mount      `json:"mount"`
	Plans []ops.Plan `json:"plans"`
}

// Performance is what became of one plan of a rehearsal.
type Performance struct {
	Errnos []int32      `json:"errnos"` // of each op that was tried
	Tree   inspect.Tree `json:"tree"`
	Work   []string     `json:"work,omitempty"` // see Inspection
}
