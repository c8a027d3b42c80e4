package trace

import (
	"encoding/binary"
	"fmt"

	"powercut/guest/workload"
)

// journal returns the extents of the journal's inode, in the order of its
// blocks. It takes them from the copy that mke2fs keeps in the superblock, or
// else from the inode itself.
func (s *super) journal() ([]workload.Extent, error) {
	root, size := s.raw[0x10C:][:mapBytes], int64(s.u32(0x148))<<32|int64(s.u32(0x14C))
	if s.raw[0xFD] != journalBackup {
		inode, err := s.inode(int64(s.journalInode))
		if err != nil {
			return nil, err
		}
		root = inode[40:][:mapBytes]
		size = int64(binary.LittleEndian.Uint32(inode[4:])) | int64(binary.LittleEndian.Uint32(inode[108:]))<<32
	}
	f := fileMap{s: s, left: size / s.blockSize}
	if f.left < 1 || f.left > s.blocks {
		return nil, fmt.Errorf("journal of %d blocks on a file system of %d", f.left, s.blocks)
	}
	walk := f.blockMap
	if binary.LittleEndian.Uint16(root) == extentMagic {
		walk = f.extentRoot
	}
	if err := walk(root); err != nil {
		return nil, err
	}
	if f.left > 0 {
		return nil, fmt.Errorf("journal map ends %d blocks early", f.left)
	}
	return f.extents, nil
}

// inode reads inode n (from 1) from the inode table of its group.
func (s *super) inode(n int64) ([]byte, error) {
	group, index := (n-1)/s.inodes, (n-1)%s.inodes
	if s.incompat&metaBG != 0 || group >= s.groups() {
		return nil, fmt.Errorf("inode %d: its table cannot be found", n)
	}
	desc := make([]byte, s.descriptor)
	if _, err := s.base.ReadAt(desc, (s.firstBlock+1)*s.blockSize+group*s.descriptor); err != nil {
		return nil, fmt.Errorf("read group %d: %w", group, err)
	}
	inode := make([]byte, s.inodeSize)
	if _, err := s.base.ReadAt(inode, s.pointer(desc, 8)*s.blockSize+index*s.inodeSize); err != nil {
		return nil, fmt.Errorf("read inode %d: %w", n, err)
	}
	return inode, nil
}

// fileMap collects the blocks of an inode.
type fileMap struct {
	s       *super
	left    int64 // blocks still to be found
	extents []workload.Extent
}

// add appends blocks, to the last extent where they continue it.
func (f *fileMap) add(block, count int64) error {
	count = min(count, f.left)
	if block <= 0 || count < 1 || block+count > f.s.blocks {
		return fmt.Errorf("blocks %d+%d of the journal are not among %d", block, count, f.s.blocks)
	}
	f.left -= count
	e := workload.Extent{Offset: block * f.s.blockSize, Length: count * f.s.blockSize}
	if n := len(f.extents); n > 0 && f.extents[n-1].End() == e.Offset {
		f.extents[n-1].Length += e.Length
		return nil
	}
	f.extents = append(f.extents, e)
	return nil
}

// blockMap walks through the direct and indirect pointers of ext2 and ext3.
func (f *fileMap) blockMap(root []byte) error {
	if err := f.pointers(root[:directBlocks*4], 0); err != nil {
		return err
	}
	for depth := 1; depth <= 3 && f.left > 0; depth++ {
		at := (directBlocks + depth - 1) * 4
		if err := f.pointers(root[at:at+4], depth); err != nil {
			return err
		}
	}
	return nil
}

// pointers follows block numbers that have depth levels of indirect blocks below.
func (f *fileMap) pointers(list []byte, depth int) error {
	for ; len(list) >= 4 && f.left > 0; list = list[4:] {
		n := int64(binary.LittleEndian.Uint32(list))
		if depth == 0 {
			if err := f.add(n, 1); err != nil {
				return err
			}
			continue
		}
		block, err := f.s.block(n)
		if err != nil {
			return err
		}
		if err := f.pointers(block, depth-1); err != nil {
			return err
		}
	}
	return nil
}

func (f *fileMap) extentRoot(root []byte) error { return f.extentNode(root, extentDepth) }

// extentNode walks through one node of an extent tree of ext4: a header of 12
// bytes, then entries of 12.
func (f *fileMap) extentNode(node []byte, depth int) error {
	entries, level := int(binary.LittleEndian.Uint16(node[2:])), int(binary.LittleEndian.Uint16(node[6:]))
	switch {
	case binary.LittleEndian.Uint16(node) != extentMagic:
		return fmt.Errorf("extent tree: node without its magic")
	case level > depth || 12+entries*12 > len(node):
		return fmt.Errorf("extent tree: node of level %d with %d entries", level, entries)
	}
	for i := 0; i < entries && f.left > 0; i++ {
		entry := node[12+12*i:][:12]
		if err := f.extentEntry(entry, level); err != nil {
			return err
		}
	}
	return nil
}

func (f *fileMap) extentEntry(entry []byte, level int) error {
	if level == 0 {
		start := int64(binary.LittleEndian.Uint32(entry[8:])) | int64(binary.LittleEndian.Uint16(entry[6:]))<<32
		return f.add(start, int64(binary.LittleEndian.Uint16(entry[4:])))
	}
	leaf := int64(binary.LittleEndian.Uint32(entry[4:])) | int64(binary.LittleEndian.Uint16(entry[8:]))<<32
	block, err := f.s.block(leaf)
	if err != nil {
		return err
	}
	return f.extentNode(block, level-1)
}
