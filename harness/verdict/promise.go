package verdict

import "powercut/guest/workload"

// Promise is what a sync call owes once it has returned success.
type Promise string

// The promises. The first two are the completions of synchronised I/O of POSIX
// (Base Definitions, chapter 3), and owe the same where the bytes of a file and its
// size are judged.
const (
	FileIntegrity Promise = "file integrity" // the data, and all metadata of the file
	DataIntegrity Promise = "data integrity" // the data, and the metadata that is needed to read it back
	// Transfer: the data has been handed to the drive, whose cache is not flushed, and
	// no metadata is written. It is durable where the drive has no volatile cache, and
	// what leads to the data was on the media before: where blocks that hold data
	// are overwritten in place.
	Transfer Promise = "transfer"
	Names    Promise = "names"   // the entries of a directory, and no file's data
	Nothing  Promise = "nothing" // no sync call
)

// Duty is the promise of a call, and where it is written.
type Duty struct {
	Promise Promise
	Source  string
}

// Duties holds the promise of each of workload.Calls.
var Duties = map[workload.Call]Duty{
	workload.OSync:           {FileIntegrity, "open(2): as if each write were followed by fsync"},
	workload.ODsync:          {DataIntegrity, "open(2): as if each write were followed by fdatasync"},
	workload.Fsync:           {FileIntegrity, "fsync(2), the drive's cache included; POSIX fsync()"},
	workload.Fdatasync:       {DataIntegrity, "fsync(2); POSIX fdatasync()"},
	workload.FsyncRangeFile:  {FileIntegrity, "fsync_range(2) of NetBSD, FFILESYNC; vfs_fsync_range of Linux"},
	workload.FsyncRangeData:  {DataIntegrity, "fsync_range(2) of NetBSD, FDATASYNC; vfs_fsync_range of Linux"},
	workload.SyncFileRange:   {Transfer, "sync_file_range(2), \"Warning\""},
	workload.Msync:           {DataIntegrity, "POSIX msync(), MS_SYNC; mm/msync.c: vfs_fsync_range with datasync"},
	workload.Syncfs:          {FileIntegrity, "sync(2): as fsync of every file of the file system"},
	workload.Sync:            {FileIntegrity, "sync(2): as fsync of every file. It returns no error, so from the first one of the drive on it promises nothing"},
	workload.RWFSync:         {FileIntegrity, "pwritev2(2): O_SYNC for this write"},
	workload.RWFDsync:        {DataIntegrity, "pwritev2(2): O_DSYNC for this write"},
	workload.UringFsync:      {FileIntegrity, "io_uring_enter(2), IORING_OP_FSYNC"},
	workload.UringFdatasync:  {DataIntegrity, "io_uring_enter(2), IORING_FSYNC_DATASYNC"},
	workload.AIOFsync:        {FileIntegrity, "io_submit(2), IOCB_CMD_FSYNC; POSIX aio_fsync() with O_SYNC"},
	workload.AIOFdatasync:    {DataIntegrity, "io_submit(2), IOCB_CMD_FDSYNC; POSIX aio_fsync() with O_DSYNC"},
	workload.FsyncDir:        {Names, "fsync(2) of a directory; POSIX fsync() speaks of the data of the file that it is called for"},
	workload.Direct:          {Transfer, "open(2), O_DIRECT: it does not give the guarantees of O_SYNC"},
	workload.DirectOSync:     {FileIntegrity, "open(2), O_SYNC"},
	workload.DirectODsync:    {DataIntegrity, "open(2), O_DSYNC"},
	workload.DirectFsync:     {FileIntegrity, "fsync(2)"},
	workload.DirectFdatasync: {DataIntegrity, "fsync(2)"},
	workload.None:            {Nothing, "no call"},
}

// owes tells whether the op of the record numbered i from 0, if its call returned success,
// must be there after the cut.
func (h History) owes(i int) bool {
	p := h.Plan
	switch Duties[p.Call].Promise {
	case FileIntegrity, DataIntegrity:
		return p.Call != workload.Sync || i < len(h.Records)-h.Doubtful
	case Transfer:
		return h.InPlace && !p.Blank()
	}
	return false
}
