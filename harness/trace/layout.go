package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"powercut/guest/workload"
)

// The on-disk format of ext2, ext3 and ext4, little endian, as
// Documentation/filesystems/ext4 of the kernel has it.
const (
	superOffset = 1024
	superBytes  = 1024
	superMagic  = 0xEF53
	extentMagic = 0xF30A
	extentDepth = 5 // of a tree, at most

	hasJournal    = 0x4 // compatible feature
	metaBG        = 0x10
	journalDevice = 0x8  // incompatible feature journal_dev: nothing but a journal
	wide          = 0x80 // incompatible feature 64bit

	journalBackup = 1       // s_jnl_backup_type: s_jnl_blocks is filled
	maxGroups     = 1 << 20 // 128 TiB in blocks of 4096
	directBlocks  = 12      // pointers of a block map before the first indirect one
	mapBytes      = 60      // of i_block
)

// layout is what is known of the file system on the drive. Its zero value, but
// for the sizes, is that of an unknown file system.
type layout struct {
	blockSize    int64             // 0 where unknown
	journal      []workload.Extent // in the order of the journal's blocks
	logFrom      int64             // the first block of it that is one of the log
	journalBlock int64
	tagBytes     int
	areas        []area // ascending, disjoint
}

// area is a range of the drive that the file system keeps for a table of its own.
type area struct {
	workload.Extent
	name string
}

// readLayout learns the layout from a formatted image. An image that holds no
// file system of the ext family is no error, and neither is none at all. journalAt is
// where the disk of an external journal begins; 0: there is none.
func readLayout(base io.ReaderAt, journalAt int64) (*layout, error) {
	lay := &layout{journalBlock: 4096, tagBytes: tagSize(0), logFrom: 1}
	if base == nil {
		return lay, nil
	}
	s := super{base: base}
	if ok, err := s.load(); err != nil || !ok {
		return lay, err
	}
	lay.blockSize, lay.journalBlock = s.blockSize, s.blockSize
	var err error
	if lay.areas, err = s.areas(); err != nil {
		return nil, fmt.Errorf("read group descriptors: %w", err)
	}
	if s.compat&hasJournal == 0 || s.journalInode == 0 && journalAt == 0 {
		return lay, nil
	}
	if journalAt > 0 {
		return lay, lay.external(base, journalAt)
	}
	if lay.journal, err = s.journal(); err != nil {
		return nil, fmt.Errorf("read journal inode: %w", err)
	}
	return lay, lay.readJournalSuper(base, lay.journal[0].Offset)
}

// external learns of a journal on a disk of its own, whose blocks are those of the disk
// (jbd2_journal_bmap of fs/jbd2/journal.c). It begins with a superblock of the ext family,
// behind which comes the journal's (ext2fs_journal_sb_start of lib/ext2fs/mkjournal.c).
func (l *layout) external(base io.ReaderAt, at int64) error {
	s := super{base: io.NewSectionReader(base, at, math.MaxInt64-at)}
	if ok, err := s.read(); err != nil || !ok || s.incompat&journalDevice == 0 || !validBlock(s.blockSize) {
		return errors.Join(fmt.Errorf("the disk at %d is not one of an external journal", at), err)
	}
	head := int64(1)
	if s.blockSize == 1024 {
		head = 2
	}
	l.journal = []workload.Extent{{Offset: at, Length: s.blocks * s.blockSize}}
	l.logFrom = head + 1
	return l.readJournalSuper(base, at+head*s.blockSize)
}

// readJournalSuper takes the form of the journal's tags from its superblock.
func (l *layout) readJournalSuper(base io.ReaderAt, at int64) error {
	block := make([]byte, superIncompat+4)
	if _, err := base.ReadAt(block, at); err != nil {
		return fmt.Errorf("read journal superblock: %w", err)
	}
	var j journalReader
	kind, ok := j.header(block)
	if !ok || kind != blockSuperV1 && kind != blockSuperV2 {
		return fmt.Errorf("read journal superblock: none at offset %d", at)
	}
	j.tagBytes = l.tagBytes
	j.super(kind, block)
	l.tagBytes = j.tagBytes
	return nil
}

func (l *layout) inJournal(offset, length int64) bool { return overlaps(l.journal, offset, length) }

// fixed tells whether the byte at offset belongs to a table of the file system.
func (l *layout) fixed(offset int64) bool {
	i := l.areaFrom(offset)
	return i < len(l.areas) && l.areas[i].Offset <= offset
}

// areaFrom is the index of the first area that ends after offset.
func (l *layout) areaFrom(offset int64) int {
	i, _ := slices.BinarySearchFunc(l.areas, offset, func(a area, at int64) int {
		if a.End() <= at {
			return -1
		}
		return 1
	})
	return i
}

// areasOf names the tables that a range touches, each once: "inode table".
func (l *layout) areasOf(offset, length int64) string {
	var names []string
	for i := l.areaFrom(offset); i < len(l.areas) && l.areas[i].Offset < offset+length; i++ {
		if !slices.Contains(names, l.areas[i].name) {
			names = append(names, l.areas[i].name)
		}
	}
	return strings.Join(names, ", ")
}

