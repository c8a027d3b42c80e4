package trace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"powercut/guest/workload"
)

// The on-disk format of jbd2, big endian (include/linux/jbd2.h): each block of
// the log other than a copy of a file-system block begins with magic, type and
// sequence. A copy that happens to begin with the magic is stored without it, so
// that the magic is never ambiguous inside of a journal.
const (
	journalMagic = 0xC03B3998

	blockDescriptor = 1
	blockCommit     = 2
	blockSuperV1    = 3
	blockSuperV2    = 4
	blockRevoke     = 5

	headerBytes = 12

	feature64bit   = 0x2
	featureCsumV2  = 0x8
	featureCsumV3  = 0x10
	tagSameUUID    = 2
	tagLast        = 8
	uuidBytes      = 16
	superBlockSize = 0x0C // offset of s_blocksize
	superIncompat  = 0x28 // offset of s_feature_incompat, superblock v2 only
)

// tagSize is the length of a descriptor's tag without its UUID, as
// journal_tag_bytes of fs/jbd2/journal.c has it.
func tagSize(incompat uint32) int {
	if incompat&featureCsumV3 != 0 {
		return 16
	}
	size := 8
	if incompat&featureCsumV2 != 0 {
		size += 2
	}
	if incompat&feature64bit != 0 {
		size += 4
	}
	return size
}

// journalReader tells journal writes from others, and names their blocks.
type journalReader struct {
	lay       *layout
	blockSize int64 // of the journal
	tagBytes  int
	// due is where the copies that the descriptors of the running transaction
	// announced are expected. It is used only where the journal's place is
	// unknown, and emptied by a commit block.
	due []workload.Extent
	// open is the transaction of the last descriptor, until its commit; 0: none.
	open uint32
	// named are the blocks of the file system of which the descriptors since the last call
	// of read announced copies.
	named []uint32
}

// maxDue bounds due: a transaction of more descriptors loses the oldest.
const maxDue = 64

// read returns the blocks of a journal write in words, the transaction of the first of
// them, and whether it is one.
func (j *journalReader) read(offset int64, payload []byte) (text string, transaction uint32, ok bool) {
	placed := len(j.lay.journal) > 0
	if placed && !j.lay.inJournal(offset, int64(len(payload))) {
		return "", 0, false
	}
	seen := placed || j.announced(offset, int64(len(payload)))
	var words blockWords
	// Where the block size is unknown the first block settles it at the latest.
	for at := int64(0); at < int64(len(payload)); at += j.blockSize {
		if placed && !j.lay.inJournal(offset+at, j.blockSize) {
			continue // a neighbour that the guest merged into the request
		}
		block := payload[at:min(at+j.blockSize, int64(len(payload)))]
		kind, ok := j.header(block)
		if !ok {
			words.copies++
			transaction = cmp.Or(transaction, j.open)
			continue
		}
		seen = true
		words.flush()
		words.add(blockName(kind))
		j.follow(kind, offset+at, block)
		if kind <= blockCommit || kind == blockRevoke {
			transaction = cmp.Or(transaction, binary.BigEndian.Uint32(block[8:]))
		}
	}
	words.flush()
	if !seen {
		return "", 0, false
	}
	return words.String(), transaction, true
}

func (j *journalReader) header(block []byte) (uint32, bool) {
	if len(block) < headerBytes || binary.BigEndian.Uint32(block) != journalMagic {
		return 0, false
	}
	kind := binary.BigEndian.Uint32(block[4:])
	return kind, kind >= blockDescriptor && kind <= blockRevoke
}

// follow takes note of what a block says of the blocks after it.
func (j *journalReader) follow(kind uint32, offset int64, block []byte) {
	switch kind {
	case blockDescriptor:
		j.open = binary.BigEndian.Uint32(block[8:])
		blocks := tags(block, j.tagBytes)
		j.named = append(j.named, blocks...)
		n := int64(len(blocks))
		if len(j.due) == maxDue {
			j.due = j.due[1:]
		}
		j.due = append(j.due, workload.Extent{Offset: offset + j.blockSize, Length: n * j.blockSize})
	case blockCommit:
		j.due, j.open = j.due[:0], 0
	case blockSuperV1, blockSuperV2:
		j.super(kind, block)
	}
}

// super takes the block size and the form of the tags from a journal superblock.
func (j *journalReader) super(kind uint32, block []byte) {
	if len(block) < superIncompat+4 {
		return
	}
	if size := int64(binary.BigEndian.Uint32(block[superBlockSize:])); validBlock(size) {
		j.blockSize = size
	}
	if kind == blockSuperV2 {
		j.tagBytes = tagSize(binary.BigEndian.Uint32(block[superIncompat:]))
	}
}

func (j *journalReader) announced(offset, length int64) bool {
	return overlaps(j.due, offset, length)
}

// tags are the blocks that the tags of a descriptor block name, without the upper half of
// their numbers: one for each copy that follows.
func tags(block []byte, size int) (blocks []uint32) {
	for at := headerBytes; at+size <= len(block); at += size {
		blocks = append(blocks, binary.BigEndian.Uint32(block[at:]))
		flags := binary.BigEndian.Uint32(block[at+4:])
		if size != 16 {
			flags &= 0xFFFF // the upper half is a checksum
		}
		if flags&tagLast != 0 {
			break
		}
		if flags&tagSameUUID == 0 {
			at += uuidBytes
		}
	}
	return blocks
}

func blockName(kind uint32) string {
	switch kind {
	case blockDescriptor:
		return "descriptor"
	case blockCommit:
		return "commit"
	case blockRevoke:
		return "revoke"
	}
	return "journal superblock"
}

// blockWords strings the blocks of a write together: "descriptor+3, commit".
type blockWords struct {
	words  []string
	copies int
}

func (w *blockWords) add(word string) { w.words = append(w.words, word) }

// flush adds the copies counted so far, to the descriptor where one stands last.
func (w *blockWords) flush() {
	if w.copies == 0 {
		return
	}
	if n := len(w.words); n > 0 && w.words[n-1] == "descriptor" {
		w.words[n-1] = fmt.Sprintf("descriptor+%d", w.copies)
	} else {
		w.add(fmt.Sprintf("%d in log", w.copies))
	}
	w.copies = 0
}

func (w *blockWords) String() string { return strings.Join(w.words, ", ") }
