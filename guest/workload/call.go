package workload

import "strings"

// Call is the sync call that ends each op, or that the op's write itself is.
type Call string

// The sync calls, named as in open(2), fsync(2), pwritev2(2), msync(2), sync(2),
// sync_file_range(2), io_uring_enter(2) and io_submit(2). What each promises stands
// in package verdict.
const (
	OSync     Call = "O_SYNC"
	ODsync    Call = "O_DSYNC"
	Fsync     Call = "fsync"
	Fdatasync Call = "fdatasync"
	// FsyncRangeFile and FsyncRangeData are fsync_range of NetBSD and AIX, in their forms
	// FFILESYNC and FDATASYNC: see package fsyncrange.
	FsyncRangeFile Call = "fsync_range-FFILESYNC"
	FsyncRangeData Call = "fsync_range-FDATASYNC"
	SyncFileRange  Call = "sync_file_range" // with all three of its flags
	Msync          Call = "msync"           // MS_SYNC, after stores into a shared mapping of the file
	Syncfs         Call = "syncfs"
	Sync           Call = "sync"
	RWFSync        Call = "RWF_SYNC"           // pwritev2 with that flag
	RWFDsync       Call = "RWF_DSYNC"          // …
	UringFsync     Call = "io_uring-fsync"     // IORING_OP_FSYNC
	UringFdatasync Call = "io_uring-fdatasync" // … with IORING_FSYNC_DATASYNC
	AIOFsync       Call = "aio-fsync"          // IOCB_CMD_FSYNC
	AIOFdatasync   Call = "aio-fdatasync"      // IOCB_CMD_FDSYNC
	FsyncDir       Call = "fsync-directory"    // of the file's directory, and not of the file
	// Direct is a write past the page cache, and nothing after it; the others are such
	// a write with a sync call.
	Direct          Call = "O_DIRECT"
	DirectOSync     Call = "O_DIRECT+O_SYNC"
	DirectODsync    Call = "O_DIRECT+O_DSYNC"
	DirectFsync     Call = "O_DIRECT+fsync"
	DirectFdatasync Call = "O_DIRECT+fdatasync"
	// None issues no sync call at all: no op is ever acknowledged.
	None Call = "none"
)

// Calls lists every Call in the order in which reports show them.
var Calls = []Call{
	OSync, ODsync, Fsync, Fdatasync, FsyncRangeFile, FsyncRangeData, SyncFileRange, Msync, Syncfs, Sync, RWFSync, RWFDsync,
	UringFsync, UringFdatasync, AIOFsync, AIOFdatasync, FsyncDir, Direct, DirectOSync, DirectODsync, DirectFsync, DirectFdatasync, None,
}

// Ranged lists the calls that sync a range of the file, as Plan.Sync says. That
// io_uring's do is not in its manual: io_fsync (io_uring/sync.c) hands offset and
// length to vfs_fsync_range.
var Ranged = []Call{FsyncRangeFile, FsyncRangeData, SyncFileRange, Msync, UringFsync, UringFdatasync}

// Direct tells whether the call writes with O_DIRECT.
func (c Call) Direct() bool { return c == Direct || strings.HasPrefix(string(c), directly) }

// Buffered is the call without O_DIRECT; empty where nothing is left.
func (c Call) Buffered() Call {
	if c == Direct {
		return ""
	}
	return Call(strings.TrimPrefix(string(c), directly))
}

// DirectAndSynchronous tells whether the call is one write with O_DIRECT that is
// durable when it returns, which a file system may send to the drive with FUA.
func (c Call) DirectAndSynchronous() bool { return c == DirectOSync || c == DirectODsync }

const directly = string(Direct) + "+"

// joined lists calls in one line.
func joined(calls []Call) string {
	words := make([]string, len(calls))
	for i, c := range calls {
		words[i] = string(c)
	}
	return strings.Join(words, ", ")
}
