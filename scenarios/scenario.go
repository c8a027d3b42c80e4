// Package scenarios defines what a scenario is, reads it strictly from YAML, and
// holds the library of scenarios that ships inside the binary.
//
// The struct Scenario is the format: its tags name each field, its limits and
// its meaning, Default holds every default, and Reference prints all of it, so
// that parser and documentation cannot drift apart.
//
// Anything that a scenario says and that cannot be done is an *Error with file,
// line and column. A scenario never names its seed: the seed comes with the run,
// and the two together fix everything that is decided at random.
package scenarios

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"

	"powercut/guest/ops"
	"powercut/guest/workload"
	"powercut/harness/verdict"
)

// Scenario is one case: a guest, a file system on a drive, a workload, a cut, and
// what is expected of them.
//
// The tags are the schema. yaml is the name in the file; doc the meaning;
// required marks a field without a default; min and max bound a value (for a text
// or a list, its length), both included; unit tells what a Bound counts.
type Scenario struct {
	Name       string        `yaml:"name" required:"true" max:"120" doc:"how the scenario is called; of an embedded one, the file's base name"`
	About      string        `yaml:"about" required:"true" max:"160" doc:"one line for the listing"`
	Source     string        `yaml:"source,omitempty" max:"400" doc:"where the case comes from"`
	Kernel     string        `yaml:"kernel" max:"400" doc:"the guest's kernel"`
	Guest      Guest         `yaml:"guest" doc:"the virtual machine"`
	Filesystem Filesystem    `yaml:"filesystem" doc:"the file system under test"`
	Drive      Drive         `yaml:"drive" doc:"the drive under the file system"`
	Workload   Workload      `yaml:"workload" doc:"what the guest does"`
	Cut        Cut           `yaml:"cut" doc:"when the power goes; exactly one of the fields; of a workload of ops, where left out, once the last one has ended"`
	AtCut      Fate          `yaml:"at-cut" doc:"what the cut does to the drive's volatile cache; with the back end file it is keep, which is also what it is there where left out"`
	Timeout    time.Duration `yaml:"timeout" min:"1s" max:"1h" doc:"for one sync call: its workload, and again its recovery"`
	Figures    Figures       `yaml:"figures,omitempty" doc:"what was published of the same work, to stand beside what the run measures"`
	Expect     Expect        `yaml:"expect" doc:"what must hold for the run to pass"`
	Matrix     Matrix        `yaml:"matrix,omitempty" doc:"many scenarios in one document, one for each combination of the values of some fields"`
}

// Guest is the virtual machine.
type Guest struct {
	Memory     Size       `yaml:"memory" min:"192MiB" max:"2GiB" doc:"the guest's memory"`
	WriteCache GuestCache `yaml:"write-cache,omitempty" doc:"what is written to /sys/block/*/queue/write_cache before the mount; left out: nothing"`
	HdparmW    Switch     `yaml:"hdparm-w,omitempty" doc:"the drive's write cache, switched by the guest before the mount with the ATA command behind hdparm -W (ide, ahci); left out: not switched"`
	NoMerges   Switch     `yaml:"nomerges,omitempty" doc:"on: the guest's block layer joins no neighbouring requests (queue/nomerges 2), as a kernel of 2003 hardly did: each journal block reaches the drive by itself"`
	Scheduler  Scheduler  `yaml:"scheduler,omitempty" doc:"the guest's I/O scheduler (queue/scheduler); left out: the kernel's choice"`
	Module     Module     `yaml:"module,omitempty" doc:"a kernel module of powercut's, in place of the kernel's own of that name or in addition (powercut modules); it is built once, for kernels of Debian; left out: none"`
}

