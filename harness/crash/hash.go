package crash

import (
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/cespare/xxhash/v2"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
)

// Hasher says which states of a log have the same content, and the same on some
// sectors. A hash is a sum over sectors, so that it costs what a state changes; a
// sector that holds what the base image does adds nothing, whoever wrote it. It is
// for one goroutine at a time.
//
// Sectors are named by their place among those that the log ever changes, from 0.
type Hasher struct {
	base io.ReaderAt
	log  *blocklog.Log
	line *timeline
	err  error // the first failure to read

	runs     []run               // of changed sectors, ascending
	contents map[uint64][]uint64 // hashes of the sectors of a write, by request

	first   []uint64 // by sector: the hash of the base image's; 0: not read yet
	durable []uint64 // by sector: the hash of what is settled; 0: that of the base
	sum     uint64   // over all sectors, of what is settled
	changed []int32  // the sectors that the present state sets beyond that
	mark    []uint64 // by sector: the hash in the present state; 0: that of durable

	selections []*Selection
}

// Selection is some sectors of which the present state's hash is asked for often: that
// costs what the state sets beyond what is settled, however many sectors they are.
type Selection struct {
	in  []uint64 // a bit for each sector
	sum uint64   // over them, of what is settled
}

func (s *Selection) has(i int) bool { return s.in[i/64]>>(i%64)&1 != 0 }

// Row is sectors that follow one another, by their places among those that the log
// changes: From up to To.
type Row struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

// run is a row of sectors of the drive that the log changes.
type run struct {
	from, to int64 // on the drive
	first    int   // the place of from among all changed sectors
}

// maxHashed bounds the sectors that a log may change, for the memory that a Hasher
// needs for each: 8 GiB.
const maxHashed = 8 << 30 / disk.SectorSize

// zeroHash is the hash of a sector of zeros.
var zeroHash = hashSector(make([]byte, disk.SectorSize))

// NewHasher returns a hasher for the states of a log up to a cut, on a drive with
// that content at first.
func NewHasher(base io.ReaderAt, log *blocklog.Log, cut int) (*Hasher, error) {
	h := &Hasher{base: base, log: log, contents: map[uint64][]uint64{}}
	for i := range log.Events[:cut] {
		if e := &log.Events[i]; e.Kind == blocklog.Arrive && e.Op != blocklog.Read && e.Op != blocklog.Flush && e.Length > 0 {
			h.runs = append(h.runs, run{from: e.Offset / disk.SectorSize, to: (e.Offset + e.Length) / disk.SectorSize})
		}
	}
	n := h.merge()
	if n > maxHashed {
		return nil, fmt.Errorf("compare crash states: the log changes %d sectors, at most %d are possible", n, maxHashed)
	}
	h.first, h.durable, h.mark = make([]uint64, n), make([]uint64, n), make([]uint64, n)
	h.begin()
	return h, nil
}

// merge joins rows that touch, numbers them and returns the number of sectors.
func (h *Hasher) merge() int {
	slices.SortFunc(h.runs, func(a, b run) int { return int(a.from - b.from) })
	var out []run
	for _, r := range h.runs {
		if n := len(out); n > 0 && r.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, r.to)
			continue
		}
		out = append(out, r)
	}
	n := 0
	for i := range out {
		out[i].first = n
		n += int(out[i].to - out[i].from)
	}
	h.runs = out
	return n
}

func (h *Hasher) begin() {
	clear(h.durable)
	h.sum = 0
	for _, s := range h.selections {
		s.sum = 0
	}
	h.line = newTimeline(h.log.Events, func(e *blocklog.Event) {
		h.each(e, Loss{}, func(i int, content uint64) {
			more := h.worth(i, content) - h.worth(i, h.durable[i])
			h.durable[i] = content
			h.sum += more
			for _, s := range h.selections {
				if s.has(i) {
					s.sum += more
				}
			}
		})
	})
}

// Select makes a selection of sectors.
func (h *Hasher) Select(sectors []Row) *Selection {
	s := &Selection{in: make([]uint64, (len(h.durable)+63)/64)}
	for _, r := range sectors {
		for i := r.From; i < r.To; i++ {
			s.in[i/64] |= 1 << (i % 64)
			s.sum += h.worth(int(i), h.durable[i])
		}
	}
	h.selections = append(h.selections, s)
	return s
}

// Selected returns HashOf a selection's sectors, in the state that Hash was asked for
// last.
func (h *Hasher) Selected(s *Selection) uint64 {
	sum := s.sum
	for _, i := range h.changed {
		if s.has(int(i)) {
			sum += h.worth(int(i), h.mark[i]) - h.worth(int(i), h.durable[i])
		}
	}
	return sum
}

