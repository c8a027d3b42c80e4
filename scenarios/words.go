package scenarios

import (
	"reflect"

	"powercut/guest/workload"
	"powercut/harness/verdict"
	"powercut/images/modules"
)

// FilesystemType names a file system as mkfs and mount do.
type FilesystemType string

// The file systems.
const (
	Ext2 FilesystemType = "ext2"
	Ext3 FilesystemType = "ext3"
	Ext4 FilesystemType = "ext4"
	XFS  FilesystemType = "xfs"
	// Btrfs is a file system that never writes to a place in use.
	Btrfs  FilesystemType = "btrfs"
	F2FS   FilesystemType = "f2fs"
	JFS    FilesystemType = "jfs"
	NILFS2 FilesystemType = "nilfs2"
)

// Bus is how the guest reaches its drive.
type Bus string

// The buses.
const (
	IDE       Bus = "ide"        // PIIX: one command in flight, no FUA command
	AHCI      Bus = "ahci"       // SATA: queued commands, no FUA command
	SCSI      Bus = "scsi-hd"    // virtio-scsi; FUA (dpofua=on)
	VirtioBlk Bus = "virtio-blk" // no FUA command
	NVMe      Bus = "nvme"       // FUA
)

// Backend is what stands behind QEMU's drive.
type Backend string

// The back ends.
const (
	NBD  Backend = "nbd"  // the emulated drive
	File Backend = "file" // an image file on the host
)

// Image is the format of an image file.
type Image string

// The formats.
const (
	Raw   Image = "raw"
	QCow2 Image = "qcow2"
)

// AIO is how QEMU reaches an image file.
type AIO string

// The ways.
const (
	Threads AIO = "threads"
	Native  AIO = "native"
	IOUring AIO = "io_uring"
)

// Fate is what becomes of the drive's volatile cache at the cut.
type Fate string

// The fates.
const (
	Lose   Fate = "lose"   // all that is volatile is gone
	Keep   Fate = "keep"   // all of it reached the media
	Random Fate = "random" // each sector for itself, from the seed
)

// OpsKind is the kind of a workload of ops, and OpsCall stands in the place of its
// sync calls.
const (
	OpsKind workload.Kind = "ops"
	OpsCall workload.Call = "ops"
)

// Every stands in Bounds for each call that is not named there.
const Every workload.Call = "every"

// choices lists the words that a value of type t may be, or nil where t is not
// a closed set of words.
func choices(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[FilesystemType]():
		return words(Ext2, Ext3, Ext4, XFS, Btrfs, F2FS, JFS, NILFS2)
	case reflect.TypeFor[Bus]():
		return words(IDE, AHCI, SCSI, VirtioBlk, NVMe)
	case reflect.TypeFor[Backend]():
		return words(NBD, File)
	case reflect.TypeFor[Image]():
		return words(Raw, QCow2)
	case reflect.TypeFor[AIO]():
		return words(Threads, Native, IOUring)
	case reflect.TypeFor[CacheMode]():
		return words(Writeback, Uncached, Writethrough, Directsync, Unsafe)
	case reflect.TypeFor[GuestCache]():
		return words(GuestWriteThrough, GuestWriteBack)
	case reflect.TypeFor[Switch]():
		return words(On, Off)
	case reflect.TypeFor[Scheduler]():
		return words(NoScheduler, MQDeadline, BFQ, Kyber)
	case reflect.TypeFor[Module]():
		return modules.VariantNames()
	case reflect.TypeFor[Fate]():
		return words(Lose, Keep, Random)
	case reflect.TypeFor[Profile]():
		return words(Profiles()...)
	case reflect.TypeFor[workload.Kind]():
		return words(workload.Overwrite, workload.Append, OpsKind)
	case reflect.TypeFor[workload.Allocation]():
		return words(workload.Written, workload.Unwritten, workload.Sparse)
	case reflect.TypeFor[workload.LoadKind]():
		return words(workload.Sequential, workload.ManyFiles)
	case reflect.TypeFor[workload.Call]():
		return words(workload.Calls...)
	case reflect.TypeFor[verdict.RecoveryClass]():
		return words(verdict.Recovered, verdict.MountFailed, verdict.FsckFailed,
			verdict.ReadFailed, verdict.Oops, verdict.Hang)
	}
	return nil
}

func words[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
