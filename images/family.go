package images

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// family is what the mkfs programs of a family of file systems have in common.
type family struct {
	types   []string
	pkg     string // Debian's package of mkfs
	least   int64  // size of the smallest disk, in bytes
	valued  string // options with a value
	plain   string // options without
	fixed   []string
	spell   func([]mkfsOption) []string
	config  func() (string, error) // names what decides mkfs's defaults beside its version; nil: nothing does
	magicAt int64                  // where the superblock's magic is, in bytes
	magic   string
	check   func(Format, io.ReaderAt) error // of a disk that was made; nil: the magic says enough
}

// families lists what MakeFS can make. Options are those of mke2fs(8), mkfs.xfs(8),
// mkfs.btrfs(8), mkfs.f2fs(8), jfs_mkfs(8) and mkfs.nilfs2(8) but for what would make no
// file system, make it elsewhere, or read another file. The least sizes are those of their
// mkfs: of XFS 6.1, btrfs 6.2, f2fs 1.15, JFS 1.1.15 and NILFS2 2.2.9.
var families = []family{
	{
		types: []string{"ext2", "ext3", "ext4"}, pkg: "e2fsprogs", least: MinDisk,
		valued: "bCeEgGiIJLmMNoOrTU", plain: "DFjqSv",
		fixed: []string{"-q", "-F", "-U", diskUUID, "-L", diskLabel}, spell: spellExt,
		config:  mke2fsConfig,
		magicAt: 1024 + 0x38, magic: "\x53\xef", // EXT2_SUPER_MAGIC
		check: checkJournal,
	},
	{
		types: []string{"xfs"}, pkg: "xfsprogs", least: 300 << 20,
		valued: "bdilLmnrs", plain: "fKq",
		fixed: []string{"-q", "-f", "-K", "-m", "uuid=" + diskUUID, "-L", diskLabel}, spell: spell,
		magic: "XFSB", // XFS_SB_MAGIC
	},
	{
		types: []string{"btrfs"}, pkg: "btrfs-progs", least: 114294784,
		valued: "dLmnORsU", plain: "fKMq",
		fixed: []string{"-q", "-f", "-K", "-U", diskUUID, "-L", diskLabel}, spell: spell,
		magicAt: 0x10040, magic: "_BHRfS_M", // BTRFS_MAGIC
	},
	{
		types: []string{"f2fs"}, pkg: "f2fs-tools", least: 52 << 20,
		valued: "adeElUoOCRsTwz", plain: "fgimqrS",
		// -r and -T: nothing is drawn, and no clock is read. -t 0: no discard.
		fixed: []string{"-q", "-f", "-t", "0", "-r", "-T", diskTime, "-U", diskUUID, "-l", diskLabel}, spell: spell,
		magicAt: 1024, magic: "\x10\x20\xf5\xf2", // F2FS_SUPER_MAGIC
	},
	{
		types: []string{"jfs"}, pkg: "jfsutils", least: 16 << 20,
		valued: "Ls", plain: "Oq",
		fixed: []string{"-q", "-L", diskLabel}, spell: spell,
		magicAt: 0x8000, magic: "JFS1", // JFS_MAGIC
	},
	{
		types: []string{"nilfs2"}, pkg: "nilfs-tools", least: 129 << 20,
		valued: "bBLmO", plain: "fKqv",
		fixed: []string{"-q", "-f", "-K", "-L", diskLabel}, spell: spell,
		magicAt: 1024 + 6, magic: "\x34\x34", // NILFS_SUPER_MAGIC
	},
}

// Formats lists the types that MakeFS takes.
func Formats() (types []string) {
	for _, f := range families {
		types = append(types, f.types...)
	}
	return types
}

// Module is the kernel's module for a type of file system: the driver of ext4 serves
// the older ones too.
func Module(fstype string) string {
	if strings.HasPrefix(fstype, "ext") {
		return "ext4"
	}
	return fstype
}

// LeastDisk is the size of the smallest disk for a type of file system, in bytes; 0 where
// there is no such type.
func LeastDisk(fstype string) int64 {
	f, _ := familyOf(fstype)
	return f.least
}

func familyOf(fstype string) (family, error) {
	for _, f := range families {
		if slices.Contains(f.types, fstype) {
			return f, nil
		}
	}
	return family{}, fmt.Errorf("unknown file system %q: it may be one of %s", fstype, strings.Join(Formats(), ", "))
}

// checkJournal finds a journal that mkfs found no room for, in the features of the
// superblock (s_feature_compat).
func checkJournal(f Format, disk io.ReaderAt) error {
	const (
		features = 1024 + 0x5c
		journal  = 0x4 // EXT3_FEATURE_COMPAT_HAS_JOURNAL
	)
	var b [1]byte
	if _, err := disk.ReadAt(b[:], features); err != nil {
		return err
	}
	if b[0]&journal == 0 && f.wantsJournal() {
		return fmt.Errorf("mkfs made no journal: %d bytes are too few for one", f.Size)
	}
	if f.Journal > 0 {
		return checkExternal(disk)
	}
	return nil
}