// Filesystem is the file system under test.
type Filesystem struct {
	Type FilesystemType `yaml:"type" required:"true" doc:"what mkfs makes"`
	Size Size           `yaml:"size" min:"16MiB" max:"64GiB" doc:"of the drive, all of which the file system takes; a multiple of 4KiB"`
	// ExternalJournal is the size of a second disk.
	ExternalJournal Size     `yaml:"external-journal,omitempty" min:"4MiB" max:"4GiB" doc:"of a second disk of the same kind, which holds nothing but the journal of ext3 or ext4 (mke2fs -O journal_dev); a multiple of 4KiB; left out: the journal is in the file system"`
	Mkfs            []string `yaml:"mkfs,omitempty" max:"32" doc:"further options of mkfs, such as [-b, \"4096\"]; no paths"`
	Mount           string   `yaml:"mount,omitempty" max:"200" doc:"mount options, such as data=ordered"`
	// Recovery is for looks at a state that are not those of a boot.
	Recovery string `yaml:"recovery-mount,omitempty" max:"200" doc:"mount options of the guest that recovers, such as ro,noload; left out: those of mount"`
}

// Drive is the emulated drive.
type Drive struct {
	Bus        Bus       `yaml:"bus" doc:"how the guest reaches the drive"`
	Backend    Backend   `yaml:"backend" doc:"nbd: the emulated drive; file: an image file, where the cut is a SIGKILL of QEMU and nothing more"`
	Format     Image     `yaml:"format,omitempty" doc:"of the image file; left out: raw"`
	AIO        AIO       `yaml:"aio,omitempty" doc:"how QEMU reaches the image file; native needs a cache mode that is direct; left out: threads"`
	Cache      CacheMode `yaml:"cache,omitempty" doc:"QEMU's cache mode, in front of a drive with a volatile cache that honours FUA; left out: write-cache alone decides"`
	WriteCache bool      `yaml:"write-cache" doc:"on: a write is volatile until a flush; off: a write is answered once it is on the media. With a cache mode: what the guest is told, which must agree with the mode and follows it where left out"`
	Sector     Size      `yaml:"sector" doc:"what the drive writes whole, 512 or 4KiB: its physical sector. A write that is cut short is torn at multiples of that"`
	Timing     Timing    `yaml:"timing" doc:"the drive's mechanics: a profile's name, or a mapping of the fields below"`
	Faults     []Fault   `yaml:"faults,omitempty" max:"16" doc:"what is wrong with the drive; the first that decides on a request counts"`
}

// Workload is what the guest does, once for each of Calls.
type Workload struct {
	Kind      workload.Kind       `yaml:"kind" required:"true" doc:"overwrite: the file has its full size and is synced before op 1; append: it begins empty; ops: the list below, and the fields after it are of no use"`
	Ops       []ops.Op            `yaml:"ops,omitempty" max:"200" doc:"operations on files and directories, one after the other; the first that fails with an error which it does not allow ends the workload"`
	File      string              `yaml:"file" max:"200" doc:"below the mount point"`
	Size      Size                `yaml:"size" min:"1" max:"1GiB" doc:"of the file; with append a bound on what it grows to and, left out, what the ops come to: (count-1)*stride+bytes"`
	Count     int                 `yaml:"count" min:"1" max:"1000000" doc:"ops"`
	Bytes     Size                `yaml:"bytes" min:"1" max:"16MiB" doc:"written by each op"`
	Stride    Size                `yaml:"stride" min:"0" max:"1GiB" doc:"from one op's offset to the next; an overwrite goes on at offset modulo size"`
	Chunk     Size                `yaml:"chunk,omitempty" min:"1" max:"16MiB" doc:"what one write call writes; left out: all that the op does"`
	Allocate  workload.Allocation `yaml:"allocate,omitempty" doc:"what an overwritten file consists of before op 1: written blocks, blocks that fallocate reserved and marked as unwritten, or none; left out: written"`
	Threads   int                 `yaml:"threads,omitempty" min:"1" max:"32" doc:"threads that run the ops at the same time, each with a descriptor of its own, op k on thread (k-1) modulo threads; an op begins once all before it have begun"`
	Gap       time.Duration       `yaml:"gap,omitempty" min:"1us" max:"10s" doc:"how long a thread sleeps between two of its ops"`
	Sync      Region              `yaml:"sync,omitempty" doc:"the range of the file that each op's sync call is for, wherever the op wrote: with fsync_range, sync_file_range, msync and io_uring; left out: what the op wrote"`
	Observers int                 `yaml:"observers,omitempty" min:"0" max:"16" doc:"further descriptors of the file, open all the while: after an op that failed each issues a sync call of its own, and then the first one issues a second, which says who is told of an error"`
	Load      Reading             `yaml:"load,omitempty" doc:"what reads from the file system all the while"`
	Calls     []workload.Call     `yaml:"calls" min:"1" max:"32" doc:"the sync calls, each with a guest, a drive and a cut of its own"`
}

