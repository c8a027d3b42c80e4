package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The limits of what is read: a damaged file system may claim to hold anything.
const (
	maxObjects = 4096
	MaxData    = 64 << 20 // bytes of all files together, a file counted for each of its names
	blockSize  = 4096     // what zeros are looked for in, bytes
)

// Walk reads the tree below dir, and writes its Data to data: a guest has no memory for
// it. What it cannot read it says in the object that is concerned: only a dir that
// cannot be read at all is an error. Those of data are left to the caller.
func Walk(dir string, data io.Writer) (*Tree, error) {
	w := &walker{dir: dir, tree: &Tree{}, data: data}
	w.visit(".")
	if root := w.tree.Objects[0]; root.Unread != "" {
		return w.tree, errors.New(root.Unread)
	}
	return w.tree, nil
}

type walker struct {
	dir     string
	tree    *Tree
	data    io.Writer
	written int64 // to data
}

// visit adds the object at path, and what is in it.
func (w *walker) visit(path string) {
	full := filepath.Join(w.dir, path)
	w.tree.Objects = append(w.tree.Objects, Object{Path: path})
	at := len(w.tree.Objects) - 1
	o := &w.tree.Objects[at]
	if err := o.describe(full); err != nil {
		o.Unread = err.Error()
		return
	}
	switch o.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if err := w.read(full, o); err != nil {
			o.Unread = err.Error()
		}
	case unix.S_IFDIR:
		names, err := names(full)
		if err != nil {
			o.Unread = err.Error()
		}
		for _, name := range names {
			if len(w.tree.Objects) >= maxObjects {
				w.tree.Objects[at].Unread = fmt.Sprintf("more than %d objects in all", maxObjects)
				return
			}
			w.visit(filepath.Join(path, name))
		}
	}
}

func names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := d.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

// describe reads all but the content.
func (o *Object) describe(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("lstat: %w", err)
	}
	o.Ino, o.Mode, o.Links, o.UID, o.GID = st.Ino, st.Mode, st.Nlink, st.Uid, st.Gid
	o.Rdev, o.Size, o.Blocks, o.Mtime = st.Rdev, st.Size, st.Blocks, st.Mtim.Nano()
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		var err error
		if o.Target, err = os.Readlink(path); err != nil {
			return fmt.Errorf("readlink: %w", err)
		}
	}
	return o.attributes(path)
}

// attributes reads the extended attributes that a program can set.
func (o *Object) attributes(path string) error {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err == unix.EOPNOTSUPP || n == 0 && err == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listxattr: %w", err)
	}
	list := string(buf[:n])
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		n, err := unix.Lgetxattr(path, name, buf)
		if err != nil {
			return fmt.Errorf("getxattr %s: %w", name, err)
		}
		if o.Xattrs == nil {
			o.Xattrs = map[string][]byte{}
		}
		o.Xattrs[name] = bytes.Clone(buf[:n])
	}
	return nil
}

// read adds the parts of a file that are not zeros. Holes are passed over where the
// file is large (SEEK_DATA, lseek(2)).
func (w *walker) read(path string, o *Object) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 256<<10)
	for off := int64(0); off < o.Size; {
		if o.Size > MaxData/4 {
			next, err := unix.Seek(fd, off, unix.SEEK_DATA)
			if err == unix.ENXIO {
				return nil
			}
			if err == nil {
				off = next
			}
		}
		n, err := unix.Pread(fd, buf, off)
		if err != nil {
			return fmt.Errorf("read at %d: %w", off, err)
		}
		if n == 0 {
			return fmt.Errorf("read: it ends after %d bytes, its size is %d", off, o.Size)
		}
		if err := w.keep(o, buf[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// keep adds the blocks of b that are not zeros.
func (w *walker) keep(o *Object, b []byte, off int64) error {
	for len(b) > 0 {
		n := min(len(b), blockSize)
		if !zeros(b[:n]) {
			if w.written+int64(n) > MaxData {
				w.tree.Over = true
				return fmt.Errorf("read at %d: more than %d bytes in all", off, MaxData)
			}
			w.add(o, b[:n], off)
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

func zeros(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// add appends bytes to the last piece, or begins another.
func (w *walker) add(o *Object, b []byte, off int64) {
	if n := len(o.Pieces); n > 0 && o.Pieces[n-1].Offset+o.Pieces[n-1].Length == off {
		o.Pieces[n-1].Length += int64(len(b))
	} else {
		o.Pieces = append(o.Pieces, Piece{off, int64(len(b)), w.written})
	}
	_, _ = w.data.Write(b) // see Walk
	w.written += int64(len(b))
}
