package model

import (
	"golang.org/x/sys/unix"

	"powercut/guest/ops"
)

// Apply carries op k out on s, which stays as it is. It returns the states that the
// op goes through, the last one being that after it: one for most ops, several where
// one is made of several system calls. An op that cannot succeed gives the errno of
// Linux and no state.
//
// Whether a file system knows an op at all (clones, say) is not the model's.
func Apply(s *State, o ops.Op, k int) ([]*State, error) {
	a := &applying{State: s, op: o, k: k}
	if err := a.do(); err != nil {
		return nil, err
	}
	if len(a.states) == 0 {
		a.change() // an op that changes nothing
	}
	return a.states, nil
}

// Refuse is the state after op k, which has failed as Apply says. f2fs sets a file's
// times before fallocate looks at the range (f2fs_fallocate, fs/f2fs/file.c).
func Refuse(s *State, o ops.Op, k int) *State {
	switch o.Verb {
	case ops.Fallocate, ops.Punch, ops.ZeroRange:
	default:
		return s
	}
	a := &applying{State: s, op: o, k: k}
	id, err := a.opened()
	if err != nil || !a.Inodes[id].Stamped {
		return s
	}
	a.change().edit(id).Stamped = false
	return a.State
}

// applying is an op under way: State is what it has made so far.
type applying struct {
	*State
	op     ops.Op
	k      int
	states []*State
}

// change begins a further state.
func (a *applying) change() *State {
	a.State = a.State.next(a.k)
	a.states = append(a.states, a.State)
	return a.State
}

func (a *applying) do() error {
	switch a.op.Verb {
	case ops.Create, ops.Mkdir, ops.Mknod, ops.Symlink:
		return a.make()
	case ops.Link:
		return a.link()
	case ops.Rename:
		return a.rename()
	case ops.Unlink, ops.Rmdir:
		return a.remove()
	case ops.Open, ops.Tmpfile, ops.Close:
		return a.handle()
	case ops.Write, ops.Append, ops.Pwrite, ops.MmapWrite, ops.Truncate:
		return a.write()
	case ops.Fallocate, ops.Punch, ops.ZeroRange:
		return a.allocate()
	case ops.Clone, ops.CloneRange:
		return a.clone()
	case ops.SetXattr, ops.RemoveXattr, ops.Chmod, ops.Chown, ops.Utimes:
		return a.attribute()
	case ops.Fsync, ops.Fdatasync, ops.Msync, ops.SyncFileRange:
		return a.syncable()
	}
	return nil
}

// syncable tells whether a sync call on the op's file succeeds.
func (a *applying) syncable() error {
	id, err := a.opened()
	if err != nil {
		return err
	}
	n := a.Inodes[id]
	switch a.op.Verb {
	case ops.Msync:
		if !n.Regular() || a.op.Offset+a.op.Length > n.Size {
			return unix.EINVAL
		}
	case ops.SyncFileRange:
		if !n.Regular() && !n.Dir() {
			return unix.ESPIPE
		}
	}
	if !n.Regular() && !n.Dir() {
		return unix.EINVAL
	}
	return nil
}

// opened finds the op's file as open(2) with O_NOFOLLOW does.
func (a *applying) opened() (ID, error) { return a.openedAs(a.op.File) }

func (a *applying) openedAs(file string) (ID, error) {
	id, err := a.Find(file)
	if err != nil {
		return None, err
	}
	switch a.Inodes[id].Type {
	case unix.S_IFLNK:
		return None, unix.ELOOP
	case unix.S_IFSOCK:
		return None, unix.ENXIO
	}
	return id, nil
}

// born is a new inode in a directory, of that type and mode, without a name.
func (a *applying) born(dir ID, kind, mode uint32) (ID, *Inode) {
	n := &Inode{Type: kind, Mode: mode, Parent: None}
	if d := a.Inodes[dir]; d.Mode&unix.S_ISGID != 0 { // inode_init_owner, fs/inode.c
		n.GID = d.GID
		if kind == unix.S_IFDIR {
			n.Mode |= unix.S_ISGID
		}
	}
	if kind == unix.S_IFDIR {
		n.Entries, n.Parent = map[string]ID{}, dir
	}
	a.Inodes = append(a.Inodes, n)
	return ID(len(a.Inodes) - 1), n
}

// put gives an inode a name.
func (a *applying) put(p place, id ID) {
	d := a.edit(p.dir)
	d.Entries[p.name], d.Stamped = id, false
	n := a.edit(id)
	n.linkable = false
	if n.Dir() { // of one that is moved f2fs and nilfs2 set the times: f2fs_set_link, nilfs_set_link
		n.Parent, n.Stamped = p.dir, false
	} else {
		n.Links++
	}
}

// take removes a name, and returns what it led to.
func (a *applying) take(p place) ID {
	d := a.edit(p.dir)
	id := d.Entries[p.name]
	delete(d.Entries, p.name)
	d.Stamped = false
	n := a.edit(id)
	if n.Dir() {
		n.Parent = None
	} else {
		n.Links--
	}
	return id
}

