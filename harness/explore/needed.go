package explore

import (
	"fmt"
	"io"
	"slices"
	"sort"

	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/verdict"
)

// A guest's outcome depends on what it looks at. A drive sees what is read, which is
// more, in two ways, and states that differ in nothing else need not be checked twice:
//
// A jbd2 journal is read ahead, far behind its last transaction. The guest's kernel is
// watched, and says which blocks it looked at (package guest/jbd2).
//
// The bytes of a file are read, and decide nothing: the guest sends the digest of
// whatever is there. A block of the file is plain where the drive was asked for each of
// its sectors once, so that nothing but the reading of the file can have seen them, where the file
// system says that they lie there as they are, and where they really have that digest.
// A file system with checksums of data has no plain blocks.

// journal is where a jbd2 journal lies on the drive.
type journal struct {
	extents []workload.Extent // in the order of its blocks
	block   int64             // bytes
	first   int64             // the first that is one of the log: those before it are superblocks
}

// at is the place of a block of the journal, or -1.
func (j journal) at(block int64) int64 {
	offset := block * j.block
	for _, e := range j.extents {
		if offset < e.Length {
			return e.Offset + offset
		}
		offset -= e.Length
	}
	return -1
}

// blocks is the number of its blocks.
func (j journal) blocks() (n int64) {
	for _, e := range j.extents {
		n += e.Length / j.block
	}
	return n
}

// ahead forgets the sectors of the journal that were read and not looked at. Where it fails
// none is forgotten.
func (j journal) ahead(read tally, looked []uint32) error {
	if len(j.extents) == 0 {
		return nil
	}
	sectors := func(block int64) (from, to int64) {
		at := j.at(block)
		return at / disk.SectorSize, (at + j.block) / disk.SectorSize
	}
	seen := make([]bool, j.blocks())
	for b := range min(j.first, int64(len(seen))) {
		seen[b] = true
	}
	for _, b := range looked {
		if int64(b) >= int64(len(seen)) {
			return fmt.Errorf("the guest looked at block %d of its journal, which has no such block", b)
		}
		if from, to := sectors(int64(b)); !read.all(from, to, false) {
			return fmt.Errorf("the guest looked at block %d of its journal, and never read it", b)
		}
		seen[b] = true
	}
	for b, looked := range seen {
		if !looked {
			read.forget(sectors(int64(b)))
		}
	}
	return nil
}

// plain is some blocks of the file that follow one another, and whose bytes an outcome only
// passes on.
type plain struct {
	block   int64             // of the file: the first
	length  int64             // bytes
	places  []workload.Extent // on the drive, in the order of the file; whole sectors
	sectors []crash.Row       // those of them that the log changes
	held    uint64            // hash of these in the state that was checked
}

// maxPlain is how many blocks one plain has at most: all of them are read where one of them
// is another in another state.
const maxPlain = 64

// end is the block behind the last.
func (p *plain) end() int64 { return p.block + blocks(p.length) }

// join adds what follows, if it does and there is room.
func (p *plain) join(next plain) bool {
	if p.end() != next.block || next.end()-p.block > maxPlain {
		return false
	}
	p.length += next.length
	for _, e := range next.places {
		p.places = addExtent(p.places, e)
	}
	return true
}

// addExtent adds an extent, which is part of the last where it follows that.
func addExtent(list []workload.Extent, e workload.Extent) []workload.Extent {
	if n := len(list); n > 0 && list[n-1].End() == e.Offset {
		list[n-1].Length += e.Length
		return list
	}
	return append(list, e)
}

// read returns the blocks' bytes in a state.
func (p *plain) read(media io.ReaderAt) ([]byte, error) {
	var b []byte
	for _, e := range p.places {
		part := len(b)
		b = slices.Grow(b, int(e.Length))[:part+int(e.Length)]
		if _, err := media.ReadAt(b[part:], e.Offset); err != nil && err != io.EOF {
			return nil, fmt.Errorf("read crash state: %w", err)
		}
	}
	return b[:p.length], nil
}

// each calls do for each block, with its bytes in a state.
func (p *plain) each(media io.ReaderAt, do func(block int64, b []byte)) error {
	b, err := p.read(media)
	if err != nil {
		return err
	}
	for block := p.block; len(b) > 0; block++ {
		n := min(blockSize, len(b))
		do(block, b[:n])
		b = b[n:]
	}
	return nil
}

// checksums are the file systems that may have checksums of a file's bytes.
var checksums = []string{"btrfs", "bcachefs", "zfs"}

