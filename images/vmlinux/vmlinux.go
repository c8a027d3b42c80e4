// Package vmlinux gets the ELF kernel out of an x86 bzImage and answers
// questions about it.
//
// A virtual machine that is interpreted spends seconds on decompressing a
// bzImage; the ELF file inside it can be booted directly, through the PVH entry
// point. The sources of the rules are Documentation/arch/x86/boot.rst (setup
// header, payload), include/xen/interface/elfnote.h (the PVH note) and
// kernel/configs.c (an embedded configuration) of the Linux kernel.
package vmlinux

import (
	"bytes"
	"compress/bzip2"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz/lzma"

	"powercut/images/regular"
)

const (
	// MaxImage bounds the size of a bzImage, in bytes.
	MaxImage = 256 << 20
	// MaxKernel bounds the size of the ELF file inside, in bytes.
	MaxKernel = 1 << 30
	// maxDict bounds what a decompressor may allocate ahead, in bytes. The
	// build's zstd uses 128 MiB, its xz 32 MiB.
	maxDict = 256 << 20
)

// Offsets in the setup header of a bzImage (boot.rst, "The Real-Mode Kernel
// Header"). All numbers are little endian.
const (
	offSetupSects    = 0x1f1 // u8: sectors of real-mode code after the first
	offBootFlag      = 0x1fe // u16: 0xaa55
	offHeader        = 0x202 // "HdrS"
	offVersion       = 0x206 // u16: protocol version
	offKernelVersion = 0x20e // u16: place of the version string, less 0x200
	offPayloadOffset = 0x248 // u32: from the beginning of the protected-mode code
	offPayloadLength = 0x24c // u32
	headerEnd        = 0x250

	sectorSize       = 512
	payloadProtocol  = 0x0208 // first protocol version with a payload field
	defaultSetupSect = 4      // what 0 setup sectors mean
	sizeWord         = 4      // size of the word at the payload's end
)

// ErrNotKernel says that a file is neither a bzImage nor an ELF kernel.
var ErrNotKernel = errors.New("neither a bzImage nor an ELF vmlinux of x86-64")

// IsELF reports whether a file that begins with head is an ELF file.
func IsELF(head []byte) bool { return bytes.HasPrefix(head, []byte(elf.ELFMAG)) }

