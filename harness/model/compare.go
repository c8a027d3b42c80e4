package model

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
)

// Differences says in what a tree, read from a file system on which the ops ran to
// their end, differs from the state: one line each, nothing where they agree.
func Differences(s *State, t *inspect.Tree, seed uint64) (out []string) {
	found := map[string]*inspect.Object{}
	for i, o := range t.Objects {
		found[o.Path] = &t.Objects[i]
	}
	inodes := map[ID]uint64{}
	names := map[uint64]ID{}
	s.Walk(func(path string, id ID) {
		o := found[path]
		delete(found, path)
		if o == nil {
			out = append(out, path+": is missing")
			return
		}
		if ino, known := inodes[id]; known && ino != o.Ino {
			out = append(out, path+": is another inode than its other names")
		}
		if other, known := names[o.Ino]; known && other != id {
			out = append(out, path+": is the inode of another name")
		}
		inodes[id], names[o.Ino] = o.Ino, id
		for _, d := range Aspects(s.Inodes[id], t, o, seed) {
			out = append(out, path+": "+d)
		}
	})
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if !inspect.Own(path) {
			out = append(out, path+": should not be there")
		}
	}
	return out
}

// Aspects says in what an object differs from an inode, names left out.
func Aspects(n *Inode, t *inspect.Tree, o *inspect.Object, seed uint64) (out []string) {
	differ := func(what string, got, want any) {
		if got != want {
			out = append(out, fmt.Sprintf("%s is %v, not %v", what, got, want))
		}
	}
	differ("unread", o.Unread, "")
	differ("type", TypeName(o.Mode), TypeName(n.Type))
	if o.Mode&unix.S_IFMT != n.Type {
		return out
	}
	differ("mode", fmt.Sprintf("%o", o.Mode&^unix.S_IFMT), fmt.Sprintf("%o", n.Mode))
	differ("owner", fmt.Sprintf("%d:%d", o.UID, o.GID), fmt.Sprintf("%d:%d", n.UID, n.GID))
	differ("target", o.Target, n.Target)
	if n.Stamped {
		differ("mtime", o.Mtime, n.Mtime*1e9)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Xattrs)) {
		differ(name, fmt.Sprintf("%q", o.Xattrs[name]), fmt.Sprintf("%q", n.Xattrs[name]))
	}
	differ("number of attributes", len(o.Xattrs), len(n.Xattrs))
	if !n.Dir() {
		differ("link count", int(o.Links), n.Links)
	}
	if n.Type == unix.S_IFCHR || n.Type == unix.S_IFBLK {
		differ("device", o.Rdev, n.Rdev)
	}
	if n.Regular() {
		differ("size", o.Size, n.Size)
		if off, ok := mismatch(n, t, o, seed); ok {
			out = append(out, fmt.Sprintf("content differs at %d", off))
		}
		if got := o.Blocks * 512; got < n.Held() {
			out = append(out, fmt.Sprintf("%d bytes are allocated, %d were reserved", got, n.Held()))
		}
	}
	return out
}

// Held is how many bytes of whole blocks fallocate has reserved for the file.
func (n *Inode) Held() (sum int64) {
	for _, e := range n.Reserved {
		first := (e.Offset + blockSize - 1) / blockSize * blockSize
		if last := e.End() / blockSize * blockSize; last > first {
			sum += last - first
		}
	}
	return sum
}

// mismatch finds the first byte that is not the inode's.
func mismatch(n *Inode, t *inspect.Tree, o *inspect.Object, seed uint64) (off int64, ok bool) {
	var want, got [blockSize]byte
	for off := int64(0); off < min(n.Size, o.Size); {
		k := min(blockSize, n.Size-off, o.Size-off)
		n.Content.Read(want[:k], off, seed)
		t.Read(o, got[:k], off)
		for i := range k {
			if got[i] != want[i] {
				return off + i, true
			}
		}
		off += k
	}
	return 0, false
}

// TypeName is the type in a mode, in words.
func TypeName(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symbolic link"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFCHR:
		return "character device"
	case unix.S_IFBLK:
		return "block device"
	}
	return fmt.Sprintf("file of type %o", mode&unix.S_IFMT)
}
