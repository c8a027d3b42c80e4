// Package ops is a language of file-system operations, one a line, and what carries
// it out in a guest:
//
//	mkdir d
//	write d/a 8KiB
//	fsync d/a
//	rename d/a d/b
//	fsync d
//
// A path is below the root of the file system under test; the root itself is ".".
// Where an op takes a file it also takes a descriptor, "@h", that an earlier
// "open … as @h" or "tmpfile … as @h" has opened and that is kept open until "close
// @h" or the end. Sizes and offsets are bytes, or have a unit: 4KiB, 1MiB; a range is
// OFFSET+LENGTH. An op that may fail says with which errors: "allow ENOENT".
//
// What an op writes is told apart from what any other writes by Stamp of package
// workload. The model of what ops do is in the harness; this package knows only how
// they are written and how they are done.
package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verb says what an op does.
type Verb string

// The verbs. Verbs in Forms says what each takes.
const (
	Create      Verb = "create"
	Mkdir       Verb = "mkdir"
	Write       Verb = "write"
	Append      Verb = "append"
	Pwrite      Verb = "pwrite"
	MmapWrite   Verb = "mmap-write"
	Truncate    Verb = "truncate"
	Fallocate   Verb = "fallocate"
	Punch       Verb = "punch"
	ZeroRange   Verb = "zero-range"
	Clone       Verb = "clone"
	CloneRange  Verb = "clone-range"
	Link        Verb = "link"
	Symlink     Verb = "symlink"
	Rename      Verb = "rename"
	Unlink      Verb = "unlink"
	Rmdir       Verb = "rmdir"
	SetXattr    Verb = "setxattr"
	RemoveXattr Verb = "removexattr"
	Chmod       Verb = "chmod"
	Chown       Verb = "chown"
	Utimes      Verb = "utimes"
	Mknod       Verb = "mknod"
	Tmpfile     Verb = "tmpfile"
	Open        Verb = "open"
	Close       Verb = "close"
	DropCaches  Verb = "drop-caches"
	Wait        Verb = "wait"
	Remount     Verb = "remount"
	Freeze      Verb = "freeze"
	Thaw        Verb = "thaw"

	Fsync         Verb = "fsync"
	Fdatasync     Verb = "fdatasync"
	Msync         Verb = "msync"
	SyncFileRange Verb = "sync-file-range"
	Syncfs        Verb = "syncfs"
	Sync          Verb = "sync"
)

// The words that may follow an op's arguments.
const (
	KeepSize  = "keep-size" // fallocate, zero-range: the size stays
	Collapse  = "collapse"  // fallocate: the range is taken out
	Insert    = "insert"    // fallocate: a hole is put in
	Unshare   = "unshare"   // fallocate: shared blocks get copies of their own
	Exchange  = "exchange"  // rename: both names change places
	NoReplace = "noreplace" // rename: not over an existing name
	Direct    = "O_DIRECT"  // pwrite, append, open
	OSync     = "O_SYNC"
	ODsync    = "O_DSYNC"
	OCreat    = "O_CREAT" // open
	OTrunc    = "O_TRUNC"
)

// The limits of a list.
const (
	// MaxOps is below the number of ops that one byte can tell apart.
	MaxOps    = 200
	MaxLength = 16 << 20 // bytes that one op writes
	MaxOffset = 1 << 40  // bytes
	maxWait   = time.Minute
)

// Op is one operation. Which fields mean anything is up to the verb: see Forms.
type Op struct {
	Verb   Verb
	File   string // a path, or a descriptor such as @h
	To     string // the second path, or file
	Handle string // the descriptor that open and tmpfile make, such as @h
	// Offset and Length are the range; Offset alone, a size or an offset.
	Offset, Length int64
	At             int64         // clone-range: the offset in To
	Mode           uint32        // permission bits
	UID, GID       uint32        // chown
	Major, Minor   uint32        // mknod
	Seconds        int64         // utimes, since the epoch
	Delay          time.Duration // wait
	Word           string        // a link's target, an attribute's name, a node's type, mount options
	Value          string        // of an attribute
	Flags          []string      // words such as keep-size
	Allow          []string      // names of errors
}

