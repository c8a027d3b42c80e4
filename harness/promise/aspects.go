package promise

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
	"powercut/harness/model"
)

// aspects judges what can be seen of an object beside its names. Its bytes must be
// those of the state replaced, or later ones, by custom.
func (j *reading) aspects(path string, id model.ID, o *inspect.Object, replaced int) {
	if o.Unread != "" {
		j.accuse(Forbidden, path, "content", "cannot be read: "+o.Unread, "", 0)
		return
	}
	attrs := window{j.letter.of(j.letter.attrs, id), j.custom.of(j.custom.attrs, id)}
	j.value(path, "mode", id, attrs, fmt.Sprintf("%o", o.Mode&^unix.S_IFMT), func(n *model.Inode) string { return fmt.Sprintf("%o", n.Mode) })
	j.value(path, "owner", id, attrs, fmt.Sprintf("%d:%d", o.UID, o.GID), func(n *model.Inode) string { return fmt.Sprintf("%d:%d", n.UID, n.GID) })
	stamp := fmt.Sprint(o.Mtime)
	j.value(path, "mtime", id, attrs, stamp, func(n *model.Inode) string {
		if !n.Stamped {
			return stamp // it may be anything
		}
		return fmt.Sprint(n.Mtime * 1e9)
	})
	for _, name := range j.attributes(id, o) {
		value, has := o.Xattrs[name]
		j.value(path, name, id, attrs, quote(string(value), has), func(n *model.Inode) string {
			value, has := n.Xattrs[name]
			return quote(value, has)
		})
	}
	j.unchanging(path, id, o)
	if o.Mode&unix.S_IFMT == unix.S_IFREG {
		j.size(path, id, o)
		j.bytes(path, id, o, replaced)
		j.blocks(path, id, o)
	}
}

func quote(value string, has bool) string {
	if !has {
		return "none"
	}
	return fmt.Sprintf("%.40q", value)
}

