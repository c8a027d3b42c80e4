package scenarios

import (
	"reflect"

	"powercut/guest/workload"
	"powercut/harness/verdict"
)

// FilesystemType names a file system as mkfs and mount do.
type FilesystemType string

// The file systems.
const (
	Ext2 FilesystemType = "ext2"
	Ext3 FilesystemType = "ext3"
	Ext4 FilesystemType = "ext4"
)

// Bus is how the guest reaches its drive.
type Bus string

// The buses.
const (
	IDE Bus = "ide" // PIIX: one command in flight, no FUA command
)

// Fate is what becomes of the drive's volatile cache at the cut.
type Fate string

// The fates.
const (
	Lose   Fate = "lose"   // all that is volatile is gone
	Keep   Fate = "keep"   // all of it reached the media
	Random Fate = "random" // each sector for itself, from the seed
)

// Fault is something wrong with a drive, on purpose.
type Fault string

// The faults.
const (
	FlushIgnored      Fault = "flush-ignored"      // a flush is answered and does nothing
	FUAIgnored        Fault = "fua-ignored"        // a FUA write is cached like any other
	CacheUnadvertised Fault = "cache-unadvertised" // the drive has a cache and does not say so
)

// Every stands in Bounds for each call that is not named there.
const Every workload.Call = "every"

// choices lists the words that a value of type t may be, or nil where t is not
// a closed set of words.
func choices(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[FilesystemType]():
		return words(Ext2, Ext3, Ext4)
	case reflect.TypeFor[Bus]():
		return words(IDE)
	case reflect.TypeFor[Fate]():
		return words(Lose, Keep, Random)
	case reflect.TypeFor[Fault]():
		return words(FlushIgnored, FUAIgnored, CacheUnadvertised)
	case reflect.TypeFor[Profile]():
		return words(Profiles()...)
	case reflect.TypeFor[workload.Kind]():
		return words(workload.Overwrite, workload.Append)
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
