package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"powercut/harness/blocklog"
)

// carry says that a write held one sector of the file in the version that op
// wrote, and so the bytes of every op up to it that lie in that sector.
type carry struct {
	sector  int32 // of the file
	op      int32
	request int32 // index
	at      int64 // place on the drive, in bytes
	spoilt  bool  // a fault kept the drive from storing it
}

// classifier walks through the requests in order of arrival.
type classifier struct {
	in       Input
	lay      *layout
	contents *contents
	journal  journalReader
	// home is the file sector that a sector of the drive was last seen to hold.
	home map[int64]int32
	// copied is the journal write that holds the newest copy of a block of the drive, by the
	// block's place: its number.
	copied  map[int64]uint64
	carries []carry
	payload []byte
	heads   []int32 // per sector of the payload: the newest version of its content, or 0
	found   []int32 // and the version that it was taken for
}

// classify fills Class, Detail and Ops. Of the classifier carries are what each write carried,
// in order of arrival.
func classify(reqs []Request, in Input, lay *layout) (*classifier, error) {
	c := &classifier{
		in: in, lay: lay, contents: newContents(in.Plan),
		journal: journalReader{lay: lay, blockSize: lay.journalBlock, tagBytes: lay.tagBytes},
		home:    map[int64]int32{}, copied: map[int64]uint64{},
	}
	for i := range reqs {
		r := &reqs[i]
		e := in.Events[r.Arrive]
		switch r.Op {
		case blocklog.Read:
			r.Class = Reading
		case blocklog.Flush:
			r.Class = Flush
		case blocklog.Trim:
			r.Class = Discard
		case blocklog.Zeroes:
			c.zeroes(r)
		case blocklog.Write:
			c.contents.advance(e.Started + in.lag())
			if err := c.write(r, i, e); err != nil {
				return nil, fmt.Errorf("request %d: %w", r.Number, err)
			}
		default:
			return nil, fmt.Errorf("request %d: unknown op %d", r.Number, r.Op)
		}
	}
	return c, nil
}

func (c *classifier) zeroes(r *Request) {
	r.Class, r.Detail = Metadata, "zeroes"
	if c.lay.inJournal(r.Offset, r.Length) {
		r.Class = Journal
	}
}

func (c *classifier) write(r *Request, index int, e blocklog.Event) error {
	if r.Length < 0 || r.Length > MaxPayload {
		return fmt.Errorf("write of %d bytes: the limit is %d", r.Length, MaxPayload)
	}
	c.payload = slices.Grow(c.payload[:0], int(r.Length))[:r.Length]
	if n, err := c.in.Payload.ReadAt(c.payload, e.DataAt); n < len(c.payload) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read payload at %d: %w", e.DataAt, err)
	}
	r.Spoil.Flip(c.payload) // back to what was sent
	blocks, transaction, inJournal := c.journal.read(r.Offset, c.payload)
	for _, block := range c.journal.named {
		c.copied[int64(block)*c.journal.blockSize] = r.Number
	}
	c.journal.named = c.journal.named[:0]
	first := len(c.carries)
	c.identify(r.Offset, index, !inJournal)
	c.spoil(first, r)
	r.Ops = opsOf(c.carries[first:])
	switch {
	case inJournal:
		r.Class, r.Detail, r.Transaction = Journal, blocks, transaction
		if len(r.Ops) > 0 {
			r.Detail += "; " + opsText(r.Ops)
		}
	case len(r.Ops) > 0:
		r.Class, r.Detail = Data, opsText(r.Ops)
	default:
		r.Class, r.Detail = Metadata, c.lay.areasOf(r.Offset, r.Length)
	}
	return nil
}

// spoil marks the carries, from one on, of what a fault kept from being stored.
func (c *classifier) spoil(first int, r *Request) {
	for i := range c.carries[first:] {
		v := &c.carries[first+i]
		at := v.at - r.Offset
		v.spoilt = at < r.Spoil.To && r.Spoil.From < at+sector
	}
}

// identify finds the sectors of the file in the payload. A sector that lies
// where the file system keeps its own tables is none of them. Of several
// versions of the same content it takes the one that is at home there, else the
// one that continues its neighbour, else the newest.
func (c *classifier) identify(offset int64, index int, inPlace bool) {
	skip := int(-offset & (sector - 1)) // to the first whole sector
	at := (offset + int64(skip)) / sector
	n := max(len(c.payload)-skip, 0) / sector
	c.heads, c.found = c.heads[:0], c.found[:0]
	for i := range n {
		head := int32(0)
		if !c.lay.fixed((at + int64(i)) * sector) {
			head = c.contents.look(c.payload[skip+i*sector:][:sector])
		}
		c.heads = append(c.heads, head)
		c.found = append(c.found, c.forward(i, at+int64(i)))
	}
	for i := n - 1; i >= 0; i-- {
		if c.found[i] == 0 {
			c.found[i] = c.backward(i)
		}
	}
	for i, v := range c.found {
		if v == 0 {
			continue
		}
		v := c.contents.versions[v]
		c.carries = append(c.carries, carry{sector: v.sector, op: v.op, request: int32(index), at: (at + int64(i)) * sector})
		if inPlace {
			c.home[at+int64(i)] = v.sector
		}
	}
}

// forward decides on a sector by what the drive held there, or by the sector
// before it, or because there is no choice.
func (c *classifier) forward(i int, at int64) int32 {
	head := c.heads[i]
	if head == 0 {
		return 0
	}
	if s, ok := c.home[at]; ok {
		if v := c.contents.at(head, s); v != 0 {
			return v
		}
	}
	if i > 0 && c.found[i-1] != 0 {
		if v := c.contents.at(head, c.contents.versions[c.found[i-1]].sector+1); v != 0 {
			return v
		}
	}
	return c.contents.alone(head)
}

// backward decides by the sector after it, or for the newest version.
func (c *classifier) backward(i int) int32 {
	head := c.heads[i]
	if head == 0 {
		return 0
	}
	if i+1 < len(c.found) && c.found[i+1] != 0 {
		if v := c.contents.at(head, c.contents.versions[c.found[i+1]].sector-1); v != 0 {
			return v
		}
	}
	return head
}

// opsOf lists the ops of carries, ascending.
func opsOf(carries []carry) []int {
	var ops []int
	for i, c := range carries {
		if i == 0 || c.op != carries[i-1].op {
			ops = append(ops, int(c.op))
		}
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}

// opsText names ops in ranges: "ops 9-13, 40". At most four ranges are shown,
// the newest ones.
func opsText(ops []int) string {
	const shown = 4
	var parts []string
	for i := len(ops) - 1; i >= 0 && len(parts) < shown; i-- {
		last := ops[i]
		for i > 0 && ops[i-1] == ops[i]-1 {
			i--
		}
		parts = append(parts, rangeText(ops[i], last))
		if len(parts) == shown && i > 0 {
			parts = append(parts, "…")
			break
		}
	}
	slices.Reverse(parts)
	word := "ops "
	if len(ops) == 1 {
		word = "op "
	}
	return word + strings.Join(parts, ", ")
}

func rangeText(first, last int) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}
