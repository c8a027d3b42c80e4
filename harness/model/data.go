package model

import (
	"golang.org/x/sys/unix"

	"powercut/guest/ops"
)

// blockSize is what ranges of collapse, insert and clones must be multiples of, in
// bytes: the block size of every file system that powercut makes by default.
const blockSize = 4096

// touch begins a state in which the inode's bytes differ.
func (a *applying) touch(id ID) *Inode {
	n := a.change().edit(id)
	n.Stamped = false
	return n
}

// resize is truncate(2): what is behind the new end is gone, and so is what was
// reserved there.
func (a *applying) resize(id ID, size int64) {
	n := a.touch(id)
	n.Content, n.Reserved, n.Size = n.Content.slice(0, size), uncover(n.Reserved, size, forever), size
}

// write is a write of op k.
func (n *Inode) write(off, length int64, k int) {
	n.Content, n.Size = n.Content.written(off, length, k), max(n.Size, off+length)
}

func (a *applying) write() error {
	id, err := a.reach(a.op.Verb == ops.Write)
	if err != nil {
		return err
	}
	n := a.Inodes[id]
	if !n.Regular() {
		if a.op.Verb == ops.MmapWrite || a.op.Verb == ops.Truncate || a.op.Verb == ops.Write {
			return unix.EINVAL // of ftruncate
		}
		return unix.EBADF // a directory is opened for reading
	}
	switch a.op.Verb {
	case ops.Truncate:
		a.resize(id, a.op.Offset)
	case ops.Write:
		if n.Size > 0 || len(n.Reserved) > 0 || n.Stamped {
			a.resize(id, 0)
		}
		if a.op.Length > 0 {
			a.touch(id).write(0, a.op.Length, a.k)
		}
	case ops.Append:
		a.touch(id).write(n.Size, a.op.Length, a.k)
	case ops.Pwrite:
		a.touch(id).write(a.op.Offset, a.op.Length, a.k)
	case ops.MmapWrite:
		if a.op.Offset+a.op.Length > n.Size {
			return unix.EINVAL
		}
		a.touch(id).write(a.op.Offset, a.op.Length, a.k)
	}
	return nil
}

// allocate is fallocate(2) in all its modes.
func (a *applying) allocate() error {
	id, err := a.opened()
	if err != nil {
		return err
	}
	n := a.Inodes[id]
	if !n.Regular() {
		return unix.EBADF
	}
	from, end := a.op.Offset, a.op.Offset+a.op.Length
	aligned := from%blockSize == 0 && end%blockSize == 0
	switch {
	case a.op.Verb == ops.Punch:
		n = a.touch(id)
		n.Content, n.Reserved = n.Content.without(from, end), uncover(n.Reserved, from, end)
		return nil
	case a.op.Has(ops.Collapse):
		if !aligned || end >= n.Size {
			return unix.EINVAL
		}
		n = a.touch(id)
		n.Content = append(n.Content.slice(0, from), n.Content.slice(end, forever).moved(from-end)...)
		n.Size -= a.op.Length
		n.Reserved = uncover(n.Reserved, from, forever)
		return nil
	case a.op.Has(ops.Insert):
		if !aligned || from >= n.Size {
			return unix.EINVAL
		}
		n = a.touch(id)
		n.Content = append(n.Content.slice(0, from), n.Content.slice(from, forever).moved(a.op.Length)...)
		n.Size += a.op.Length
		n.Reserved = uncover(n.Reserved, from, forever)
		return nil
	}
	n = a.touch(id)
	if a.op.Verb == ops.ZeroRange {
		n.Content = n.Content.without(from, end)
	}
	if !a.op.Has(ops.Unshare) {
		n.Reserved = cover(n.Reserved, from, end)
	}
	if !a.op.Has(ops.KeepSize) {
		n.Size = max(n.Size, end)
	}
	return nil
}

// clone is FICLONE and FICLONERANGE (generic_remap_file_range_prep, fs/remap_range.c).
func (a *applying) clone() error {
	source, err := a.opened()
	if err != nil {
		return err
	}
	s := a.Inodes[source]
	o := a.op
	if o.Verb == ops.Clone {
		a.op.File = a.op.To
		id, err := a.reach(true)
		if err != nil {
			return err
		}
		if !s.Regular() || !a.Inodes[id].Regular() {
			return unix.EINVAL
		}
		if a.Inodes[id].Size > 0 || len(a.Inodes[id].Reserved) > 0 || a.Inodes[id].Stamped {
			a.resize(id, 0)
		}
		s = a.Inodes[source]
		n := a.touch(id)
		n.Content, n.Size = s.Content, s.Size
		return nil
	}
	id, err := a.openedAs(o.To)
	if err != nil {
		return err
	}
	n := a.Inodes[id]
	end, at := o.Offset+o.Length, o.At+o.Length
	tail := end == s.Size && at >= n.Size
	switch {
	case !s.Regular() || !n.Regular():
		return unix.EINVAL
	case o.Offset%blockSize != 0 || o.At%blockSize != 0 || end > s.Size, o.Length%blockSize != 0 && !tail:
		return unix.EINVAL
	case source == id && o.At < end && o.Offset < at:
		return unix.EINVAL
	}
	n = a.touch(id)
	n.Content = n.Content.with(o.At, at, s.Content.slice(o.Offset, end).moved(o.At-o.Offset))
	n.Size, n.Reserved = max(n.Size, at), uncover(n.Reserved, o.At, at)
	return nil
}

// attribute is what changes neither bytes nor names.
func (a *applying) attribute() error {
	id, err := a.Find(a.op.File)
	if err != nil {
		return err
	}
	n := a.Inodes[id]
	switch a.op.Verb {
	case ops.SetXattr, ops.RemoveXattr:
		return a.xattr(id)
	case ops.Chmod:
		if n.Type == unix.S_IFLNK {
			return unix.EOPNOTSUPP
		}
		a.change().edit(id).Mode = a.op.Mode
	case ops.Chown:
		n = a.change().edit(id)
		n.UID, n.GID = a.op.UID, a.op.GID
		if !n.Dir() { // chown_common, fs/open.c
			n.Mode &^= unix.S_ISUID
			if n.Mode&unix.S_IXGRP != 0 {
				n.Mode &^= unix.S_ISGID
			}
		}
	case ops.Utimes:
		n = a.change().edit(id)
		n.Mtime, n.Stamped = a.op.Seconds, true
	}
	return nil
}

// xattr sets or removes an extended attribute (xattr_permission, fs/xattr.c).
func (a *applying) xattr(id ID) error {
	n, name := a.Inodes[id], a.op.Word
	user := len(name) > 5 && name[:5] == "user."
	if user && !n.Regular() && !n.Dir() {
		return unix.EPERM
	}
	if _, has := n.Xattrs[name]; !has && a.op.Verb == ops.RemoveXattr {
		return unix.ENODATA
	}
	n = a.change().edit(id)
	if a.op.Verb == ops.RemoveXattr {
		delete(n.Xattrs, name)
		return nil
	}
	if n.Xattrs == nil {
		n.Xattrs = map[string]string{}
	}
	n.Xattrs[name] = a.op.Value
	return nil
}