// forget takes for unread what was read and what the outcome does not depend on, and takes
// note of the plain blocks. The guest told the digests of all blocks.
func (c *checker) forget(o *outcome, digests []uint64, w *wire.Watched, read tally, media io.ReaderAt) error {
	if w == nil || o.recovery.Class != verdict.Recovered {
		return nil
	}
	if !slices.Contains(checksums, c.subject.Mount.Type) {
		var err error
		if o.plain, err = c.plains(digests, c.size(o), w.Extents, read, media); err != nil {
			return err
		}
	}
	if o.blind = w.Blind; o.blind == "" {
		if err := c.journal.ahead(read, w.Looked); err != nil {
			o.blind = err.Error()
		}
	}
	for i := range o.plain {
		for _, e := range o.plain[i].places {
			read.forget(e.Offset/disk.SectorSize, e.End()/disk.SectorSize)
		}
	}
	return nil
}

// plains finds the plain blocks of a file of that size.
func (c *checker) plains(digests []uint64, size int64, extents []wire.Extent, read tally, media io.ReaderAt) (out []plain, err error) {
	var likely []plain
	for block := range int64(len(digests)) {
		if places := placesOf(block, size, extents); once(read, places) {
			likely = joined(likely, plain{block: block, length: length(block, size), places: places})
		}
	}
	for _, p := range likely {
		if len(sectorsOf(p.places, c.changed)) == 0 {
			continue
		}
		err := p.each(media, func(block int64, b []byte) {
			if workload.Digest(b) == digests[block] {
				c.contents.know(block, digests[block], size, b)
				out = joined(out, plain{block: block, length: int64(len(b)), places: placesOf(block, size, extents)})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range out {
		out[i].sectors = sectorsOf(out[i].places, c.changed)
	}
	return out, nil
}

func joined(list []plain, p plain) []plain {
	if n := len(list); n > 0 && list[n-1].join(p) {
		return list
	}
	return append(list, p)
}

// sectorsOf are those in some places that the log changes.
func sectorsOf(places []workload.Extent, changed func(offset, length int64) []crash.Row) (rows []crash.Row) {
	for _, e := range places {
		rows = append(rows, changed(e.Offset, e.Length)...)
	}
	return rows
}

// once tells whether each sector in some places was read once, and whether there are any.
func once(read tally, places []workload.Extent) bool {
	for _, e := range places {
		if !read.all(e.Offset/disk.SectorSize, e.End()/disk.SectorSize, true) {
			return false
		}
	}
	return len(places) > 0
}

// placesOf are the sectors of a block of the file on the drive; none where not all of it lies
// there, or not in whole sectors.
func placesOf(block, size int64, extents []wire.Extent) (places []workload.Extent) {
	from, end := block*blockSize, block*blockSize+length(block, size)
	i := sort.Search(len(extents), func(i int) bool { return extents[i].Logical+extents[i].Length > from })
	for ; from < end; i++ {
		if i == len(extents) || extents[i].Logical > from {
			return nil
		}
		e := extents[i]
		at, n := e.Physical+from-e.Logical, min(end, e.Logical+e.Length)-from
		if at%disk.SectorSize != 0 || n%disk.SectorSize != 0 && from+n < end {
			return nil
		}
		whole := (n + disk.SectorSize - 1) / disk.SectorSize * disk.SectorSize
		places = addExtent(places, workload.Extent{Offset: at, Length: whole})
		from += n
	}
	return places
}

// fit returns what the outcome of a checked state is for one that agrees with it on all
// that was needed, and that the hasher was asked for last: other bytes in plain blocks.
func (e *exploration) fit(s crash.State, o *outcome) (*outcome, error) {
	var other []*plain
	key := uint64(0)
	for i := range o.plain {
		p := &o.plain[i]
		now := e.hasher.HashOf(nil, p.sectors)
		if key += now; now != p.held {
			other = append(other, p)
		}
	}
	if len(other) == 0 {
		return o, nil
	}
	if known := o.others[key]; known != nil {
		return known, nil
	}
	image, err := e.builder.Build(s)
	if err != nil {
		return nil, err
	}
	fitted := &outcome{recovery: o.recovery, exists: o.exists, size: o.size, rounding: o.rounding, file: file{size: o.file.size}}
	at := int64(0)
	for _, p := range other {
		fitted.file.addFrom(o.file, at, p.block)
		err := p.each(image.Media, func(block int64, b []byte) {
			fitted.file.add(e.contents.know(block, workload.Digest(b), o.file.size, b))
		})
		if err != nil {
			return nil, err
		}
		at = p.end()
	}
	fitted.file.addFrom(o.file, at, blocks(o.file.size))
	fitted.finish()
	if o.others == nil {
		o.others = map[uint64]*outcome{}
	}
	o.others[key] = fitted
	return fitted, nil
}
