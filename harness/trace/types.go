// Package trace reads a block log as a file-system developer would: it tells
// data from journal, adds up what each sync call cost, and says for each
// acknowledged op whether its data was durable when it was acknowledged. It is
// pure, and needs no guest.
package trace

import (
	"time"

	"powercut/harness/blocklog"
)

// Class is what a request carried.
type Class string

// The classes of requests. A write is Journal where it falls into the journal
// or, where the journal's place is unknown, holds jbd2 blocks (magic 0xC03B3998);
// else Data where it holds a sector of the plan's file; and else Metadata.
const (
	Data     Class = "data"
	Journal  Class = "journal"
	Metadata Class = "metadata"
	Flush    Class = "flush"
	Reading  Class = "read"
	Discard  Class = "discard"
)

// Request joins the two events of a request and says what it was.
type Request struct {
	Number uint64
	Op     blocklog.Op
	FUA    bool
	// NoEffect: the drive ignored the flush, or FUA or its own writing through.
	NoEffect bool
	Through  bool           // the drive held nothing back
	Spoil    blocklog.Spoil // what of a write was not stored as it was sent
	Offset   int64
	Length   int64
	Errno    int32
	Arrive   int // position in the log
	Reply    int // position in the log, or -1: never answered
	ArriveAt time.Duration
	ReplyAt  time.Duration // 0 where never answered
	Destage  int           // position in the log at which the drive wrote it back by itself, or -1
	Class    Class
	// Detail is what is known beyond the class: for a journal write its jbd2
	// blocks ("descriptor+2, commit"), for data the ops whose bytes it carries
	// ("ops 9-12"), for metadata the tables that it touches ("inode table").
	Detail string
	// Transaction is the number (h_sequence) of the jbd2 transaction that a journal write
	// belongs to, its first where it holds parts of several; 0 where it is not known.
	Transaction uint32
	// Ops are the ops that wrote last into one of the file's sectors that a write
	// holds, ascending; 0 is the first content. The write also carries the bytes
	// of the earlier ops that these left in place. With data=journal a write of
	// class Journal has ops too.
	Ops    []int
	During int // the op that was running when the request arrived, of several the one that had begun last, or Between
}

// Between is the Request.During of a request that arrived when the op that had
// begun last was already over: the file system's own work. What arrives before
// op 1 and before the record of the file's creation is during op 0.
const Between = -1

// Bill is what the ops of a run cost: the mean over the completed ops, op 0 left
// out, of the requests that arrived while each ran. A write request counts once:
// a descriptor and its blocks in one request are one journal write, a commit
// block in another is a second.
type Bill struct {
	Ops            int     `json:"ops"` // completed ops that the bill is for
	DataWrites     float64 `json:"data_writes_per_op"`
	JournalWrites  float64 `json:"journal_writes_per_op"`
	MetadataWrites float64 `json:"metadata_writes_per_op"`
	Flushes        float64 `json:"flushes_per_op"`
	FUAWrites      float64 `json:"fua_writes_per_op"`
	DriveTime      float64 `json:"drive_ns_per_op"` // nanoseconds in which at least one of its requests was between arrival and reply; with threads, one of anybody
	// GuestTime is what an op took besides, in nanoseconds: the guest's processor and
	// its queue. It is the median, so that a host which now and then held the guest up
	// does not show in it, as it does in the mean: the ops' mean latency less DriveTime.
	// 0 where ops run at the same time.
	GuestTime float64 `json:"guest_ns_per_op"`
}

// Cover says how durable the data of one acknowledged op was at its ack. It
// follows data by what a write holds, in whole sectors, wherever it lies: in place,
// in a journal or in a copy. So it does not see a later write of older content to
// the same place, nor a discard; and of data that a file system packs into its
// own tables, compresses or encrypts it finds no write at all.
type Cover struct {
	Op      int
	AckAt   int // position of the first event at which the op was counted as acked, or the cut
	AckTime time.Duration
	Writes  []uint64 // the numbers of the requests that carried its data and arrived before the ack
	// Durable: each sector of the data was in a write that had been answered before
	// the ack without an error, and that was FUA, or was followed by a flush which
	// arrived after that answer and was itself answered before the ack; neither had
	// been ignored by the drive. Or the drive had written it back by itself before the
	// ack. The data is that which the sync call was for: workload.Plan.Synced. A sector that a fault tore off or spoilt is not durable. An op without data
	// is.
	Durable bool
	Reason  Reason
	// Why says it in words, for a reader of the report: what carried the data,
	// and which flush covered it, or that none reached or took effect.
	Why string
	// Journal and Metadata are the writes of these classes that arrived during the
	// op, Volatile those of both that were not durable at the ack, and Spoilt those of
	// which a fault kept a part from being stored as it was.
	Journal, Metadata, Volatile, Spoilt []uint64
	// Replayed is the journal write that holds a copy of a block of the data, older or newer, so
	// that the journal's replay may write over what was durable in its place; 0: none.
	Replayed uint64
	// Unflushed says of the first of Volatile, if it had been answered, what became of the
	// flushes of its disk; empty where the drive is one disk.
	Unflushed string
}