// ReadImage reads a bzImage, at most MaxImage bytes of it.
func ReadImage(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	image, err := io.ReadAll(io.LimitReader(f, MaxImage+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(image) > MaxImage {
		return nil, fmt.Errorf("read %s: over %d bytes: %w", path, MaxImage, ErrNotKernel)
	}
	return image, nil
}

// Extract returns the ELF kernel inside a bzImage. Junk gives an error that
// wraps ErrNotKernel.
func Extract(image []byte) ([]byte, error) {
	payload, err := payloadOf(image)
	if err != nil {
		return nil, fmt.Errorf("read bzImage: %w", err)
	}
	kernel, err := decompress(payload)
	if err != nil {
		return nil, fmt.Errorf("decompress kernel: %w", err)
	}
	if err := checkELF(bytes.NewReader(kernel)); err != nil {
		return nil, fmt.Errorf("check kernel inside bzImage: %w", err)
	}
	return kernel, nil
}

// payloadOf returns the compressed kernel, with the size word that the build
// appends to it.
func payloadOf(image []byte) ([]byte, error) {
	if len(image) < headerEnd ||
		binary.LittleEndian.Uint16(image[offBootFlag:]) != 0xaa55 ||
		string(image[offHeader:offHeader+4]) != "HdrS" {
		return nil, ErrNotKernel
	}
	if v := binary.LittleEndian.Uint16(image[offVersion:]); v < payloadProtocol {
		return nil, fmt.Errorf("boot protocol %d.%02d is older than 2.08, so that it does not say where its kernel lies: %w", v>>8, v&0xff, ErrNotKernel)
	}
	sects := int64(image[offSetupSects])
	if sects == 0 {
		sects = defaultSetupSect
	}
	start := (sects+1)*sectorSize + int64(binary.LittleEndian.Uint32(image[offPayloadOffset:]))
	end := start + int64(binary.LittleEndian.Uint32(image[offPayloadLength:]))
	if end > int64(len(image)) {
		return nil, fmt.Errorf("payload ends at byte %d of %d: the file is cut short: %w", end, len(image), ErrNotKernel)
	}
	if end-start < 8 {
		return nil, fmt.Errorf("payload has %d bytes: %w", end-start, ErrNotKernel)
	}
	return image[start:end], nil
}

// compressor is one way in which a payload may be compressed.
type compressor struct {
	name  string
	magic string
	// open reads a payload whose content has size bytes; nil: not supported.
	open func(payload []byte, size int64) (io.Reader, error)
}

func compressors() []compressor {
	return []compressor{
		{"gzip", "\x1f\x8b", func(p []byte, _ int64) (io.Reader, error) {
			r, err := gzip.NewReader(bytes.NewReader(p))
			if err == nil {
				r.Multistream(false) // a size word may follow
			}
			return r, err
		}},
		{"xz", xzMagic, func(p []byte, size int64) (io.Reader, error) {
			data, err := decodeXZ(p, size)
			return bytes.NewReader(data), err
		}},
		{"zstd", "\x28\xb5\x2f\xfd", func(p []byte, _ int64) (io.Reader, error) {
			return zstd.NewReader(bytes.NewReader(p[:len(p)-sizeWord]), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxDict))
		}},
		{"lzma", "\x5d\x00\x00", func(p []byte, _ int64) (io.Reader, error) {
			if len(p) < 5 || binary.LittleEndian.Uint32(p[1:]) > maxDict {
				return nil, fmt.Errorf("dictionary is over %d bytes", maxDict)
			}
			return lzma.NewReader(bytes.NewReader(p[:len(p)-sizeWord]))
		}},
		{"bzip2", "BZh", func(p []byte, _ int64) (io.Reader, error) {
			return bzip2.NewReader(bytes.NewReader(p[:len(p)-sizeWord])), nil
		}},
		{"lzo", "\x89LZO", nil},
		{"lz4", "\x02\x21\x4c\x18", nil},
	}
}

func decompress(payload []byte) ([]byte, error) {
	if IsELF(payload) { // CONFIG_KERNEL_UNCOMPRESSED
		return payload, nil
	}
	for _, c := range compressors() {
		if !bytes.HasPrefix(payload, []byte(c.magic)) {
			continue
		}
		if c.open == nil {
			return nil, fmt.Errorf("its compression, %s, is not supported: give the ELF vmlinux of the build instead", c.name)
		}
		kernel, err := c.read(payload)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", c.name, err, ErrNotKernel)
		}
		return kernel, nil
	}
	return nil, fmt.Errorf("payload begins with % x, which is no known compression: %w", payload[:4], ErrNotKernel)
}

// read decompresses a payload. Its last word is the size of its content: the
// build appends it (scripts/Makefile.lib, size_append), and a gzip file ends
// with it anyway. So nothing is decompressed past it.
func (c compressor) read(payload []byte) ([]byte, error) {
	size := int64(binary.LittleEndian.Uint32(payload[len(payload)-sizeWord:]))
	if size > MaxKernel {
		return nil, fmt.Errorf("kernel has %d bytes, over %d", size, MaxKernel)
	}
	r, err := c.open(payload, size)
	if err != nil {
		return nil, err
	}
	if d, ok := r.(*zstd.Decoder); ok {
		defer d.Close()
	}
	kernel, err := io.ReadAll(io.LimitReader(r, size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(kernel)) != size {
		return nil, fmt.Errorf("kernel has other than the %d bytes that its image names", size)
	}
	return kernel, nil
}

// ImageRelease returns the release in a bzImage's header ("6.1.0-57-amd64"),
// or "" if it has none.
func ImageRelease(image []byte) string {
	if len(image) < headerEnd {
		return ""
	}
	at := int(binary.LittleEndian.Uint16(image[offKernelVersion:]))
	if at == 0 || at+sectorSize >= len(image) {
		return ""
	}
	text := image[at+sectorSize : min(at+sectorSize+256, len(image))]
	if end := bytes.IndexAny(text, " \x00"); end >= 0 {
		text = text[:end]
	}
	return string(text)
}
