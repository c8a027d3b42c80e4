package promise

import (
	"slices"
	"strings"

	"powercut/guest/ops"
	"powercut/harness/model"
)

// place is a name in a directory.
type place struct {
	dir  model.ID
	name string
}

// placeOf finds the directory of a path.
func placeOf(s *model.State, path string) (place, bool) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return place{model.Root, path}, true
	}
	dir, err := s.Find(path[:at])
	return place{dir, path[at+1:]}, err == nil
}

// floors are, for each thing, the index of the first state of it that may be found.
type floors struct {
	all     int              // of everything
	places  map[place]int    // names
	entries map[model.ID]int // of a directory: all names in it
	size    map[model.ID]int
	attrs   map[model.ID]int // mode, owner, time stamp, extended attributes
	blocks  map[model.ID]int // reserved ones
	data    map[model.ID][]rangeFloor
	// ends are what sync calls for a range promise of the size: that it reaches to the
	// end of what was written in the range, as far as it did then.
	ends map[model.ID][]rangeFloor
}

// rangeFloor is the floor of a range of bytes.
type rangeFloor struct {
	from, to int64
	floor    int
}

func newFloors() floors {
	return floors{
		places: map[place]int{}, entries: map[model.ID]int{}, size: map[model.ID]int{}, attrs: map[model.ID]int{},
		blocks: map[model.ID]int{}, data: map[model.ID][]rangeFloor{}, ends: map[model.ID][]rangeFloor{},
	}
}

// place is the floor of a name.
func (l *floors) place(p place) int { return max(l.all, l.entries[p.dir], l.places[p]) }

// of is the floor of an inode in one of the maps.
func (l *floors) of(m map[model.ID]int, id model.ID) int { return max(l.all, m[id]) }

const forever = 1 << 62

// bytes are the floors of an inode's bytes from 0 on, without a gap.
func (l *floors) bytes(id model.ID) []rangeFloor {
	out := []rangeFloor{{0, forever, l.all}}
	for _, r := range l.data[id] {
		out = raise(out, r)
	}
	return out
}

// raise puts a range over others; where floors meet, the higher one holds.
func raise(list []rangeFloor, r rangeFloor) (out []rangeFloor) {
	for _, x := range list {
		if x.to <= r.from || x.from >= r.to || x.floor >= r.floor {
			out = append(out, x)
			continue
		}
		if x.from < r.from {
			out = append(out, rangeFloor{x.from, r.from, x.floor})
		}
		out = append(out, rangeFloor{max(x.from, r.from), min(x.to, r.to), r.floor})
		if x.to > r.to {
			out = append(out, rangeFloor{r.to, x.to, x.floor})
		}
	}
	return out
}

// promised sets the floors of a sync call that has succeeded, and is trusted.
func (f *past) promised(o ops.Op) {
	switch o.Verb {
	case ops.Syncfs, ops.Sync, ops.Freeze, ops.Remount:
		for _, l := range []*floors{&f.letter, &f.custom} {
			l.all = f.now
		}
		return
	}
	id, err := f.current().Find(o.File)
	if err != nil {
		return
	}
	from, to := int64(0), int64(forever)
	if o.Verb == ops.Msync || o.Verb == ops.Pwrite {
		from, to = o.Offset, o.Offset+o.Length
	}
	n := f.current().Get(id)
	if o.Verb == ops.Append {
		from, to = n.Size-o.Length, n.Size
	}
	r, end := rangeFloor{from, to, f.now}, n.Content.End(from, to)
	whole := o.Verb == ops.Fsync || o.Has(ops.OSync)
	f.letter.raise(id, r, end, whole, whole && o.Verb == ops.Fsync)
	f.custom.raise(id, r, end, whole, true)
	f.promiseNames(id, f.profile.Names && whole)
}

// raise sets the floors of one inode, of which a sync call was for a range, with bytes
// that somebody wrote up to end: none of a hole need be fetched, however far it reaches.
func (l *floors) raise(id model.ID, r rangeFloor, end int64, attrs, blocks bool) {
	l.data[id] = append(l.data[id], r)
	if r.to == forever {
		l.entries[id], l.size[id] = r.floor, r.floor
	} else if end > r.from {
		l.ends[id] = append(l.ends[id], rangeFloor{r.from, end, r.floor})
	}
	if attrs {
		l.attrs[id] = r.floor
	}
	if blocks {
		l.blocks[id] = r.floor
	}
}

// promiseNames sets the floors of an inode's names, which are custom alone: of all, or
// of those that it was made with and still has.
func (f *past) promiseNames(id model.ID, all bool) {
	if !f.profile.Names && !f.profile.NewNames {
		return
	}
	born := f.born(id)
	for p := range f.places(id) {
		at := f.current().Entry(p.dir, p.name)
		is, since := at == id, f.since(p, at)
		if !f.profile.Exchanged && f.exchanged(since) {
			continue
		}
		new := is && since <= born
		switch {
		case all && !is: // what took the name is not synced by this
			left := f.left(p, id)
			f.raiseName(p, left)
			if f.states[left].Entry(p.dir, p.name) != model.None { // in the same op: the name may be of neither
				delete(f.custom.places, p)
			}
		case all || new:
			f.raiseName(p, since)
		}
		if is && (all || new) {
			f.promisePath(p.dir, since)
		}
	}
}

// raiseName sets the floor of a name, by the sync call that is followed.
func (f *past) raiseName(p place, state int) {
	f.custom.places[p] = max(f.custom.places[p], state)
	if f.namedBy[state] == 0 {
		f.namedBy[state] = f.current().Op
	}
}

// left is the first state of those up to now in which the name has not led to the inode
// all the while.
func (f *past) left(p place, id model.ID) int {
	k := f.now
	for k > 0 && f.states[k-1].Entry(p.dir, p.name) != id {
		k--
	}
	return k
}

// exchanged tells whether a state was made by an exchange of names.
func (f *past) exchanged(k int) bool {
	n := f.states[k].Op
	return n > 0 && f.plan.Ops[n-1].Has(ops.Exchange)
}

// promisePath sets the floors of the names that lead to a directory, to a state.
func (f *past) promisePath(dir model.ID, state int) {
	for dir != model.Root {
		at, ok := whereIs(f.states[state], dir)
		if !ok {
			return
		}
		f.raiseName(at, state)
		dir = at.dir
	}
}

// whereIs is the name of a directory in a state.
func whereIs(s *model.State, dir model.ID) (place, bool) {
	n := s.Get(dir)
	if n == nil || n.Parent == model.None {
		return place{}, false
	}
	for name, id := range s.Get(n.Parent).Entries {
		if id == dir {
			return place{n.Parent, name}, true
		}
	}
	return place{}, false
}

// born is the first state with the inode.
func (f *past) born(id model.ID) int {
	return slices.IndexFunc(f.states, func(s *model.State) bool { return s.Get(id) != nil })
}

// since is the first state of those up to now in which the name led to the inode all
// the while.
func (f *past) since(p place, id model.ID) int {
	k := f.now
	for k > 0 && f.states[k-1].Entry(p.dir, p.name) == id {
		k--
	}
	return k
}

// places are all names that have ever led to the inode.
func (f *past) places(id model.ID) map[place]bool {
	out := map[place]bool{}
	for k, s := range f.states[:f.now+1] {
		for dir, n := range s.Inodes {
			if !n.Dir() || k > 0 && f.states[k-1].Get(model.ID(dir)) == n {
				continue
			}
			for name, at := range n.Entries {
				if at == id {
					out[place{model.ID(dir), name}] = true
				}
			}
		}
	}
	return out
}