// Region is a range of a file.
type Region struct {
	Offset Size `yaml:"offset" max:"1GiB" doc:"of its first byte"`
	Length Size `yaml:"length" min:"1" max:"1GiB" doc:"in bytes"`
}

// Reading is what reads beside the workload, from files of its own that are never in
// memory.
type Reading struct {
	Kind    workload.LoadKind `yaml:"kind" doc:"sequential: a large file for each reader, as dd reads; files: one file of 64KiB after the other, as tar reads"`
	Size    Size              `yaml:"size" min:"64KiB" max:"1GiB" doc:"of all that there is to read"`
	Readers int               `yaml:"readers" min:"1" max:"16" doc:"that read at the same time"`
}

// Cut says when the power goes. Exactly one field is set; the others are zero.
type Cut struct {
	Op       int           `yaml:"op,omitempty" min:"1" max:"1000000" doc:"once this op has begun"`
	Ack      int           `yaml:"ack,omitempty" min:"1" max:"1000000" doc:"once this op is acknowledged"`
	Position int           `yaml:"position,omitempty" min:"2" max:"1000000000" doc:"at this position in the block log; before 2 is QEMU's own look at the drive, without which no guest starts"`
	After    time.Duration `yaml:"after,omitempty" min:"1ms" max:"1h" doc:"this long after op 1 began, in host time"`
	Random   Range         `yaml:"random,omitempty" doc:"at an op of this range and a few requests into it, both from the seed"`
}

// Expect is what must hold for the run to pass.
type Expect struct {
	Lost          Bounds                `yaml:"lost" unit:"ops" doc:"acknowledged ops that did not survive, and whose call promised it"`
	Unpromised    Bounds                `yaml:"unpromised,omitempty" unit:"ops" doc:"acknowledged ops that did not survive, and whose call promised nothing, or nothing of what is missing; of a workload of ops, what was lost and was neither promised nor customary"`
	Foreign       Bounds                `yaml:"foreign" unit:"ops" doc:"ops with bytes that were never written there; of a workload of ops, files"`
	Customary     Bounds                `yaml:"customary,omitempty" unit:"number" doc:"of a workload of ops: names, sizes, contents and so on that are lost and that file systems of the kind keep by custom; 0 where left out. lost is then about those that a sync call promised"`
	Forbidden     Bounds                `yaml:"forbidden,omitempty" unit:"number" doc:"of a workload of ops: what may never be found, whatever was synced, such as half a rename; 0 where left out"`
	Failed        Bounds                `yaml:"failed,omitempty" unit:"ops" doc:"ops whose write or sync call returned an error"`
	Untold        Bounds                `yaml:"untold,omitempty" unit:"number" doc:"of workload.observers, those whose sync call returned success right after the first op that failed"`
	Recovery      verdict.RecoveryClass `yaml:"recovery" doc:"how the fresh guest fares with what the cut left"`
	JournalWrites Bounds                `yaml:"journal-writes,omitempty" unit:"number" doc:"journal writes per op"`
	Flushes       Bounds                `yaml:"flushes,omitempty" unit:"number" doc:"flushes per op"`
	ImageErrors   Bounds                `yaml:"image-errors,omitempty" unit:"number" doc:"corruptions that qemu-img check finds in a qcow2 image after the kill; leaked clusters are none"`
	Mean          Bounds                `yaml:"mean,omitempty" unit:"time" doc:"mean latency of the sync call, in guest time"`
	P50           Bounds                `yaml:"p50,omitempty" unit:"time" doc:"median latency"`
	P99           Bounds                `yaml:"p99,omitempty" unit:"time" doc:"99th percentile of the latency"`
	Max           Bounds                `yaml:"max,omitempty" unit:"time" doc:"longest latency"`
	Figures       Bounds                `yaml:"figures,omitempty" unit:"number" doc:"our mean over the published figure; 1 is the same, and within a published range it is 1"`
	Ratios        []Ratio               `yaml:"ratios,omitempty" max:"32" doc:"between the p50 latencies of two sync calls"`
}