// Has tells whether the op has that word.
func (o Op) Has(flag string) bool { return slices.Contains(o.Flags, flag) }

// Allows tells whether the op may fail with the error of that name, such as ENOENT.
func (o Op) Allows(errno string) bool { return slices.Contains(o.Allow, errno) }

// Syncs tells whether success of the op promises anything: sync-file-range, which
// does not even write a drive's cache back, never does (sync_file_range(2)).
func (o Op) Syncs() bool {
	switch o.Verb {
	case Fsync, Fdatasync, Msync, Syncfs, Sync, Freeze:
		return true
	case Remount:
		return slices.Contains(strings.Split(o.Word, ","), "ro")
	}
	return o.Has(OSync) || o.Has(ODsync)
}

// IsHandle tells whether a File or To is a descriptor.
func IsHandle(file string) bool { return strings.HasPrefix(file, "@") }

// files are the op's arguments that may be descriptors.
func (o Op) files() []string { return []string{o.File, o.To} }

// Plan is a list of ops and the seed of what they write.
type Plan struct {
	Ops  []Op   `json:"ops"`
	Seed uint64 `json:"seed"`
}

// ListError is an error about an op of a list.
type ListError struct {
	Index int // of the op, from 0
	ParseError
}

// Check says what is wrong with a list of ops, each of which is sound by itself: a
// descriptor is used that is not open, or opened twice; or an op would wait for ever for
// a file system that is frozen, or thaws one that is not. The error is a *ListError.
func Check(list []Op) error {
	open := map[string]bool{}
	perhaps := map[string]bool{} // the op that opened it may have failed
	fail := func(i int, word, format string, args ...any) error {
		at := 0
		if word != "" {
			at = strings.LastIndex(list[i].String(), word)
		}
		return &ListError{i, ParseError{max(0, at), fmt.Sprintf(format, args...)}}
	}
	if len(list) > MaxOps {
		return &ListError{MaxOps, ParseError{0, fmt.Sprintf("is op %d; at most %d are allowed", MaxOps+1, MaxOps)}}
	}
	frozen := false
	for i, o := range list {
		switch {
		case frozen && !o.whileFrozen():
			return fail(i, "", "the file system is frozen here, and %s waits until it is thawed; thaw it first", o.Verb)
		case !frozen && o.Verb == Thaw && len(o.Allow) == 0:
			return fail(i, "", "the file system is not frozen here; freeze it first")
		case o.Has(Direct) && (o.Offset|o.Length)%sector != 0 && !o.Allows("EINVAL"): // open(2), O_DIRECT
			return fail(i, Direct, "%s needs a range of whole sectors of %d bytes; if it may fail with another, end it with: allow EINVAL", Direct, sector)
		}
		frozen = o.Verb == Freeze || frozen && o.Verb != Thaw
		for _, f := range o.files() {
			if IsHandle(f) && !open[f] {
				return fail(i, f, "the descriptor %s is not open here; open it with: open PATH as %s", f, f)
			}
		}
		if o.Handle != "" {
			if open[o.Handle] && !perhaps[o.Handle] {
				return fail(i, o.Handle, "the descriptor %s is open already; close it first, or take another name", o.Handle)
			}
			open[o.Handle], perhaps[o.Handle] = true, len(o.Allow) > 0
		}
		if o.Verb == Close {
			delete(open, o.File)
		}
	}
	return nil
}

// sector is what O_DIRECT reads and writes a multiple of, in bytes.
const sector = 512

// whileFrozen tells whether the op ends while the file system is frozen: it changes
// nothing (freeze_super, fs/super.c of Linux).
func (o Op) whileFrozen() bool {
	switch o.Verb {
	case Open:
		return !o.Has(OCreat) && !o.Has(OTrunc)
	case Close, DropCaches, Wait, Thaw, Freeze, Remount, Fsync, Fdatasync, Msync, SyncFileRange, Syncfs, Sync:
		return true
	}
	return false
}
