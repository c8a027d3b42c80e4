package blocklog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Suffix is added to the name of a log that is compressed.
const Suffix = ".zst"

// A compressed log is a series of zstd frames, each of which holds the next
// frameContent bytes of the log and can be read by itself, and then a table of them in
// a skippable frame: the "Zstandard Seekable Format" of the zstd project
// (contrib/seekable_format), without check sums in the table, for the frames have
// their own. `zstd -d` makes the log of it again. All integers are little endian.
const (
	// Long frames: what is written again and again, such as a file's pages, is in each
	// of them once.
	frameContent = 4 << 20

	zstdMagic    = 0xFD2FB528
	tableMagic   = 0x184D2A5E // of a skippable frame
	footerMagic  = 0x8F92EAB1
	tableHeader  = 8 // magic u32, length u32
	tableEntry   = 8 // compressed length u32, length of the content u32
	tableFooter  = 9 // number of frames u32, descriptor u8, magic u32
	maxFrame     = 16 << 20
	cachedFrames = 4
)

// Sizes are those of a log before and after Compress, in bytes.
type Sizes struct {
	Plain, Compressed int64
}

// Exists tells whether there is a log at path, in either of its forms.
func Exists(path string) bool {
	_, err := os.Stat(path)
	if err != nil {
		_, err = os.Stat(path + Suffix)
	}
	return err == nil
}

// Compress replaces the log at path, which nobody writes to any more, by a compressed
// one at path + Suffix. Who has the log open goes on reading the old one.
func Compress(path string) (s Sizes, err error) {
	in, err := os.Open(path)
	if err != nil {
		return s, fmt.Errorf("compress block log: %w", err)
	}
	defer in.Close()
	unfinished := path + Suffix + ".tmp"
	out, err := os.Create(unfinished)
	if err != nil {
		return s, fmt.Errorf("compress block log: %w", err)
	}
	s, err = compress(out, in)
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(unfinished, path+Suffix)
	}
	if err != nil {
		os.Remove(unfinished)
		return s, fmt.Errorf("compress block log: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return s, fmt.Errorf("remove the log that was compressed: %w", err)
	}
	return s, nil
}

// compress writes the seekable form of what it reads.
func compress(out io.Writer, in io.Reader) (s Sizes, err error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return s, err
	}
	defer enc.Close()
	var table, packed []byte
	content := make([]byte, frameContent)
	for {
		n, err := io.ReadFull(in, content)
		if err == io.EOF {
			break
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return s, err
		}
		packed = enc.EncodeAll(content[:n], packed[:0])
		if _, err := out.Write(packed); err != nil {
			return s, err
		}
		table = binary.LittleEndian.AppendUint32(table, uint32(len(packed)))
		table = binary.LittleEndian.AppendUint32(table, uint32(n))
		s.Plain += int64(n)
		s.Compressed += int64(len(packed))
	}
	frame := tableFrame(table)
	s.Compressed += int64(len(frame))
	_, err = out.Write(frame)
	return s, err
}

// Unpack makes payloads of a compressed log cheap to read in any order: their bytes are
// kept uncompressed from now on, in a file without a name in the folder dir.
func (l *Log) Unpack(dir string) error {
	if _, packed := l.data.(*seekable); !packed {
		return nil
	}
	f, err := os.CreateTemp(dir, "block.log")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err == nil {
		_, err = io.Copy(f, io.NewSectionReader(l.data, 0, l.bytes))
	}
	if err != nil {
		return fmt.Errorf("unpack block log: %w", err)
	}
	old := l.close
	l.data, l.close = f, f
	if old != nil {
		return old.Close()
	}
	return nil
}

// tableFrame is the last frame of a seekable file.
func tableFrame(table []byte) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, tableMagic)
	out = le.AppendUint32(out, uint32(len(table)+tableFooter))
	out = append(out, table...)
	out = le.AppendUint32(out, uint32(len(table)/tableEntry))
	out = append(out, 0)
	return le.AppendUint32(out, footerMagic)
}

// seekable reads the content of a seekable zstd file from any place. Its methods are
// safe for concurrent use.
type seekable struct {
	file   io.ReaderAt
	size   int64   // of the content
	frames []frame // ascending
	// broken says why the file has not all that the log had; nil: it has.
	broken error
	// rest is the content of a last frame that is not there to its end, as far as it is.
	rest []byte

	mu      sync.Mutex
	decoder *zstd.Decoder // guarded by mu
	packed  []byte        // guarded by mu
	cache   []unpacked    // guarded by mu: the frame that was used last comes first
}

// frame says where a frame and its content lie.
type frame struct {
	at, from       int64 // in the file, and in the content
	packed, length int   // packed is 0 for the rest
}

// unpacked is the content of a frame.
type unpacked struct {
	index int
	bytes []byte
}

// newSeekable returns nil where the file, of that many bytes, does not begin as a zstd
// file does.
func newSeekable(file io.ReaderAt, bytes int64) (*seekable, error) {
	var magic [4]byte
	if _, err := file.ReadAt(magic[:], 0); err != nil || binary.LittleEndian.Uint32(magic[:]) != zstdMagic {
		return nil, nil
	}
	s := &seekable{file: file}
	var err error
	s.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		return nil, err
	}
	if s.broken = s.readTable(bytes); s.broken != nil {
		s.walk(bytes)
	}
	return s, nil
}