// Condition is one bound that a run must keep: that on a measure of one sync call.
type Condition struct {
	Measure string // the field's name in the file: lost, foreign, journal-writes, p50 ...
	Call    workload.Call
	Bound   Bound
}

// String prints the condition in one line, such as "fsync: journal-writes >= 2".
func (c Condition) String() string {
	return fmt.Sprintf("%s: %s %s", c.Call, c.Measure, c.Bound)
}

// Conditions spells out the bounds of Expect, measure by measure in the order of
// the format, each for those of calls that it speaks of.
func (e Expect) Conditions(calls []workload.Call) []Condition {
	var out []Condition
	v := reflect.ValueOf(e)
	for _, f := range reflect.VisibleFields(v.Type()) {
		bounds, ok := v.FieldByIndex(f.Index).Interface().(Bounds)
		if !ok {
			continue
		}
		for _, call := range calls {
			if bound, ok := bounds.For(call); ok {
				out = append(out, Condition{Measure: fieldName(f), Call: call, Bound: bound})
			}
		}
	}
	return out
}

// Default returns the scenario that an empty file would mean, were nothing
// required. Every default of the format stands here.
func Default() Scenario {
	return Scenario{
		Kernel:     "debian:6.1",
		Guest:      Guest{Memory: 192 << 20},
		Filesystem: Filesystem{Size: 256 << 20},
		Drive: Drive{
			Bus:        IDE,
			Backend:    NBD,
			WriteCache: true,
			Sector:     4096,
			Timing:     Timing{Profile: NoTiming},
		},
		Workload: Workload{
			File:   "tmp.tmp",
			Size:   512000,
			Count:  200,
			Bytes:  1,
			Stride: 512,
			Calls:  []workload.Call{workload.OSync, workload.ODsync, workload.Fsync, workload.Fdatasync},
		},
		AtCut:   Lose,
		Timeout: 2 * time.Minute,
		Expect: Expect{
			Lost:     Bounds{Every: {Unit: Ops}},
			Foreign:  Bounds{Every: {Unit: Ops}},
			Recovery: verdict.Recovered,
		},
	}
}

// Plans returns one plan for each of the workload's calls, in their order. Each
// has a seed of its own, which depends on seed and on the call alone: leaving a
// call out changes nothing for the others.
func (s Scenario) Plans(seed uint64) []workload.Plan {
	plans := make([]workload.Plan, 0, len(s.Workload.Calls))
	for _, call := range s.Workload.Calls {
		plans = append(plans, s.plan(call, mixSeed(seed, call)))
	}
	return plans
}

func (s Scenario) plan(call workload.Call, seed uint64) workload.Plan {
	w := s.Workload
	return workload.Plan{
		Kind:      w.Kind,
		Path:      w.File,
		Size:      int64(w.Size),
		Count:     w.Count,
		Bytes:     int64(w.Bytes),
		Stride:    int64(w.Stride),
		Chunk:     int64(w.Chunk),
		Allocate:  w.Allocate,
		Threads:   w.Threads,
		Gap:       int64(w.Gap),
		Sync:      workload.Extent{Offset: int64(w.Sync.Offset), Length: int64(w.Sync.Length)},
		Observers: w.Observers,
		Call:      call,
		Seed:      seed,
	}
}

// mixSeed hashes seed and call (FNV-1a), so that the calls of a run differ.
func mixSeed(seed uint64, call workload.Call) uint64 {
	h := fnv.New64a()
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], seed)
	h.Write(word[:])
	h.Write([]byte(call))
	return h.Sum64()
}
