// Package model is a file system in memory that follows ops as Linux carries them
// out on a real one. Every state that it goes through is kept, unchanged, so that
// what may be on a disk after a cut can be looked up. It is pure.
//
// It knows of what a file system shows: names, types, sizes, bytes, reserved blocks,
// modes, owners, time stamps that were set, extended attributes. It knows nothing of
// what is durable, which is package promise's.
package model

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"powercut/guest/ops"
)

// ID is an inode. They are counted in the order in which they are made.
type ID int

// Root is the root directory; None no inode at all.
const (
	Root ID = 0
	None ID = -1
)

// Inode is one file, directory, link or special file, in one state.
type Inode struct {
	Type     uint32 // unix.S_IFREG, S_IFDIR …
	Mode     uint32 // permission bits
	UID, GID uint32
	Rdev     uint64
	Target   string // of a symbolic link
	Links    int    // names, of what is no directory
	Size     int64
	Content  Content
	Reserved []Extent // what fallocate has reserved and nothing has freed
	Mtime    int64    // seconds; meaningful where Stamped
	Stamped  bool     // the time stamps are those that utimes set
	Xattrs   map[string]string
	Entries  map[string]ID // of a directory
	Parent   ID            // of a directory: where it is; None once it is removed
	linkable bool          // made by tmpfile, and never linked
}

// Dir tells whether the inode is a directory.
func (n *Inode) Dir() bool { return n.Type == unix.S_IFDIR }

// Regular tells whether it is a regular file.
func (n *Inode) Regular() bool { return n.Type == unix.S_IFREG }

// State is the file system after an op, or after a part of one.
type State struct {
	Op      int      // the op that made it so
	Inodes  []*Inode // by ID; the inode may have no name any more
	handles map[string]ID
}

// New is an empty file system: a root directory of that mode.
func New() *State {
	root := &Inode{Type: unix.S_IFDIR, Mode: 0o755, Entries: map[string]ID{}, Parent: Root}
	return &State{Inodes: []*Inode{root}, handles: map[string]ID{}}
}

// next is a copy for op k to change.
func (s *State) next(k int) *State {
	return &State{Op: k, Inodes: slices.Clone(s.Inodes), handles: maps.Clone(s.handles)}
}

// edit makes an inode of s one that may be changed.
func (s *State) edit(id ID) *Inode {
	n := *s.Inodes[id]
	n.Xattrs, n.Entries = maps.Clone(n.Xattrs), maps.Clone(n.Entries)
	s.Inodes[id] = &n
	return &n
}

// Get is an inode of the state, nil where it does not exist yet.
func (s *State) Get(id ID) *Inode {
	if id < 0 || int(id) >= len(s.Inodes) {
		return nil
	}
	return s.Inodes[id]
}

// Entry is what a name in a directory leads to; None where there is no such name.
func (s *State) Entry(dir ID, name string) ID {
	if n := s.Get(dir); n != nil {
		if id, ok := n.Entries[name]; ok {
			return id
		}
	}
	return None
}

// Handle is the inode that a descriptor has open.
func (s *State) Handle(name string) (ID, bool) {
	id, ok := s.handles[name]
	return id, ok
}

// place is a name in a directory.
type place struct {
	dir  ID
	name string
}

// parent finds the directory of a path.
func (s *State) parent(path string) (place, error) {
	dir, name := Root, path
	for {
		first, rest, more := strings.Cut(name, "/")
		if !more {
			return place{dir, name}, nil
		}
		id := s.Entry(dir, first)
		switch {
		case id == None:
			return place{}, unix.ENOENT
		case !s.Inodes[id].Dir():
			return place{}, unix.ENOTDIR
		}
		dir, name = id, rest
	}
}

// Find is the inode that a path or a descriptor names. A symbolic link is found
// itself, and leads nowhere: a path through one is not modelled (ENOTDIR).
func (s *State) Find(file string) (ID, error) {
	switch {
	case ops.IsHandle(file):
		id, ok := s.handles[file]
		if !ok {
			return None, unix.EBADF
		}
		return id, nil
	case file == ".":
		return Root, nil
	}
	p, err := s.parent(file)
	if err != nil {
		return None, err
	}
	id := s.Entry(p.dir, p.name)
	if id == None {
		return None, unix.ENOENT
	}
	return id, nil
}

// Path is a path that leads to an inode, and ok whether there is one.
func (s *State) Path(id ID) (path string, ok bool) {
	paths := s.Paths(id)
	if len(paths) == 0 {
		return "", false
	}
	return paths[0], true
}

// Paths are all paths that lead to an inode, sorted.
func (s *State) Paths(id ID) (out []string) {
	s.Walk(func(path string, at ID) {
		if at == id {
			out = append(out, path)
		}
	})
	return out
}

// Walk visits every path, a directory before what is in it, names in order.
func (s *State) Walk(visit func(path string, id ID)) {
	visit(".", Root)
	s.walk("", Root, visit)
}

func (s *State) walk(prefix string, dir ID, visit func(path string, id ID)) {
	for _, name := range slices.Sorted(maps.Keys(s.Inodes[dir].Entries)) {
		id := s.Inodes[dir].Entries[name]
		visit(prefix+name, id)
		if s.Inodes[id].Dir() {
			s.walk(prefix+name+"/", id, visit)
		}
	}
}