// walk finds the frames without their table, up to the first that is not whole: what
// that one holds until it breaks off becomes the rest.
func (s *seekable) walk(bytes int64) {
	s.frames, s.size = nil, 0
	at := int64(0)
	for {
		f, err := s.measure(at, bytes)
		if err != nil {
			break
		}
		f.from = s.size
		s.frames = append(s.frames, f)
		at, s.size = at+int64(f.packed), s.size+int64(f.length)
	}
	in := io.NewSectionReader(s.file, at, bytes-at)
	d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		return
	}
	defer d.Close()
	s.rest, _ = io.ReadAll(io.LimitReader(d, maxFrame)) // it ends with an error, as was to be expected
	if len(s.rest) > 0 {
		s.frames = append(s.frames, frame{from: s.size, length: len(s.rest)})
		s.size += int64(len(s.rest))
	}
}

// measure finds where the frame at a place of the file ends, as RFC 8878, section 3.1.1
// has it: a header, blocks with a header of three bytes each, and a check sum.
func (s *seekable) measure(at, bytes int64) (frame, error) {
	var b [zstd.HeaderMaxSize]byte
	n, err := s.file.ReadAt(b[:], at)
	if err != nil && err != io.EOF {
		return frame{}, err
	}
	var h zstd.Header
	if err := h.Decode(b[:n]); err != nil {
		return frame{}, err
	}
	if h.Skippable || !h.HasFCS || h.FrameContentSize == 0 || h.FrameContentSize > maxFrame {
		return frame{}, errors.New("no frame of a log")
	}
	end := at + int64(h.HeaderSize)
	for last := false; !last; {
		if _, err := s.file.ReadAt(b[:3], end); err != nil {
			return frame{}, err
		}
		block := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		size := int64(block >> 3)
		if block>>1&3 == 1 { // one byte, many times
			size = 1
		}
		last = block&1 != 0
		end += 3 + size
	}
	if h.HasCheckSum {
		end += 4
	}
	if end > bytes {
		return frame{}, io.ErrUnexpectedEOF
	}
	return frame{at: at, packed: int(end - at), length: int(h.FrameContentSize)}, nil
}

// readTable finds the frames.
func (s *seekable) readTable(bytes int64) error {
	le := binary.LittleEndian
	var footer [tableFooter]byte
	if _, err := s.file.ReadAt(footer[:], max(0, bytes-tableFooter)); err != nil && err != io.EOF {
		return err
	}
	if le.Uint32(footer[5:]) != footerMagic || footer[4] != 0 {
		return errors.New("the file does not end with a table of its frames, so its end is missing")
	}
	length := int64(le.Uint32(footer[:])) * tableEntry
	begin := bytes - tableFooter - length - tableHeader
	if begin < 0 {
		return fmt.Errorf("the table is said to have %d entries, more than the file has room for", length/tableEntry)
	}
	table := make([]byte, tableHeader+length)
	if _, err := s.file.ReadAt(table, begin); err != nil {
		return err
	}
	if le.Uint32(table) != tableMagic || int64(le.Uint32(table[4:])) != length+tableFooter {
		return errors.New("the table of frames has no beginning")
	}
	var at int64
	for e := table[tableHeader:]; len(e) > 0; e = e[tableEntry:] {
		f := frame{at: at, from: s.size, packed: int(le.Uint32(e)), length: int(le.Uint32(e[4:]))}
		if f.packed == 0 || f.length == 0 || f.length > maxFrame || int64(f.packed) > begin-at {
			return fmt.Errorf("frame %d of %d bytes, with %d of content, is none", len(s.frames), f.packed, f.length)
		}
		s.frames = append(s.frames, f)
		at, s.size = at+int64(f.packed), s.size+int64(f.length)
	}
	if at != begin {
		return fmt.Errorf("the frames end at byte %d, and their table begins at %d", at, begin)
	}
	return nil
}

// ReadAt implements io.ReaderAt, on the content.
func (s *seekable) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for done < len(p) && off < s.size {
		i := sort.Search(len(s.frames), func(i int) bool { return s.frames[i].from > off }) - 1
		if i < 0 {
			return done, fmt.Errorf("read at %d: offset is negative", off)
		}
		content, err := s.unpack(i)
		if err != nil {
			return done, fmt.Errorf("read frame %d: %w", i, err)
		}
		n := copy(p[done:], content[off-s.frames[i].from:])
		done, off = done+n, off+int64(n)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// unpack returns the content of a frame, from the cache where it is there. The caller
// holds mu.
func (s *seekable) unpack(i int) ([]byte, error) {
	if at := slices.IndexFunc(s.cache, func(u unpacked) bool { return u.index == i }); at >= 0 {
		u := s.cache[at]
		copy(s.cache[1:at+1], s.cache[:at])
		s.cache[0] = u
		return u.bytes, nil
	}
	f := s.frames[i]
	if f.packed == 0 {
		return s.rest, nil
	}
	s.packed = slices.Grow(s.packed[:0], f.packed)[:f.packed]
	if _, err := s.file.ReadAt(s.packed, f.at); err != nil {
		return nil, err
	}
	var room []byte
	if len(s.cache) == cachedFrames {
		room = s.cache[cachedFrames-1].bytes[:0]
		s.cache = s.cache[:cachedFrames-1]
	}
	content, err := s.decoder.DecodeAll(s.packed, room)
	if err != nil {
		return nil, fmt.Errorf("unpack: %v", err) // not wrapped: a frame that ends early is no log that does
	}
	if len(content) != f.length {
		return nil, fmt.Errorf("its content has %d bytes, not %d", len(content), f.length)
	}
	s.cache = slices.Insert(s.cache, 0, unpacked{i, content})
	return content, nil
}
