// Package inspect reads a whole directory tree, with all that a program can see of
// it, and tries whether a file system still works. The types are shared with the
// harness, which judges what was read.
package inspect

import (
	"bytes"
	"fmt"
	"strings"
)

// Tree is all that was found below a directory.
type Tree struct {
	Objects []Object `json:"objects"` // the directory itself first; each before what is in it
	// Data is the content of all files: their pieces, one after the other. It is not
	// part of the JSON, and travels by itself.
	Data []byte `json:"-"`
	// Over: the files hold more than MaxData, and not all of it was read.
	Over bool `json:"over,omitempty"`
}

// Object is what one path leads to.
type Object struct {
	Path   string            `json:"path"` // below the directory; "." for itself
	Ino    uint64            `json:"ino"`
	Mode   uint32            `json:"mode"` // st_mode: type and permissions
	Links  uint64            `json:"links"`
	UID    uint32            `json:"uid,omitempty"`
	GID    uint32            `json:"gid,omitempty"`
	Rdev   uint64            `json:"rdev,omitempty"`
	Size   int64             `json:"size"`
	Blocks int64             `json:"blocks"`           // of 512 bytes
	Mtime  int64             `json:"mtime"`            // nanoseconds since the epoch
	Target string            `json:"target,omitempty"` // of a symbolic link
	Xattrs map[string][]byte `json:"xattrs,omitempty"`
	// Pieces are the parts of a file that are not zeros, ascending: Data of the tree
	// holds them. What lies between them is zeros.
	Pieces []Piece `json:"pieces,omitempty"`
	// Unread says why a part of all that could not be read.
	Unread string `json:"unread,omitempty"`
}

// Own tells whether a path is one of those that mkfs makes, and that are nobody's: of the
// ext family and of NILFS2.
func Own(path string) bool { return path == "lost+found" || path == ".nilfs" }

// Piece is a range of a file's bytes, and where in Data they are.
type Piece struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	At     int64 `json:"at"`
}

// Check says what is wrong with a tree that was sent: it has no root, or its pieces do
// not fit its data.
func (t *Tree) Check() error {
	if t.Over {
		return fmt.Errorf("read tree: the files hold more than %d MiB, which is all that can be looked at", MaxData>>20)
	}
	n := int64(0)
	for _, o := range t.Objects {
		for _, p := range o.Pieces {
			if p.At != n || p.Length <= 0 || p.Offset < 0 {
				return fmt.Errorf("read tree: %s has a piece %+v where %d bytes were read", o.Path, p, n)
			}
			n += p.Length
		}
	}
	if n != int64(len(t.Data)) {
		return fmt.Errorf("read tree: %d bytes of files arrived, want %d", len(t.Data), n)
	}
	return nil
}

// Below is the part of the tree below a directory of it, with that as its root; the
// root alone where there is no such directory. It shares the tree's data.
func (t *Tree) Below(dir string) *Tree {
	out := &Tree{Data: t.Data}
	for _, o := range t.Objects {
		if rest, below := strings.CutPrefix(o.Path, dir+"/"); below {
			o.Path = rest
		} else if o.Path == dir {
			o.Path = "."
		} else {
			continue
		}
		out.Objects = append(out.Objects, o)
	}
	if len(out.Objects) == 0 {
		out.Objects = []Object{{Path: "."}}
	}
	return out
}

// Read sets buf to the object's bytes from offset off on.
func (t *Tree) Read(o *Object, buf []byte, off int64) {
	clear(buf)
	end := off + int64(len(buf))
	for _, p := range o.Pieces {
		a, b := max(off, p.Offset), min(end, p.Offset+p.Length)
		if a < b {
			copy(buf[a-off:b-off], t.Data[p.At+a-p.Offset:])
		}
	}
}

// Zeros tells whether the object's bytes in a range are all zeros.
func (t *Tree) Zeros(o *Object, from, to int64) bool {
	for _, p := range o.Pieces {
		a, b := max(from, p.Offset), min(to, p.Offset+p.Length)
		if a < b && len(bytes.Trim(t.Data[p.At+a-p.Offset:p.At+b-p.Offset], "\x00")) > 0 {
			return false
		}
	}
	return true
}
