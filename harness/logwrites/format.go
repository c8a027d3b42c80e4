// Package logwrites reads and writes logs in the format of the kernel's
// dm-log-writes target, and turns them into block logs and back.
//
// # Format
//
// drivers/md/dm-log-writes.c of the kernel defines it; QEMU's block driver
// blklogwrites (block/blklogwrites.c) writes it too, and fstests' replay-log reads
// it. All numbers are little endian. A sector is that of the log, whose size the
// super block tells.
//
//	sector 0   super block: magic u64, version u64, entries u64, sector size u32
//	then, for each entry, one sector that begins with
//	           sector u64, sectors u64, flags u64, data length u64
//	           and, of a mark, goes on with its text; the rest is zeros;
//	           and then, unless it is a discard, that many sectors of data
//
// # What the order means
//
// The kernel logs a write only once it is sure that it has left the drive's cache:
// with the flush that covers it, just before that flush's own entry, or, with FUA
// (Force Unit Access), when it completes
// (Documentation/admin-guide/device-mapper/log-writes.rst). So what a replay of the
// entries up to any flush, FUA write or mark leaves is what surely is on the media
// there: the state that package crash builds with its policy lose.
package logwrites

import (
	"errors"
	"fmt"
	"strings"
)

// Magic and Version stand in the super block of every log.
const (
	Magic   = 0x6a736677736872
	Version = 1
)

const (
	superSize  = 28
	headerSize = 32
)

// The limits of a sector's size, in bytes; it is a power of two. The kernel uses the
// logical block size of the device, QEMU takes any below 16 MiB.
const (
	MinSectorSize = 512
	MaxSectorSize = 8 << 20
)

// Flags say what an entry is.
type Flags uint64

// The flags. An entry with none of them is a write that some later flush covers.
const (
	Flush    Flags = 1 << iota // a flush; where the entry has data, the flush comes before it
	FUA                        // durable when it completed
	Discard                    // no data follows
	Mark                       // a text, put there by the user
	Metadata                   // the file system said so of the write (REQ_META)

	known = Flush | FUA | Discard | Mark | Metadata
)

// String names the flags in the way of replay-log: "FLUSH|FUA", "NONE".
func (f Flags) String() string {
	var names []string
	for i, name := range []string{"FLUSH", "FUA", "DISCARD", "MARK", "METADATA"} {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := f &^ known; rest != 0 {
		names = append(names, fmt.Sprintf("UNKNOWN 0x%x", uint64(rest)))
	}
	if names == nil {
		return "NONE"
	}
	return strings.Join(names, "|")
}

// Entry is one entry of a log, in bytes where the format counts sectors.
type Entry struct {
	Number int   // from 0
	At     int64 // where it begins in the log
	Flags  Flags
	Offset int64 // on the drive
	Length int64 // of the write or discard; 0 for a mark, and for a flush without data
	Text   string
	// DataAt is where the data lie in the log; 0 where there are none.
	DataAt int64
}

// ErrNotLog is wrapped by the error for a file that is no log in this format.
var ErrNotLog = errors.New("not a log of dm-log-writes or blklogwrites")

// Damage says where a log stops making sense. What comes before is sound.
type Damage struct {
	Entry int   // number of the entry that cannot be read
	Byte  int64 // where it begins in the log
	What  string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("log is damaged at entry %d, byte %d: %s", d.Entry, d.Byte, d.What)
}

func validSectorSize(n int64) bool {
	return n >= MinSectorSize && n <= MaxSectorSize && n&(n-1) == 0
}
