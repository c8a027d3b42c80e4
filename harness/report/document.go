// Package report shows what a run found: as a table for a terminal and as one
// JSON document. It also draws the progress line of a running campaign.
//
// A Document is plain data. Table and Runs print it in at most Width
// columns, JSON and JSONAll write it, and Fields describes it.
package report

import (
	"powercut/guest/workload"
	"powercut/harness/latency"
	"powercut/harness/promise"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// Schema names the version of Document.
const Schema = "powercut/run/1"

// Document holds all the facts of one run. It is what `powercut run --json`
// prints and what report.json in the run folder holds.
//
// The doc tag of a field says what it means; Fields prints them.
type Document struct {
	Schema       string        `json:"schema" doc:"powercut/run/1"`
	Scenario     string        `json:"scenario" doc:"name of the scenario"`
	About        string        `json:"about" doc:"what the scenario is for, one sentence"`
	Seed         uint64        `json:"seed" doc:"what every random decision of the run follows from"`
	Folder       string        `json:"folder" doc:"the run folder"`
	Matrix       *Matrix       `json:"matrix,omitempty" doc:"which cell of a matrix of scenarios this is"`
	Machine      Machine       `json:"machine" doc:"what the run ran on"`
	Filesystem   Filesystem    `json:"filesystem" doc:"how the file system was made and mounted"`
	Drive        Drive         `json:"drive" doc:"what the drive was, and what the cut did to its cache"`
	Workload     Workload      `json:"workload" doc:"the plan, common to all calls"`
	Figures      *Published    `json:"figures,omitempty" doc:"what the published figures that stand at the calls are of"`
	Calls        []Call        `json:"calls" doc:"what was found, one entry a sync call; each had its own guest, drive and cut"`
	Expectations []Expectation `json:"expectations" doc:"the scenario's expectations, and what came of them"`
	Held         bool          `json:"held" doc:"every expectation held"`
	Elapsed      float64       `json:"elapsed_s" doc:"how long the run took, seconds of the host"`
}

// Machine says what the run ran on.
type Machine struct {
	Kernel      string   `json:"kernel" doc:"the guest kernel as asked for, such as debian:6.1"`
	Release     string   `json:"release" doc:"the guest kernel's release, as its uname says"`
	KernelID    string   `json:"kernel_id,omitempty" doc:"names the very kernel: where it is from, its release, and the hash of its image"`
	Package     string   `json:"kernel_package,omitempty" doc:"the Debian package that it is from, and the version of that"`
	ModulesFrom string   `json:"modules_folder,omitempty" doc:"where the modules of a kernel of one's own are from"`
	Loaded      []string `json:"modules_loaded,omitempty" doc:"all modules that the guest loads, each with the hash of its file"`
	Params      []string `json:"kernel_params,omitempty" doc:"parameters that were added to the guest kernel's command line"`
	Modules     []Module `json:"modules,omitempty" doc:"kernel modules in place of the kernel's own, or in addition; the guest has proved that it loaded these"`
	QEMU        string   `json:"qemu" doc:"version of QEMU"`
	Accelerator string   `json:"accelerator" doc:"kvm or tcg"`
	Reason      string   `json:"accelerator_reason" doc:"why it is this one"`
	Ledger      string   `json:"ledger" doc:"memory, or serial where the guest kernel has no /dev/mem or serial was asked for: then acks reach the harness late, the last ones not at all, and all ops of the plan count as begun"`
	MemoryMiB   int      `json:"memory_mib" doc:"memory of the guest, MiB"`
}

// Module is a kernel module that is not the kernel's own.
type Module struct {
	Name    string `json:"name" doc:"the module that it is, or in whose place, such as ext4"`
	Variant string `json:"variant,omitempty" doc:"which of powercut's modules it is, such as ext4-2.4-fsync; absent where the user gave it"`
	Path    string `json:"path" doc:"its file"`
	BuildID string `json:"build_id" doc:"the linker's hash of it, in hexadecimal, as the guest's kernel told it"`
}

// The kinds of ledger that Machine names.
const (
	LedgerMemory = "memory"
	LedgerSerial = "serial"
)

// Filesystem says what the file system was made and mounted with.
type Filesystem struct {
	Type  string `json:"type" doc:"such as ext4"`
	Bytes int64  `json:"bytes" doc:"size of the file system, bytes"`
	// ExternalJournal is behind the file system on the drive, as a disk of its own.
	ExternalJournal int64    `json:"external_journal,omitempty" doc:"size of the disk of an external journal, bytes; absent where there is none"`
	Mkfs            []string `json:"mkfs,omitempty" doc:"options given to mkfs"`
	Mount           string   `json:"mount,omitempty" doc:"mount options; absent where the defaults were used"`
	// Recovery are those of the guest that recovered, where they were others.
	Recovery string `json:"recovery_mount,omitempty" doc:"mount options of the guest that recovered; absent where they were the same"`
	// Digest names the content of the formatted disk.
	Digest string `json:"digest,omitempty" doc:"names the content of the formatted disk that the run began with: equal for equal ones"`
}

// Drive says what the drive was, and what the cut did to its cache.
type Drive struct {
	Bus        string   `json:"bus" doc:"how the guest sees the drive, such as ide"`
	Backend    string   `json:"backend" doc:"nbd: the emulated drive; file: an image file, where the cut was a SIGKILL of QEMU and nothing more, and nothing is known of what reached the file: no bill, no positions, no reasons"`
	Format     string   `json:"format,omitempty" doc:"of the image file: raw or qcow2"`
	AIO        string   `json:"aio,omitempty" doc:"how QEMU reached the image file: threads, native or io_uring"`
	Cache      string   `json:"cache,omitempty" doc:"QEMU's cache mode between guest and drive; absent where QEMU adds nothing"`
	WriteCache bool     `json:"write_cache" doc:"the drive has a volatile write cache, and it is on"`
	Told       bool     `json:"write_cache_told" doc:"the guest is told of a write cache; where it is not, QEMU marks each write FUA"`
	GuestCache string   `json:"guest_write_cache,omitempty" doc:"what was written to the guest's queue/write_cache before the mount"`
	HdparmW    string   `json:"guest_hdparm_w,omitempty" doc:"on or off: how the guest switched the drive's cache before the mount, with the command behind hdparm -W"`
	Timing     string   `json:"timing" doc:"the timing model; none where the drive answers at once"`
	Revolution float64  `json:"revolution_ms,omitempty" doc:"of a rotating drive, the time of one turn, milliseconds"`
	NoMerges   bool     `json:"guest_nomerges,omitempty" doc:"the guest joined no neighbouring requests"`
	Scheduler  string   `json:"guest_scheduler,omitempty" doc:"the guest's I/O scheduler, where the scenario chose it"`
	Faults     []string `json:"faults,omitempty" doc:"deliberate faults of the drive"`
	AtCut      string   `json:"at_cut" doc:"the fate of volatile writes at the cut: lose, keep or random (FAULT_MODEL.md)"`
	Seen       Seen     `json:"seen" doc:"what was in force, as the block log proves it: over all calls"`
}

// Seen is what reached the drive while the ops ran, from op 1 to the cut, and
// what the guest's kernel took the drive's cache for.
type Seen struct {
	Writes     int    `json:"writes" doc:"write requests"`
	Flushes    int    `json:"flushes" doc:"flush requests"`
	FUAWrites  int    `json:"fua_writes" doc:"of the writes, those with the FUA flag"`
	GuestCache string `json:"guest_write_cache" doc:"what the guest's kernel took the drive's cache for when op 1 began, in the words of its queue/write_cache: write back or write through; empty where the power went before it could tell"`
	GuestFUA   bool   `json:"guest_fua" doc:"the guest's kernel sends the drive writes with FUA (its queue/fua). What QEMU makes of them is in fua_writes: on scsi-hd a flush after the write"`
}

// Workload is the plan, common to all calls.
type Workload struct {
	Kind      string   `json:"kind" doc:"overwrite, append or ops"`
	Ops       []string `json:"ops,omitempty" doc:"the operations of a workload of ops, op 1 first; the fields below then mean nothing, but for count"`
	Size      int64    `json:"size" doc:"size of the file before op 1, bytes (overwrite)"`
	Count     int      `json:"count" doc:"ops planned"`
	Bytes     int64    `json:"bytes" doc:"bytes that each op writes"`
	Observers int      `json:"observers,omitempty" doc:"further descriptors of the file that sync after an op has failed"`
	Load      string   `json:"load,omitempty" doc:"what read from the file system all the while"`
	Stride    int64    `json:"stride" doc:"distance from the start of one op's bytes to the next op's, bytes"`
	Chunk     int64    `json:"chunk,omitempty" doc:"bytes that one write call writes; absent where it writes all of an op"`

	Allocate string  `json:"allocate,omitempty" doc:"what an overwritten file consisted of before op 1: fallocate (unwritten blocks) or none (no blocks); absent or written where it held data"`
	Threads  int     `json:"threads,omitempty" doc:"threads that ran the ops at the same time; absent for one"`
	Gap      float64 `json:"gap_ms,omitempty" doc:"how long a thread slept between two of its ops, milliseconds"`

	Sync workload.Extent `json:"sync,omitzero" doc:"the range of the file that each sync call was for; absent where it was for what the op wrote, or for the whole file"`
}

// Call is what was found for one sync call. Each has its own guest, drive and cut.
type Call struct {
	Call     string           `json:"call" doc:"one of those that the format of scenarios names"`
	Folder   string           `json:"folder" doc:"where its log, ledger and consoles are, below the run folder"`
	Cut      Cut              `json:"cut" doc:"where the power went"`
	Seen     Seen             `json:"seen" doc:"what reached the drive while the ops ran"`
	Log      Log              `json:"log" doc:"the block log; all 0 where there is none, because the drive is an image file"`
	Counts   verdict.Counts   `json:"counts" doc:"ops by verdict, op 0 (the file's creation) left out; where recovery.class is not recovered nothing was read back, and only ops, acked and failed mean anything"`
	Latency  latency.Summary  `json:"latency" doc:"of acknowledged ops: from before the write to the return of its sync call, in guest time"`
	Sync     latency.Summary  `json:"sync_latency" doc:"of acknowledged ops: the sync call alone; the same as latency where the write is the sync call"`
	Bill     trace.Bill       `json:"bill" doc:"what an op cost: the mean over the completed ops of the requests that reached the drive while each ran"`
	HostWait *float64         `json:"host_wait,omitempty" doc:"of the time from the workload's beginning to the cut, the part in which QEMU was ready to run and this machine had no processor for it, added up over its threads; absent where that is not known"`
	Figure   *Figure          `json:"figure,omitempty" doc:"a published figure beside ours"`
	Image    *Image           `json:"image,omitempty" doc:"what qemu-img check found in a qcow2 image after the kill, before it was recovered"`
	Recovery verdict.Recovery `json:"recovery" doc:"how a fresh guest fared with the disk"`
	Errors   *Errors          `json:"errors,omitempty" doc:"ops whose write or sync call returned an error, and who was told; absent where there was none"`
	Size     string           `json:"size,omitempty" doc:"what is wrong with the file's size after recovery"`
	Setup    string           `json:"setup,omitempty" doc:"what is wrong with the file's first content, synced before op 1"`
	Stray    string           `json:"stray,omitempty" doc:"what stands in the holes of an append file, where no op wrote"`
	Findings []Finding        `json:"findings" doc:"every lost and foreign op, ascending"`
	Tree     *promise.Result  `json:"tree,omitempty" doc:"the verdict on the whole tree, of a workload of ops; counts then has of it what lost and foreign can say"`
}

// Errors says what became of ops that failed. What failed is not acknowledged, and
// a sync call that succeeds later does not make it so.
type Errors struct {
	First uint64 `json:"first_op" doc:"the first op that failed"`
	Errno string `json:"errno" doc:"its error, such as EIO"`
	Last  string `json:"last_errno" doc:"the error of the last op that failed"`
	Count int    `json:"count" doc:"ops that failed"`
	Asked int    `json:"observers_asked" doc:"other descriptors of the file, opened before op 1, that issued a sync call right after the first op that failed"`
	Told  int    `json:"observers_told" doc:"of these, those whose sync call returned an error"`
	Again string `json:"second_sync" doc:"what a second sync call on the descriptor of the first op that failed returned, after the observers': success, which proves nothing, an error such as EIO, or not asked"`
}

// Image is the state of a qcow2 image's own tables after the kill.
type Image struct {
	Errors int    `json:"errors" doc:"corruptions: data is lost or in danger"`
	Leaks  int    `json:"leaks" doc:"clusters that are allocated and not used: harmless, and to be expected after a kill"`
	Failed string `json:"failed,omitempty" doc:"why it could not be checked at all"`
}

// Log says how large a block log is, in bytes.
type Log struct {
	Payload    int64 `json:"payload_bytes" doc:"written to the drive by the guest, bytes"`
	Plain      int64 `json:"plain_bytes" doc:"of the log as it was recorded, bytes"`
	Compressed int64 `json:"compressed_bytes" doc:"of the log as it is kept, bytes"`
}

// Cut says where the power went.
type Cut struct {
	Reason   string `json:"reason" doc:"what placed it, in words, such as: op 163 had begun"`
	Position int    `json:"position" doc:"in the block log: the events before it happened, and no other; 0 where there is no log"`
	Op       uint64 `json:"op" doc:"the op that had begun last"`
	Acked    uint64 `json:"acked" doc:"ops acknowledged before the cut"`
	Volatile int    `json:"volatile" doc:"writes that were volatile at the cut: in the drive's cache or in flight"`
	Dropped  int    `json:"dropped" doc:"of these, writes of which the media took nothing"`
	Torn     int    `json:"torn" doc:"of these, writes of which the media took some sectors"`
}

// Finding is an op that broke its promise.
type Finding struct {
	verdict.OpVerdict
	AckedAt   int     `json:"acked_at" doc:"position in the block log of the first event that followed the ack; 0 where never acknowledged"`
	AckedTime float64 `json:"acked_ms" doc:"time of that event since the log was begun, milliseconds"`
	// CarriedBy names requests of the block log.
	CarriedBy []uint64     `json:"carried_by,omitempty" doc:"the requests that carried the op's data to the drive before the ack"`
	Reason    trace.Reason `json:"reason" doc:"why it was not durable at the ack, in fixed words; empty where never acknowledged"`
	Why       string       `json:"why" doc:"the same as a sentence: what carried the op's data, and which flush covered it, or that none did"`
}

// Expectation is one line of the scenario's expect section, and what came of it.
type Expectation struct {
	Text  string `json:"text" doc:"the expectation, as the scenario says it"`
	Found string `json:"found" doc:"what the run showed"`
	Held  bool   `json:"held" doc:"what the run showed is as expected"`
	Busy  bool   `json:"busy,omitempty" doc:"it is about a time and did not hold, and QEMU waited for a processor of this machine for more than a tenth of the run: nothing is to be learnt from it"`
}
