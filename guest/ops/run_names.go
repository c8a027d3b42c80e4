package ops

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// name is what changes directories.
func (r *runner) name(o Op) error {
	path := r.path(o.File)
	switch o.Verb {
	case Mkdir:
		return unix.Mkdir(path, 0o755)
	case Unlink:
		return unix.Unlink(path)
	case Rmdir:
		return unix.Rmdir(path)
	case Symlink:
		return unix.Symlink(o.Word, r.path(o.To))
	case Rename:
		var flags uint
		if o.Has(Exchange) {
			flags = unix.RENAME_EXCHANGE
		} else if o.Has(NoReplace) {
			flags = unix.RENAME_NOREPLACE
		}
		return unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, r.path(o.To), flags)
	case Mknod:
		kind := map[string]uint32{"fifo": unix.S_IFIFO, "socket": unix.S_IFSOCK, "char": unix.S_IFCHR, "block": unix.S_IFBLK}[o.Word]
		return unix.Mknod(path, kind|0o644, int(unix.Mkdev(o.Major, o.Minor)))
	}
	if !IsHandle(o.File) {
		return unix.Link(path, r.path(o.To))
	}
	fd, ok := r.handles[o.File]
	if !ok {
		return unix.EBADF
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, r.path(o.To), unix.AT_SYMLINK_FOLLOW)
}

// attribute is what changes an inode and not its data. Of a symbolic link it is the
// link's own, where that is possible at all.
func (r *runner) attribute(o Op) error {
	if IsHandle(o.File) {
		return r.with(o.File, 0, func(fd int) error { return attributeOf(o, fd) })
	}
	path := r.path(o.File)
	switch o.Verb {
	case SetXattr:
		return unix.Lsetxattr(path, o.Word, []byte(o.Value), 0)
	case RemoveXattr:
		return unix.Lremovexattr(path, o.Word)
	case Chmod: // chmod(2) would follow a symbolic link
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return unix.EOPNOTSUPP
		}
		return unix.Chmod(path, o.Mode)
	case Chown:
		return unix.Lchown(path, int(o.UID), int(o.GID))
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, o.times(), unix.AT_SYMLINK_NOFOLLOW)
}

func attributeOf(o Op, fd int) error {
	switch o.Verb {
	case SetXattr:
		return unix.Fsetxattr(fd, o.Word, []byte(o.Value), 0)
	case RemoveXattr:
		return unix.Fremovexattr(fd, o.Word)
	case Chmod:
		return unix.Fchmod(fd, o.Mode)
	case Chown:
		return unix.Fchown(fd, int(o.UID), int(o.GID))
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), o.times(), 0)
}

func (o Op) times() []unix.Timespec {
	t := unix.Timespec{Sec: o.Seconds}
	return []unix.Timespec{t, t}
}
