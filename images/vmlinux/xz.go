package vmlinux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// The kernel's build compresses with the x86 branch filter in front of LZMA2
// (scripts/xz_wrap.sh), which the xz library refuses. So the container of that
// one form is read here: one stream, one block, and the LZMA2 decoder of the
// library below it. Source: "The .xz File Format", version 1.2.1, sections 2
// and 3. The check value at the block's end is compared, so a mistake here
// cannot pass as a kernel.

const (
	xzMagic       = "\xfd7zXZ\x00"
	xzHeaderSize  = 12
	filterX86     = 0x04
	filterLZMA2   = 0x21
	xzFlagSizes   = 0xc0 // block flags: compressed size, uncompressed size present
	xzFlagFilters = 0x03 // block flags: number of filters less one
)

var errXZ = errors.New("xz data is damaged")

// block is a parsed xz block header.
type block struct {
	x86  bool // the x86 filter comes after LZMA2
	dict int64
	rest []byte // what follows the header
}

// decodeXZ returns the content of the first block of an xz stream. What follows
// the block's check is not looked at.
func decodeXZ(data []byte, limit int64) ([]byte, error) {
	if len(data) < xzHeaderSize || !bytes.HasPrefix(data, []byte(xzMagic)) ||
		crc32.ChecksumIEEE(data[6:8]) != binary.LittleEndian.Uint32(data[8:]) {
		return nil, fmt.Errorf("stream header: %w", errXZ)
	}
	check := data[7] & 0x0f
	b, err := parseBlock(data[xzHeaderSize:])
	if err != nil {
		return nil, fmt.Errorf("block header: %w", err)
	}
	src := bytes.NewReader(b.rest)
	// The dictionary is allocated at once, so a small file must not name a
	// dictionary larger than anything it could hold.
	r, err := lzma.Reader2Config{DictCap: int(max(min(b.dict, limit), lzma.MinDictCap))}.NewReader2(src)
	if err != nil {
		return nil, fmt.Errorf("open lzma2: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read lzma2: %w", err)
	}
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("content is over %d bytes", limit)
	}
	if b.x86 {
		decodeX86(out)
	}
	used := len(b.rest) - src.Len()
	return out, verify(check, out, b.rest[used+(4-used%4)%4:])
}

// parseBlock reads a block header: size in words less one, flags, two optional
// sizes, filters, padding, CRC32.
func parseBlock(data []byte) (block, error) {
	if len(data) < 8 || data[0] == 0 {
		return block{}, errXZ
	}
	size := (int(data[0]) + 1) * 4
	if size > len(data) || crc32.ChecksumIEEE(data[:size-4]) != binary.LittleEndian.Uint32(data[size-4:]) {
		return block{}, errXZ
	}
	b := block{rest: data[size:]}
	flags, fields := data[1], data[2:size-4]
	for bit := byte(0x40); bit&xzFlagSizes != 0; bit <<= 1 {
		if flags&bit == 0 {
			continue
		}
		_, n := binary.Uvarint(fields)
		if n <= 0 {
			return block{}, errXZ
		}
		fields = fields[n:]
	}
	return b, b.parseFilters(fields, int(flags&xzFlagFilters)+1)
}

// parseFilters accepts LZMA2 alone, or x86 and LZMA2.
func (b *block) parseFilters(fields []byte, count int) error {
	for i := range count {
		if len(fields) < 2 || len(fields) < 2+int(fields[1]) {
			return errXZ
		}
		id, props := fields[0], fields[2:2+int(fields[1])]
		fields = fields[2+len(props):]
		switch last := i == count-1; {
		case id == filterX86 && !last && !b.x86 && len(props) == 0:
			b.x86 = true
		case id == filterLZMA2 && last && len(props) == 1:
			dict, err := lzma.DecodeDictCap(props[0])
			if err != nil {
				return fmt.Errorf("dictionary: %w", err)
			}
			if dict > maxDict {
				return fmt.Errorf("dictionary has %d bytes, over %d", dict, maxDict)
			}
			b.dict = dict
		default:
			return fmt.Errorf("filter %#x is not supported", id)
		}
	}
	return nil
}

// verify compares the check value at the block's end.
func verify(check byte, content, stored []byte) error {
	var sum []byte
	switch check {
	case 0x00:
		return nil
	case 0x01:
		sum = binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(content))
	case 0x04:
		sum = binary.LittleEndian.AppendUint64(nil, crc64.Checksum(content, crc64.MakeTable(crc64.ECMA)))
	default:
		return fmt.Errorf("check type %d is not supported", check)
	}
	if !bytes.HasPrefix(stored, sum) {
		return fmt.Errorf("check value differs: %w", errXZ)
	}
	return nil
}