func overlaps(extents []workload.Extent, offset, length int64) bool {
	for _, e := range extents {
		if offset < e.End() && e.Offset < offset+length {
			return true
		}
	}
	return false
}

// validBlock tells whether a file system of the ext family may have such blocks.
func validBlock(size int64) bool {
	return size >= 1024 && size <= 65536 && size&(size-1) == 0
}

// super is the superblock of the image, with what is needed of it.
type super struct {
	base         io.ReaderAt
	raw          [superBytes]byte
	blockSize    int64
	blocks       int64 // of the file system
	firstBlock   int64 // s_first_data_block: 1 where blocks have 1024 bytes
	perGroup     int64
	inodes       int64 // a group
	inodeSize    int64
	descriptor   int64 // bytes
	compat       uint32
	incompat     uint32
	journalInode uint32
}

func (s *super) u16(at int) int64  { return int64(binary.LittleEndian.Uint16(s.raw[at:])) }
func (s *super) u32(at int) uint32 { return binary.LittleEndian.Uint32(s.raw[at:]) }

// load reads the superblock of a file system. It returns false where there is none.
func (s *super) load() (bool, error) {
	ok, err := s.read()
	if ok && err == nil {
		err = s.check()
	}
	return ok, err
}

func (s *super) read() (bool, error) {
	if _, err := s.base.ReadAt(s.raw[:], superOffset); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read superblock: %w", err)
	}
	if s.u16(0x38) != superMagic {
		return false, nil
	}
	s.blockSize = 1024 << min(s.u32(0x18), 16)
	s.blocks, s.firstBlock = int64(s.u32(0x04)), int64(s.u32(0x14))
	s.perGroup, s.inodes = int64(s.u32(0x20)), int64(s.u32(0x28))
	s.compat, s.incompat, s.journalInode = s.u32(0x5C), s.u32(0x60), s.u32(0xE0)
	s.inodeSize, s.descriptor = 128, 32
	if s.u32(0x4C) > 0 { // a revision with dynamic inode sizes
		s.inodeSize = s.u16(0x58)
	}
	if s.incompat&wide != 0 {
		s.descriptor = s.u16(0xFE)
		s.blocks |= int64(s.u32(0x150)) << 32
	}
	return true, nil
}

func (s *super) check() error {
	switch {
	case !validBlock(s.blockSize):
		return fmt.Errorf("superblock: block size %d is not a power of two from 1024 to 65536", s.blockSize)
	case s.perGroup < 1 || s.inodes < 1 || s.inodeSize < 128 || s.descriptor < 32:
		return fmt.Errorf("superblock: %d blocks and %d inodes of %d bytes a group, descriptors of %d bytes: impossible",
			s.perGroup, s.inodes, s.inodeSize, s.descriptor)
	case s.groups() > maxGroups:
		return fmt.Errorf("superblock: %d groups: the limit is %d", s.groups(), maxGroups)
	}
	return nil
}

func (s *super) groups() int64 {
	return (s.blocks - s.firstBlock + s.perGroup - 1) / s.perGroup
}

// block reads one block. The pointer comes from the image, and is checked.
func (s *super) block(n int64) ([]byte, error) {
	if n <= 0 || n >= s.blocks {
		return nil, fmt.Errorf("block %d is not one of %d", n, s.blocks)
	}
	buf := make([]byte, s.blockSize)
	if _, err := s.base.ReadAt(buf, n*s.blockSize); err != nil {
		return nil, fmt.Errorf("read block %d: %w", n, err)
	}
	return buf, nil
}

// areas lists the first superblock and the tables that the group descriptors
// name. With meta_bg the descriptors lie elsewhere, and only the superblock is
// known; copies of the superblock are left out, for they are rarely written.
func (s *super) areas() ([]area, error) {
	first := area{workload.Extent{Offset: 0, Length: superOffset + superBytes}, "superblock"}
	if s.incompat&metaBG != 0 {
		return []area{first}, nil
	}
	table := (s.firstBlock + 1) * s.blockSize
	raw := make([]byte, s.groups()*s.descriptor)
	if _, err := s.base.ReadAt(raw, table); err != nil {
		return nil, err
	}
	list := []area{first, {workload.Extent{Offset: table, Length: s.align(int64(len(raw)))}, "group descriptors"}}
	for ; len(raw) > 0; raw = raw[s.descriptor:] {
		list = append(list,
			s.area("block bitmap", s.pointer(raw, 0), 1),
			s.area("inode bitmap", s.pointer(raw, 4), 1),
			s.area("inode table", s.pointer(raw, 8), s.align(s.inodes*s.inodeSize)/s.blockSize))
	}
	slices.SortFunc(list, func(a, b area) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	return list, nil
}

func (s *super) align(n int64) int64 { return (n + s.blockSize - 1) &^ (s.blockSize - 1) }

func (s *super) area(name string, block, count int64) area {
	return area{workload.Extent{Offset: block * s.blockSize, Length: count * s.blockSize}, name}
}

// pointer is the block number in a group descriptor whose lower half is at at.
func (s *super) pointer(desc []byte, at int) int64 {
	n := int64(binary.LittleEndian.Uint32(desc[at:]))
	if s.descriptor >= 64 {
		n |= int64(binary.LittleEndian.Uint32(desc[at+0x20:])) << 32
	}
	return n
}