// Hash returns the hash of a state's content. Two states whose hashes differ differ
// in content.
func (h *Hasher) Hash(s State) (uint64, error) {
	if s.Cut < h.line.at {
		h.begin()
	}
	if err := h.line.to(s.Cut); err != nil {
		return 0, err
	}
	for _, i := range h.changed {
		h.mark[i] = 0
	}
	h.changed = h.changed[:0]
	sum := h.sum
	err := h.line.walk(s, func(c *change, m Loss) {
		h.each(c.arrive, m, func(i int, content uint64) {
			if h.mark[i] == 0 {
				h.changed = append(h.changed, int32(i))
			}
			sum += h.worth(i, content) - h.worth(i, h.here(i))
			h.mark[i] = content
		})
	})
	if err == nil {
		err = h.err
	}
	if err != nil {
		return 0, fmt.Errorf("compare crash states: %w", err)
	}
	return sum, nil
}

// HashOf returns the hash of some sectors' content, in the state of a snapshot; where
// that is nil, in the state that Hash was asked for last.
func (h *Hasher) HashOf(snapshot []uint64, sectors []Row) uint64 {
	sum := uint64(0)
	for _, r := range sectors {
		for i := int(r.From); i < int(r.To); i++ {
			content := uint64(0)
			if snapshot != nil {
				content = snapshot[i]
			} else {
				content = h.here(i)
			}
			sum += h.worth(i, content)
		}
	}
	return sum
}

// Snapshot keeps the state that Hash was asked for last, for HashOf.
func (h *Hasher) Snapshot() []uint64 {
	out := slices.Clone(h.durable)
	for _, i := range h.changed {
		out[i] = h.mark[i]
	}
	return out
}

// Changed returns which of length bytes at offset are sectors that the log changes,
// ascending.
func (h *Hasher) Changed(offset, length int64) (sectors []Row) {
	from, to := offset/disk.SectorSize, (offset+length+disk.SectorSize-1)/disk.SectorSize
	for i := h.runAt(from); i < len(h.runs) && h.runs[i].from < to; i++ {
		r := h.runs[i]
		place := func(sector int64) int32 { return int32(r.first + int(sector-r.from)) }
		sectors = append(sectors, Row{From: place(max(from, r.from)), To: place(min(to, r.to))})
	}
	return sectors
}

// runAt returns the first row that ends behind a sector.
func (h *Hasher) runAt(sector int64) int {
	return sort.Search(len(h.runs), func(i int) bool { return h.runs[i].to > sector })
}

// here is the hash of a sector in the present state; 0: it is as in the base image.
func (h *Hasher) here(i int) uint64 {
	if m := h.mark[i]; m != 0 {
		return m
	}
	return h.durable[i]
}

// worth is what a sector adds to a hash when it has that content.
func (h *Hasher) worth(i int, content uint64) uint64 {
	if content == 0 || content == h.original(i) {
		return 0
	}
	return mix(content ^ mix(uint64(i)+0x9E3779B97F4A7C15))
}

// mix is the finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// hashSector is the hash of a sector's bytes, never 0.
func hashSector(b []byte) uint64 { return max(1, xxhash.Sum64(b)) }

// original is the hash of a sector in the base image.
func (h *Hasher) original(i int) uint64 {
	if h.first[i] == 0 {
		n := sort.Search(len(h.runs), func(n int) bool { return h.runs[n].first > i }) - 1
		var b [disk.SectorSize]byte
		at := (h.runs[n].from + int64(i-h.runs[n].first)) * disk.SectorSize
		if _, err := h.base.ReadAt(b[:], at); err != nil && h.err == nil {
			h.err = fmt.Errorf("read base image at %d: %w", at, err)
		}
		h.first[i] = hashSector(b[:])
	}
	return h.first[i]
}

// each calls do for every sector that a change brings onto the media, with the hash
// of its content.
func (h *Hasher) each(e *blocklog.Event, m Loss, do func(i int, content uint64)) {
	if e.Length == 0 {
		return
	}
	sector := e.Offset / disk.SectorSize
	r := h.runs[h.runAt(sector)]
	first := r.first + int(sector-r.from)
	contents := h.content(e)
	m.kept(e, func(from, to int64) {
		for s := from; s < to; s++ {
			at := s * disk.SectorSize
			switch {
			case contents == nil:
				do(first+int(s), zeroHash)
			case e.Spoil.Kind == blocklog.Torn && at >= e.Spoil.From && at < e.Spoil.To:
			default:
				do(first+int(s), contents[s])
			}
		}
	})
}

// content returns the hashes of a write's sectors; nil of what writes zeros.
func (h *Hasher) content(e *blocklog.Event) []uint64 {
	if e.Op != blocklog.Write {
		return nil
	}
	if c, ok := h.contents[e.Request]; ok {
		return c
	}
	payload, err := h.log.Payload(*e)
	if err != nil {
		payload = make([]byte, e.Length)
		if h.err == nil {
			h.err = err
		}
	}
	c := make([]uint64, 0, sectorsOf(e))
	for b := payload; len(b) > 0; b = b[disk.SectorSize:] {
		c = append(c, hashSector(b[:disk.SectorSize]))
	}
	h.contents[e.Request] = c
	return c
}
