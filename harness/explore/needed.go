package explore

import (
	"errors"
	"fmt"
	"io"
	"slices"

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

// ahead finds the sectors of the journal that were read and not looked at.
func (j journal) ahead(read map[int64]int, looked []uint32) (map[int64]bool, error) {
	seen := map[int64]bool{}
	mark := func(block int64, must bool) error {
		at := j.at(block)
		if at < 0 {
			return fmt.Errorf("the guest looked at block %d of its journal, which has no such block", block)
		}
		for s := at / disk.SectorSize; s < (at+j.block)/disk.SectorSize; s++ {
			if seen[s] = true; must && read[s] == 0 {
				return fmt.Errorf("the guest looked at block %d of its journal, and never read it", block)
			}
		}
		return nil
	}
	if len(j.extents) == 0 {
		return nil, nil
	}
	err := mark(0, false) // its superblock is no block of the log
	for _, b := range looked {
		err = errors.Join(err, mark(int64(b), true))
	}
	if err != nil {
		return nil, err
	}
	out := map[int64]bool{}
	for s := range read {
		if !seen[s] && slices.ContainsFunc(j.extents, func(e workload.Extent) bool {
			return e.Offset <= s*disk.SectorSize && s*disk.SectorSize < e.End()
		}) {
			out[s] = true
		}
	}
	return out, nil
}

// plain is a block of the file whose bytes an outcome only passes on.
type plain struct {
	block   int64   // of the file
	length  int64   // bytes
	places  []int64 // its sectors on the drive
	sectors []int32 // those of them that the log changes
	held    uint64  // hash of these in the state that was checked
}

// read returns the block's bytes in a state.
func (p *plain) read(media io.ReaderAt) ([]byte, error) {
	b := make([]byte, len(p.places)*disk.SectorSize)
	for i := 0; i < len(p.places); {
		n := 1
		for i+n < len(p.places) && p.places[i+n] == p.places[i]+int64(n) {
			n++
		}
		if _, err := media.ReadAt(b[i*disk.SectorSize:][:n*disk.SectorSize], p.places[i]*disk.SectorSize); err != nil && err != io.EOF {
			return nil, fmt.Errorf("read crash state: %w", err)
		}
		i += n
	}
	return b[:p.length], nil
}

// checksums are the file systems that may have checksums of a file's bytes.
var checksums = []string{"btrfs", "bcachefs", "zfs"}

// unneeded returns the sectors that were read and that the outcome does not depend on,
// and takes note of the plain blocks.
func (c *checker) unneeded(o *outcome, w *wire.Watched, read map[int64]int, media io.ReaderAt) (map[int64]bool, error) {
	if w == nil || o.recovery.Class != verdict.Recovered {
		return nil, nil
	}
	skip := map[int64]bool{}
	if o.blind = w.Blind; o.blind == "" {
		ahead, err := c.journal.ahead(read, w.Looked)
		if err != nil {
			o.blind = err.Error()
		} else if ahead != nil {
			skip = ahead
		}
	}
	if slices.Contains(checksums, c.subject.Mount.Type) {
		return skip, nil
	}
	for block, digest := range o.digests {
		p, ok := c.plain(int64(block), o.size, w.Extents, read)
		if !ok {
			continue
		}
		b, err := p.read(media)
		if err != nil {
			return nil, err
		}
		if workload.Digest(b) != digest {
			continue
		}
		c.contents.know(int64(block), digest, o.size, b)
		o.plain = append(o.plain, p)
		for _, s := range p.places {
			skip[s] = true
		}
	}
	return skip, nil
}

// plain returns a block of the file, and whether the log changes it and the drive was asked
// for each of its sectors once.
func (c *checker) plain(block, size int64, extents []wire.Extent, read map[int64]int) (p plain, ok bool) {
	p = plain{block: block, length: length(block, size)}
	for at := block * blockSize; at < block*blockSize+p.length; at += disk.SectorSize {
		place := placeOf(at, extents)
		if place < 0 || place%disk.SectorSize != 0 || read[place/disk.SectorSize] != 1 {
			return p, false
		}
		p.places = append(p.places, place/disk.SectorSize)
		p.sectors = append(p.sectors, c.changed(place, disk.SectorSize)...)
	}
	return p, len(p.sectors) > 0
}

// placeOf is the place of a byte of the file on the drive, or -1.
func placeOf(at int64, extents []wire.Extent) int64 {
	for _, e := range extents {
		if e.Logical <= at && at < e.Logical+e.Length {
			return e.Physical + at - e.Logical
		}
	}
	return -1
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
	fitted := &outcome{
		recovery: o.recovery, exists: o.exists, size: o.size, rounding: o.rounding, digests: slices.Clone(o.digests),
	}
	for _, p := range other {
		b, err := p.read(image.Media)
		if err != nil {
			return nil, err
		}
		d := workload.Digest(b)
		e.contents.know(p.block, d, o.size, b)
		fitted.digests[p.block] = d
	}
	fitted.finish()
	if o.others == nil {
		o.others = map[uint64]*outcome{}
	}
	o.others[key] = fitted
	return fitted, nil
}