// make is a new name with a new inode.
func (a *applying) make() error {
	path := a.op.File
	if a.op.Verb == ops.Symlink {
		path = a.op.To
	}
	p, err := a.parent(path)
	if err != nil {
		return err
	}
	if a.Entry(p.dir, p.name) != None {
		return unix.EEXIST
	}
	a.change()
	kind, mode := uint32(unix.S_IFREG), uint32(0o644)
	switch a.op.Verb {
	case ops.Mkdir:
		kind, mode = unix.S_IFDIR, 0o755
	case ops.Symlink:
		kind, mode = unix.S_IFLNK, 0o777
	case ops.Mknod:
		kind = map[string]uint32{"fifo": unix.S_IFIFO, "socket": unix.S_IFSOCK, "char": unix.S_IFCHR, "block": unix.S_IFBLK}[a.op.Word]
	}
	id, n := a.born(p.dir, kind, mode)
	switch a.op.Verb {
	case ops.Symlink:
		n.Target, n.Size = a.op.Word, int64(len(a.op.Word))
	case ops.Mknod:
		n.Rdev = unix.Mkdev(a.op.Major, a.op.Minor)
	}
	a.put(p, id)
	return nil
}

func (a *applying) link() error {
	id, err := a.Find(a.op.File)
	if err != nil {
		return err
	}
	p, err := a.parent(a.op.To)
	if err != nil {
		return err
	}
	if a.Entry(p.dir, p.name) != None {
		return unix.EEXIST
	}
	n := a.Inodes[id]
	switch {
	case n.Dir():
		return unix.EPERM
	case n.Links == 0 && !n.linkable:
		return unix.ENOENT
	}
	a.change()
	a.put(p, id)
	return nil
}

func (a *applying) remove() error {
	p, err := a.parent(a.op.File)
	if err != nil {
		return err
	}
	id := a.Entry(p.dir, p.name)
	if id == None {
		return unix.ENOENT
	}
	n := a.Inodes[id]
	switch {
	case a.op.Verb == ops.Unlink && n.Dir():
		return unix.EISDIR
	case a.op.Verb == ops.Rmdir && !n.Dir():
		return unix.ENOTDIR
	case len(n.Entries) > 0:
		return unix.ENOTEMPTY
	}
	a.change()
	a.take(p)
	return nil
}

// above tells whether directory id is dir or one above it.
func (a *applying) above(id, dir ID) bool {
	for dir != id && dir != Root && dir != None {
		dir = a.Inodes[dir].Parent
	}
	return dir == id
}

// rename checks in the order of do_renameat2 and vfs_rename (fs/namei.c).
func (a *applying) rename() error {
	from, err := a.parent(a.op.File)
	if err != nil {
		return err
	}
	to, err := a.parent(a.op.To)
	if err != nil {
		return err
	}
	old, target := a.Entry(from.dir, from.name), a.Entry(to.dir, to.name)
	exchange := a.op.Has(ops.Exchange)
	switch {
	case old == None || exchange && target == None:
		return unix.ENOENT
	case target != None && a.op.Has(ops.NoReplace):
		return unix.EEXIST
	case from.dir != to.dir && a.above(old, to.dir):
		return unix.EINVAL
	case target != None && from.dir != to.dir && a.above(target, from.dir):
		if exchange {
			return unix.EINVAL
		}
		return unix.ENOTEMPTY
	case old == target:
		return nil
	}
	if exchange {
		a.change()
		a.take(from)
		a.take(to)
		a.put(from, target)
		a.put(to, old)
		return nil
	}
	if target != None {
		switch o, t := a.Inodes[old], a.Inodes[target]; {
		case o.Dir() && !t.Dir():
			return unix.ENOTDIR
		case !o.Dir() && t.Dir():
			return unix.EISDIR
		case len(t.Entries) > 0:
			return unix.ENOTEMPTY
		}
	}
	a.change()
	if target != None {
		a.take(to)
	}
	a.put(to, a.take(from))
	return nil
}

// handle is open, tmpfile and close.
func (a *applying) handle() error {
	if a.op.Verb == ops.Close {
		if _, ok := a.handles[a.op.File]; !ok {
			return unix.EBADF
		}
		delete(a.change().handles, a.op.File)
		return nil
	}
	if a.op.Verb == ops.Tmpfile {
		dir, err := a.Find(a.op.File)
		if err != nil {
			return err
		}
		if !a.Inodes[dir].Dir() {
			return unix.ENOTDIR
		}
		a.change()
		id, n := a.born(dir, unix.S_IFREG, 0o600)
		n.linkable = true
		a.handles[a.op.Handle] = id
		return nil
	}
	id, err := a.reach(a.op.Has(ops.OCreat))
	if err != nil {
		return err
	}
	n := a.Inodes[id]
	if n.Dir() && len(a.op.Flags) > 0 {
		return unix.EISDIR
	}
	if a.op.Has(ops.OTrunc) && n.Regular() {
		a.resize(id, 0)
	}
	a.change().handles[a.op.Handle] = id
	return nil
}

// reach is the op's file as open(2) finds it, made where it may be and has to.
func (a *applying) reach(create bool) (ID, error) {
	id, err := a.opened()
	if err == unix.ENOENT && create {
		p, err := a.parent(a.op.File)
		if err != nil {
			return None, err
		}
		a.change()
		id, _ := a.born(p.dir, unix.S_IFREG, 0o644)
		a.put(p, id)
		return id, nil
	}
	if err == nil && create && a.Inodes[id].Dir() && !ops.IsHandle(a.op.File) { // of a descriptor, ftruncate says EINVAL
		return None, unix.EISDIR
	}
	return id, err
}