// attributes are the names of all extended attributes that are there or ever were.
func (j *reading) attributes(id model.ID, o *inspect.Object) []string {
	names := map[string]bool{}
	for name := range o.Xattrs {
		names[name] = true
	}
	for _, s := range j.states {
		if n := s.Get(id); n != nil {
			for name := range n.Xattrs {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// alive is the window from the inode's first state on.
func (j *reading) alive(id model.ID, w window) window {
	b := j.born(id)
	return window{max(b, w.letter), max(b, w.custom)}
}

// value judges an aspect that is a plain value.
func (j *reading) value(path, aspect string, id model.ID, w window, found string, of func(n *model.Inode) string) {
	w = j.alive(id, w)
	is := func(k int) bool { n := j.states[k].Get(id); return n != nil && of(n) == found }
	c, floor := j.check(w, is)
	if c == "" {
		return
	}
	if c == Promised && !slices.ContainsFunc(j.states, func(s *model.State) bool { n := s.Get(id); return n != nil && of(n) == found }) {
		c = j.never(id, w) // nobody ever made it so
	}
	want := j.past.now
	if floor > 0 {
		want = floor
	}
	if n := j.states[max(want, w.letter)].Get(id); n != nil {
		j.accuse(c, path, aspect, found, of(n), floor)
	}
}

// never is the class of a value that an inode has never had: without a journal an
// inode that was not synced may be any that was in its place before.
func (j *reading) never(id model.ID, w window) Class {
	if !j.profile.Journal && w.letter <= j.born(id) {
		return Unpromised
	}
	return Forbidden
}

// unchanging judges what an inode has from its birth to its end.
func (j *reading) unchanging(path string, id model.ID, o *inspect.Object) {
	n := j.states[j.born(id)].Get(id)
	class := Forbidden
	if !j.profile.Journal {
		class = Unpromised
	}
	if n.Type == unix.S_IFLNK && o.Target != n.Target {
		j.accuse(class, path, "target", fmt.Sprintf("%q", o.Target), fmt.Sprintf("%q", n.Target), 0)
	}
	if (n.Type == unix.S_IFCHR || n.Type == unix.S_IFBLK) && o.Rdev != n.Rdev {
		j.accuse(class, path, "device", fmt.Sprint(o.Rdev), fmt.Sprint(n.Rdev), 0)
	}
}

// size judges a file's size. A file that grows or shrinks may be found at any size on
// its way.
func (j *reading) size(path string, id model.ID, o *inspect.Object) {
	for _, r := range j.letter.ends[id] {
		if least := j.leastSize(id, r); o.Size < least {
			j.accuse(Promised, path, "size", fmt.Sprint(o.Size), fmt.Sprintf("at least %d", least), r.floor)
			return
		}
	}
	w := j.alive(id, window{j.letter.of(j.letter.size, id), j.custom.of(j.custom.size, id)})
	c, floor := j.check(w, func(k int) bool { n := j.states[k].Get(id); return n != nil && n.Size == o.Size })
	if c == "" || c == Unpromised {
		if c != "" {
			j.accuse(c, path, "size", fmt.Sprint(o.Size), fmt.Sprint(j.latest(id).Size), 0)
		}
		return
	}
	on := func(from int) bool {
		for k := from; k+1 < len(j.states); k++ {
			a, b := j.states[k].Get(id), j.states[k+1].Get(id)
			if a != nil && j.between(a.Size, b.Size, o) {
				return true
			}
		}
		n := j.states[len(j.states)-1].Get(id)
		return n != nil && j.between(n.Size, n.Size, o)
	}
	switch {
	case on(max(w.custom, w.letter)):
		c, floor = Unpromised, 0
	case on(w.letter):
		c = Customary
	}
	if c == Promised && w.letter == j.born(id) {
		c = j.never(id, w) // nothing was synced, and nobody ever made it so
	}
	want := j.latest(id)
	if floor > 0 {
		want = j.states[max(floor, w.letter)].Get(id)
	}
	j.accuse(c, path, "size", fmt.Sprint(o.Size), fmt.Sprint(want.Size), floor)
}

// latest is an inode as it was at the cut; of one that an op under way made, as it then is.
func (j *reading) latest(id model.ID) *model.Inode {
	if n := j.current().Get(id); n != nil {
		return n
	}
	return j.states[len(j.states)-1].Get(id)
}

// leastSize is how far a file must reach at least after a sync call for a range.
func (j *reading) leastSize(id model.ID, r rangeFloor) int64 {
	least := r.to
	for _, s := range j.states[r.floor:] {
		least = min(least, s.Get(id).Size)
	}
	return least
}

// between tells whether the object's size lies between two sizes of a file, or is such a size rounded up by e2fsck, which leaves zeros behind it.
func (j *reading) between(a, b int64, o *inspect.Object) bool {
	least, most := min(a, b), max(a, b)
	if o.Size >= least && o.Size <= most {
		return true
	}
	r := j.profile.Rounding
	if r == 0 {
		return false
	}
	return o.Size%r == 0 && o.Size > least && o.Size-r < most && (o.Size <= most || j.profile.Stale || j.tree.Zeros(o, most, o.Size))
}

// bytes judges a file's content, range by range of one floor.
func (j *reading) bytes(path string, id model.ID, o *inspect.Object, replaced int) {
	custom := j.custom.bytes(id)
	if replaced > 0 {
		custom = raise(custom, rangeFloor{0, forever, replaced})
	}
	for _, x := range j.letter.bytes(id) {
		custom = raise(custom, x)
	}
	b := &content{reading: j, path: path, id: id, object: o, worst: map[Class]bool{}}
	for _, x := range custom {
		for _, l := range j.letter.bytes(id) {
			from, to := max(x.from, l.from), min(x.to, l.to, o.Size)
			for from < to {
				end := min(to, (from/step+1)*step)
				if next := b.next(from, end); next > from {
					from = next
					continue
				}
				b.judge(from, end, j.alive(id, window{l.floor, x.floor}))
				from = end
			}
		}
	}
	if len(b.worst) == 0 {
		j.keptBytes(id)
	}
}

// keptBytes counts a content that is as it was at the cut.
func (j *reading) keptBytes(id model.ID) {
	least := func(list []rangeFloor) int {
		return slices.MinFunc(list, func(a, b rangeFloor) int { return a.floor - b.floor }).floor
	}
	last := j.current().Get(id)
	j.check(j.alive(id, window{least(j.letter.bytes(id)), least(j.custom.bytes(id))}), func(k int) bool {
		n := j.states[k].Get(id)
		return n != nil && last != nil && slices.Equal(n.Content, last.Content)
	})
}

// step is how many bytes of a file are judged at once.
const step = 4096

// content judges the bytes of one object. Of each class one finding is made: the first.
type content struct {
	*reading
	path   string
	id     model.ID
	object *inspect.Object
	worst  map[Class]bool
	got    [step]byte
	want   [step]byte
}

// fill reads a state's bytes; what is behind its end is zeros.
func (b *content) fill(k int, from, to int64) []byte {
	n := b.states[k].Get(b.id)
	buf := b.want[:to-from]
	n.Content.Read(buf, from, b.plan.Seed)
	return buf
}

// next is from, or, where bytes up to end are zeros in the object and always were, the
// end of all such bytes: a file may be a hole of a TiB.
func (b *content) next(from, end int64) int64 {
	if b.current().Get(b.id) == nil || !b.tree.Zeros(b.object, from, end) {
		return from
	}
	next := int64(forever)
	for _, p := range b.object.Pieces {
		if p.Offset+p.Length > from {
			next = min(next, max(from, p.Offset))
		}
	}
	for _, s := range b.states {
		if n := s.Get(b.id); n != nil {
			if at := n.Content.Next(from); at >= 0 {
				next = min(next, at)
			}
		}
	}
	return next
}

// judge holds bytes from up to to against the states of a window.
func (b *content) judge(from, to int64, w window) {
	got := b.got[:to-from]
	b.tree.Read(b.object, got, from)
	w.custom = max(w.custom, w.letter)
	if b.current().Get(b.id) != nil && bytes.Equal(got, b.fill(b.past.now, from, to)) {
		return
	}
	left := b.unmatched(got, from, to, w.custom)
	if left < 0 {
		b.accuseAt(Unpromised, from, 0, "older")
		return
	}
	class, floor := Customary, w.custom
	if w.letter < w.custom {
		left = max(left, b.unmatched(got, from, to, w.letter))
	}
	if w.letter == w.custom || b.unmatched(got, from, to, w.letter) >= 0 {
		class, floor = Promised, w.letter
	}
	what := b.older(got[left:left+1], from+int64(left))
	switch {
	case what != "":
	case b.profile.Stale && b.fresh(from+int64(left), w.custom):
		class, floor, what = Unpromised, 0, "what the disk held before"
	default:
		class, floor, what = Forbidden, 0, fmt.Sprintf("byte 0x%02x that nobody wrote there", got[left])
	}
	b.accuseAt(class, from+int64(left), floor, what)
}

// accuseAt makes a finding of a place, unless there is one of its class.
func (b *content) accuseAt(c Class, at int64, floor int, what string) {
	if b.worst[c] {
		return
	}
	b.worst[c] = true
	want := ""
	if floor > 0 {
		want = b.origin(floor, at)
	}
	b.accuse(c, b.path, "content", fmt.Sprintf("%s at byte %d", what, at), want, floor)
}

// unmatched is the first of the bytes that is in none of the states from floor on, or
// -1. Which state it is may differ from byte to byte: nobody promises that a write is
// atomic.
func (b *content) unmatched(got []byte, from, to int64, floor int) int {
	open := make([]bool, len(got)) // those not found yet
	left := len(got)
	for i := range open {
		open[i] = true
	}
	var last *model.Inode
	for k := len(b.states) - 1; k >= floor && left > 0; k-- {
		n := b.states[k].Get(b.id)
		if n == nil || n == last {
			continue
		}
		last = n
		for i, want := range b.fill(k, from, to) {
			if open[i] && got[i] == want {
				open[i] = false
				left--
			}
		}
	}
	return slices.Index(open, true)
}

// older says which older state holds a byte; "" where none does.
func (b *content) older(got []byte, at int64) string {
	for k := len(b.states) - 1; k >= b.born(b.id); k-- {
		if b.fill(k, at, at+1)[0] == got[0] {
			return b.origin(k, at)
		}
	}
	return ""
}

// origin says who wrote a byte of a state.
func (b *content) origin(k int, at int64) string {
	n := b.states[k].Get(b.id)
	if at >= n.Size {
		return fmt.Sprintf("the end of the file at %d", n.Size)
	}
	for _, p := range n.Content {
		if p.Offset <= at && at < p.End() {
			return fmt.Sprintf("what op %d wrote", p.Op)
		}
	}
	return "zeros"
}

// fresh tells whether a byte was not there yet in one of the states that may be found,
// so that its block is a new one.
func (b *content) fresh(at int64, floor int) bool {
	for _, s := range b.states[floor:] {
		n := s.Get(b.id)
		written := n != nil && slices.ContainsFunc(n.Content, func(p model.Piece) bool { return p.Offset <= at && at < p.End() })
		if n != nil && !written {
			return true
		}
	}
	return false
}

// blocks judges whether what fallocate reserved is still there.
func (j *reading) blocks(path string, id model.ID, o *inspect.Object) {
	if j.profile.Compressed {
		return
	}
	w := j.alive(id, window{j.letter.of(j.letter.blocks, id), j.custom.of(j.custom.blocks, id)})
	held := func(k int) int64 {
		if n := j.states[k].Get(id); n != nil {
			return n.Held()
		}
		return 0
	}
	if held(j.past.now) == 0 && !slices.ContainsFunc(j.states, func(s *model.State) bool { n := s.Get(id); return n != nil && n.Held() > 0 }) {
		return
	}
	c, floor := j.check(w, func(k int) bool { return o.Blocks*512 >= held(k) })
	if c != "" {
		j.accuse(c, path, "blocks", fmt.Sprintf("%d bytes allocated", o.Blocks*512), fmt.Sprintf("%d reserved", held(max(floor, w.letter))), floor)
	}
}
