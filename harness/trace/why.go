package trace

import (
	"fmt"
	"slices"
	"strings"

	"powercut/harness/blocklog"
)

// explanation says why the data of an op was durable at its ack, or not: for its
// reason in fixed words, and in a sentence that names requests and positions.
type explanation struct {
	*coverer
	w     window
	parts []part
}

func (x explanation) because() (Reason, string) {
	if len(x.parts) == 0 {
		return NoData, "the op has no data"
	}
	var open []part
	for _, p := range x.parts {
		if p.at >= x.w.to {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return DataDurable, "its data was durable at the ack (" + x.covered() + ")"
	}
	if len(open) == len(x.parts) {
		return x.open(open[0], "its data")
	}
	from := int64(open[0].sector) * sector
	return x.open(open[0], fmt.Sprintf("the part of its data from offset %d", from))
}

// covered names what made the last part of the data durable.
func (x explanation) covered() string {
	last := slices.MaxFunc(x.parts, func(a, b part) int { return a.at - b.at })
	write := x.reqs[last.write].Number
	switch r := x.reqs[last.write]; {
	case last.flush < 0 && r.Destage >= 0 && r.Destage == last.at:
		return fmt.Sprintf("request %d carried it, and the drive wrote it back by itself at position %d", write, r.Destage)
	case last.flush >= 0:
		f := x.reqs[last.flush]
		return fmt.Sprintf("request %d carried it, flush %d covered it at position %d", write, f.Number, f.Reply)
	case r.Through:
		return fmt.Sprintf("request %d carried it, to a drive that holds nothing back", write)
	}
	return fmt.Sprintf("request %d carried it with FUA", write)
}

// open says why a part, called what, was not durable. It follows the write that
// was answered first, which had the best chance.
func (x explanation) open(p part, what string) (Reason, string) {
	if len(p.writes) == 0 {
		return NoWrite, x.uncarried(p, what)
	}
	best, failed, spoilt := -1, -1, -1
	for _, i := range p.writes {
		r := x.reqs[i]
		switch {
		case slices.Contains(p.spoilt, i):
			spoilt = i
		case r.Reply < 0 || r.Reply >= x.w.to:
		case r.Errno != 0:
			failed = i
		case best < 0 || r.Reply < x.reqs[best].Reply:
			best = i
		}
	}
	switch {
	case best >= 0:
		return x.volatile(x.reqs[best], what)
	case spoilt >= 0:
		return x.spoilt(x.reqs[spoilt], what)
	case failed >= 0:
		r := x.reqs[failed]
		return WriteFailed, fmt.Sprintf("request %d carried %s before the ack, and failed with errno %d", r.Number, what, r.Errno)
	}
	first := x.reqs[p.writes[0]]
	return WriteUnanswered, fmt.Sprintf("request %d carried %s, but had not been answered at the ack", first.Number, what)
}

// spoilt is the case of a write that a fault kept from being stored as it was.
func (x explanation) spoilt(r Request, what string) (Reason, string) {
	if r.Spoil.Kind == blocklog.Rot {
		return WriteRotten, fmt.Sprintf("request %d carried %s, and the drive stored it with bit %d of the sector flipped (fault)", r.Number, what, r.Spoil.Bit)
	}
	return WriteTorn, fmt.Sprintf("request %d carried %s, and bytes %d to %d of the request never reached the drive, which answered it all the same (fault)",
		r.Number, what, r.Spoil.From, r.Spoil.To)
}

// uncarried is the case of no write before the ack.
func (x explanation) uncarried(p part, what string) string {
	for _, v := range x.carriesOf(p.sector, x.w.to) {
		if int(v.op) >= x.w.op {
			r := x.reqs[v.request]
			return fmt.Sprintf("no write carried %s before the ack; the first that did, request %d, arrived after it, at position %d",
				what, r.Number, r.Arrive)
		}
	}
	return fmt.Sprintf("no write carried %s, before the ack or after it", what)
}

// volatile is the case of a write that was answered, and still in the cache.
func (x explanation) volatile(r Request, what string) (Reason, string) {
	text := fmt.Sprintf("request %d carried %s and was answered at position %d, yet it was volatile at the ack (position %d): ",
		r.Number, what, r.Reply, x.w.to)
	reason, flushed := x.flushed(r)
	switch {
	case r.FUA && r.NoEffect:
		reason, flushed = FUAIgnored, "it asked for FUA, which the drive ignored (fault), and "+flushed
	case r.Through && r.NoEffect:
		reason, flushed = FUAIgnored, "the drive, which has no cache, held it back (fault), and "+flushed
	}
	if r.Destage >= 0 {
		flushed += fmt.Sprintf("; the drive wrote it back by itself after that, at position %d", r.Destage)
	}
	return reason, text + flushed
}

// flushed says what became of the flushes that might have covered a write.
func (x explanation) flushed(r Request) (Reason, string) {
	if len(x.flushes) == 0 {
		if x.in.Unsafe {
			return Dropped, "QEMU's cache mode unsafe drops every flush, so none could reach the drive"
		}
		if !x.in.CacheAdvertised {
			return Unadvertised, "the drive never advertised a cache, so no flush could reach it"
		}
		return NoFlush, "the drive received no flush in the whole run"
	}
	disk := x.in.disk(r.Offset)
	for _, f := range x.between(r, r.Reply, x.w.to) {
		switch {
		case f.Reply < 0 || f.Reply >= x.w.to:
			return FlushUnanswered, fmt.Sprintf("flush %d arrived after it at position %d, but had not been answered at the ack", f.Number, f.Arrive)
		case f.NoEffect:
			return FlushIgnored, fmt.Sprintf("flush %d reached %s, which ignored it (fault)", f.Number, disk)
		case f.Errno != 0:
			return FlushFailed, fmt.Sprintf("flush %d reached %s, and failed with errno %d", f.Number, disk, f.Errno)
		}
	}
	if early := x.between(r, x.w.from-1, r.Reply); len(early) > 0 {
		f := early[len(early)-1]
		return FlushEarly, fmt.Sprintf("flush %d arrived before the write was answered, at position %d, so did not cover it", f.Number, f.Arrive)
	}
	text := fmt.Sprintf("no flush reached %s between its answer and the ack", disk)
	if next := x.after(x.flushes, r.Reply); next < len(x.flushes) {
		if f := x.reqs[x.flushes[next]]; f.Arrive < x.w.to {
			return OtherDisk, text + fmt.Sprintf("; flush %d was for %s", f.Number, x.in.disk(f.Offset))
		}
	}
	return NoFlush, text
}

// between lists the flushes that are for what a request wrote, and arrived after one
// position and before another.
func (x explanation) between(r Request, after, before int) []Request {
	var list []Request
	for _, i := range x.flushes[x.after(x.flushes, after):] {
		if x.reqs[i].Arrive >= before {
			break
		}
		if x.reqs[i].Flushes(r) {
			list = append(list, x.reqs[i])
		}
	}
	return list
}

// Lost says why the op, found to be lost, is: either its data was not durable, or
// it was, and what tells where the data is was not.
func (c Cover) Lost() string {
	if !c.Durable {
		return c.Why
	}
	if c.LostReason() == Replayed {
		return fmt.Sprintf("%s; the journal has a copy of a block of it (request %d), which its replay writes in place of it, unless a revoke record forbids that", c.Why, c.Replayed)
	}
	return c.Why + "; what is missing is metadata: " + c.metadata()
}

// metadata says how durable the other writes were that were made during the op.
func (c Cover) metadata() string {
	kind, made, open := c.tables()
	if len(made) == 0 {
		return "no journal or metadata write was made during the op"
	}
	if len(c.Spoilt) > 0 {
		return fmt.Sprintf("of the %s writes made during the op (%s) these were torn, or stored with bits flipped, by the drive (fault): %s",
			kind, numberText(made), numberText(c.Spoilt))
	}
	text := fmt.Sprintf("of the %s writes made during the op (%s) ", kind, numberText(made))
	if len(open) == 0 {
		return text + "all were durable at the ack"
	}
	text += fmt.Sprintf("these were still volatile at the ack: %s", numberText(open))
	if c.Unflushed != "" {
		text += "; " + c.Unflushed
	}
	return text
}

// tables lists the journal writes that were made during the op or, where there
// are none, those of other metadata; open are those that were volatile at the ack.
func (c Cover) tables() (kind string, made, open []uint64) {
	kind, made = "journal", c.Journal
	if len(made) == 0 {
		kind, made = "metadata", c.Metadata
	}
	for _, n := range made {
		if slices.Contains(c.Volatile, n) {
			open = append(open, n)
		}
	}
	return kind, made, open
}

// numberText names requests: "requests 4, 5"; at most eight of them.
func numberText(list []uint64) string {
	const shown = 8
	var parts []string
	for i, n := range list {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-shown))
			break
		}
		parts = append(parts, fmt.Sprint(n))
	}
	word := "requests "
	if len(list) == 1 {
		word = "request "
	}
	return word + strings.Join(parts, ", ")
}
