package trace

import (
	"encoding/binary"
	"testing"
)

// TestTagSize has the sizes of journal_block_tag_t by the journal's features.
func TestTagSize(t *testing.T) {
	for features, want := range map[uint32]int{
		0:                            8,
		feature64bit:                 12,
		featureCsumV2:                10,
		featureCsumV2 | feature64bit: 14,
		featureCsumV3:                16,
		featureCsumV3 | feature64bit: 16,
	} {
		if got := tagSize(features); got != want {
			t.Errorf("features %#x: %d bytes, want %d", features, got, want)
		}
	}
}

// TestTags counts the tags of descriptors in each form, with and without UUIDs.
func TestTags(t *testing.T) {
	const escaped = 1
	for _, size := range []int{8, 10, 12, 14, 16} {
		for _, n := range []int{1, 2, 30} {
			block := journalBlock(blockDescriptor)
			at := headerBytes
			for i := range n {
				flags := uint32(escaped)
				if i%2 == 1 {
					flags |= tagSameUUID
				}
				if i == n-1 {
					flags |= tagLast
				}
				if size == 16 {
					binary.BigEndian.PutUint32(block[at+4:], flags)
				} else {
					binary.BigEndian.PutUint32(block[at+4:], 0xFFFF0000|flags) // behind a checksum
				}
				binary.BigEndian.PutUint32(block[at:], uint32(i+1))
				at += size
				if i%2 == 0 {
					at += uuidBytes
				}
			}
			if got := tags(block, size); len(got) != n || got[n-1] != uint32(n) {
				t.Errorf("tags of %d bytes: %d, want %d", size, got, n)
			}
		}
	}
	if got := len(tags(make([]byte, 1024), 8)); got != (1024-headerBytes)/(8+uuidBytes) {
		t.Errorf("a block without a last tag: %d", got)
	}
}
