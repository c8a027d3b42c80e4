package promise

import "strings"

// Profile is what a file system is known to do beyond the letter of its sync calls.
type Profile struct {
	// Journal: changes of names and inodes are atomic, so that a rename is found done
	// or not done. Without it e2fsck has put names and inodes in order.
	Journal bool
	// Selective: a sync call writes what it is for, and not all that came before it. So a
	// file that was never durable may be missing, whatever became of the names around it.
	Selective bool
	// Names: a sync call on a file makes its names durable too, with the path to them
	// as it was when they were made. NewNames: only the name that a new file was made
	// with (ext4_sync_parent, fs/ext4/fsync.c).
	Names, NewNames bool
	// Exchanged: so are names that were exchanged. XFS writes neither of the two inodes
	// then, and fsync of one finds nothing to do (xfs_cross_rename, fs/xfs/xfs_inode.c).
	Exchanged bool
	// Replaced: what is renamed over another file has its bytes when the name is found
	// to lead to it (auto_da_alloc, Documentation/admin-guide/ext4.rst).
	Replaced bool
	// Stale: blocks that were allocated and never synced may hold anything.
	Stale bool
	// Rounding is what e2fsck rounds sizes up to, in bytes; 0: it does not.
	Rounding int64
	// Compressed: a file may take fewer blocks than were reserved for it.
	Compressed bool
}

// ProfileOf is the profile of a file system of that type, made with these options of
// mkfs and mounted with these.
func ProfileOf(fs string, mkfs []string, mount string) Profile {
	made := strings.Join(mkfs, " ")
	has := func(option string) bool {
		for o := range strings.SplitSeq(mount, ",") {
			if o == option {
				return true
			}
		}
		return false
	}
	switch fs {
	case "ext2", "ext3", "ext4":
		if fs == "ext2" || strings.Contains(made, "^has_journal") {
			return Profile{NewNames: true, Stale: true, Rounding: 4096}
		}
		writeback := has("data=writeback")
		return Profile{Journal: true, Names: true, Exchanged: true, Replaced: !writeback && !has("noauto_da_alloc"), Stale: writeback}
	case "f2fs":
		strict := has("fsync_mode=strict")
		return Profile{Journal: strict, Selective: true, Names: strict, Exchanged: strict, NewNames: true}
	case "nilfs2":
		return Profile{Journal: true}
	case "jfs":
		return Profile{Journal: true, Names: true, Stale: true}
	case "btrfs":
		return Profile{Journal: true, Selective: true, Names: true, Exchanged: true, Compressed: strings.Contains(mount, "compress")}
	}
	return Profile{Journal: true, Names: true}
}
