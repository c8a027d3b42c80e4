package model

import (
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"powercut/guest/ops"
)

// Features are ops that not every file system knows.
type Features struct {
	Fallocate bool // its plain form, keep-size and punch
	Zero      bool // zero-range
	Shift     bool // collapse and insert
	Clone     bool
	Exchange  bool
	Tmpfile   bool
	Direct    bool // O_DIRECT of whole blocks
	Xattrs    bool
}

// FeaturesOf is what Linux 6.1 can do on a file system of that type.
func FeaturesOf(fs string) Features {
	f := Features{Fallocate: true, Zero: true, Exchange: true, Tmpfile: true, Direct: true, Xattrs: true}
	switch fs {
	case "ext2", "ext3": // without extents
		f.Fallocate, f.Zero = false, false
	case "ext4":
		f.Shift = true
	case "xfs":
		f.Shift, f.Clone = true, true
	case "btrfs":
		f.Clone = true
	case "f2fs":
		f.Shift = true
	case "jfs":
		f = Features{Direct: true, Xattrs: true}
	case "nilfs2":
		f = Features{Direct: true}
	}
	return f
}

// Random makes a list of ops that depends on r alone: n of them, over a few names, so
// that they meet. Most can be carried out; of those that cannot, which fail as the
// model says, some stay in the list, with the error allowed.
func Random(r *rand.Rand, n int, f Features) []ops.Op {
	g := &generator{r: r, features: f, state: New()}
	for len(g.list) < n {
		g.step()
	}
	return g.list
}

type generator struct {
	r        *rand.Rand
	features Features
	state    *State
	list     []ops.Op
}

// step tries one op.
func (g *generator) step() {
	o := g.draw()
	if !g.modelled(o) {
		return
	}
	states, err := Apply(g.state, o, len(g.list)+1)
	switch {
	case err == nil:
		g.state = states[len(states)-1]
	case g.r.IntN(8) > 0 || len(g.list) == 0:
		return
	default:
		o.Allow = []string{unix.ErrnoName(err.(unix.Errno))}
	}
	g.list = append(g.list, o)
}

// modelled tells whether the model knows what Linux does: it does not follow symbolic
// links, and special files are opened by nobody.
func (g *generator) modelled(o ops.Op) bool {
	for _, path := range []string{o.File, o.To} {
		if path == "" || ops.IsHandle(path) {
			continue
		}
		for i := range path {
			if path[i] == '/' && g.typeOf(path[:i]) == unix.S_IFLNK {
				return false
			}
		}
	}
	named := []ops.Verb{
		ops.Create, ops.Mkdir, ops.Mknod, ops.Link, ops.Symlink, ops.Rename, ops.Unlink, ops.Rmdir,
		ops.SetXattr, ops.RemoveXattr, ops.Chmod, ops.Chown, ops.Utimes,
	}
	kinds := []uint32{g.typeOf(o.File), g.typeOf(o.To)}
	special := func(t uint32) bool { return t != 0 && t != unix.S_IFREG && t != unix.S_IFDIR && t != unix.S_IFLNK }
	switch {
	case slices.Contains(named, o.Verb) || o.Verb == "":
		return o.Verb != ""
	case o.Verb == ops.Clone && (o.File == o.To || kinds[0] != unix.S_IFREG || kinds[1] != 0 && kinds[1] != unix.S_IFREG):
		return false
	case o.Verb == ops.CloneRange && (kinds[0] != unix.S_IFREG || kinds[1] != unix.S_IFREG):
		return false
	}
	return !slices.ContainsFunc(kinds, special)
}

func (g *generator) typeOf(file string) uint32 {
	id, err := g.state.Find(file)
	if file == "" || err != nil {
		return 0
	}
	return g.state.Inodes[id].Type
}

func pick[T any](g *generator, from ...T) T { return from[g.r.IntN(len(from))] }

// path is one of a few.
func (g *generator) path() string {
	return pick(g, "a", "b", "c", "d/a", "d/b", "d/e", "f/a", "d", "f", "d/e/a")
}

// file is a path, or now and then a descriptor that is open.
func (g *generator) file() string {
	if len(g.state.handles) > 0 && g.r.IntN(4) == 0 {
		return g.handle()
	}
	return g.path()
}

func (g *generator) handle() string {
	var open []string
	for _, h := range []string{"@x", "@y"} {
		if _, ok := g.state.Handle(h); ok {
			open = append(open, h)
		}
	}
	if len(open) == 0 {
		return ""
	}
	return pick(g, open...)
}

// closed is a descriptor that is not open, or "".
func (g *generator) closed() string {
	for _, h := range []string{"@x", "@y"} {
		if _, ok := g.state.Handle(h); !ok {
			return h
		}
	}
	return ""
}

// extent is a range, of whole blocks or not.
func (g *generator) extent(o *ops.Op, whole bool) {
	const most = 12 * blockSize
	o.Offset, o.Length = g.r.Int64N(most), 1+g.r.Int64N(most/3)
	if whole || g.r.IntN(2) == 0 {
		o.Offset, o.Length = o.Offset/blockSize*blockSize, (o.Length/blockSize+1)*blockSize
	}
}

// draw makes an op without a look at the state, but for descriptors.
func (g *generator) draw() ops.Op {
	switch n := g.r.IntN(40); {
	case n < 12:
		return g.drawName()
	case n < 24:
		return g.drawData()
	case n < 28:
		return g.drawAttribute()
	case n < 32:
		return g.drawHandle()
	case n < 39:
		return g.drawAllocation()
	}
	return g.drawSync()
}

func (g *generator) drawName() ops.Op {
	o := ops.Op{Verb: pick(g, ops.Create, ops.Mkdir, ops.Mkdir, ops.Link, ops.Rename, ops.Rename, ops.Unlink, ops.Rmdir, ops.Symlink, ops.Mknod), File: g.path()}
	switch o.Verb {
	case ops.Link:
		o.File, o.To = g.file(), g.path()
	case ops.Rename:
		o.To = g.path()
		if g.r.IntN(4) == 0 && g.features.Exchange {
			o.Flags = []string{pick(g, ops.Exchange, ops.NoReplace)}
		}
	case ops.Symlink:
		o.File, o.Word, o.To = "", pick(g, "a", "d/e", strings.Repeat("x", 80)), g.path()
	case ops.Mknod:
		if o.Word = pick(g, "fifo", "socket", "char"); o.Word == "char" {
			o.Major, o.Minor = 1, 3
		}
	}
	return o
}

func (g *generator) drawData() ops.Op {
	o := ops.Op{Verb: pick(g, ops.Write, ops.Write, ops.Append, ops.Pwrite, ops.Pwrite, ops.MmapWrite, ops.Truncate), File: g.file()}
	direct := g.features.Direct && o.Verb == ops.Pwrite && g.r.IntN(4) == 0
	g.extent(&o, direct)
	if direct {
		o.Flags = []string{ops.Direct}
	}
	if o.Verb == ops.Truncate {
		o.Length = 0
	}
	if o.Verb == ops.Write || o.Verb == ops.Append {
		o.Offset = 0
	}
	return o
}

func (g *generator) drawAllocation() ops.Op {
	f := g.features
	var can []ops.Op
	if f.Fallocate {
		can = append(can, ops.Op{Verb: ops.Fallocate}, ops.Op{Verb: ops.Fallocate, Flags: []string{ops.KeepSize}}, ops.Op{Verb: ops.Punch})
	}
	if f.Zero {
		can = append(can, ops.Op{Verb: ops.ZeroRange}, ops.Op{Verb: ops.ZeroRange, Flags: []string{ops.KeepSize}})
	}
	if f.Shift {
		can = append(can, ops.Op{Verb: ops.Fallocate, Flags: []string{ops.Collapse}}, ops.Op{Verb: ops.Fallocate, Flags: []string{ops.Insert}})
	}
	if f.Clone {
		can = append(can, ops.Op{Verb: ops.Clone, To: g.path()}, ops.Op{Verb: ops.CloneRange, To: g.path()})
	}
	if len(can) == 0 {
		return ops.Op{}
	}
	o := pick(g, can...)
	o.File = g.path()
	if o.Verb == ops.Clone {
		return o
	}
	g.extent(&o, o.Verb == ops.CloneRange || o.Has(ops.Collapse) || o.Has(ops.Insert))
	if o.Verb == ops.CloneRange {
		o.At = g.r.Int64N(8) * blockSize
	}
	return o
}

func (g *generator) drawAttribute() ops.Op {
	o := ops.Op{Verb: pick(g, ops.SetXattr, ops.SetXattr, ops.RemoveXattr, ops.Chmod, ops.Chown, ops.Utimes), File: g.file()}
	if !g.features.Xattrs && (o.Verb == ops.SetXattr || o.Verb == ops.RemoveXattr) {
		return ops.Op{}
	}
	switch o.Verb {
	case ops.SetXattr:
		o.Word, o.Value = pick(g, "user.x", "user.y", "trusted.z"), pick(g, "1", strings.Repeat("v", 100))
	case ops.RemoveXattr:
		o.Word = pick(g, "user.x", "user.y", "trusted.z")
	case ops.Chmod:
		o.Mode = pick(g, uint32(0o600), 0o755, 0o4755, 0o2770, 0)
	case ops.Chown:
		o.UID, o.GID = uint32(g.r.IntN(3)*1000), uint32(g.r.IntN(3)*1000)
	case ops.Utimes:
		o.Seconds = 1_000_000_000 + g.r.Int64N(1000)
	}
	return o
}

func (g *generator) drawHandle() ops.Op {
	h := g.closed()
	if h == "" || g.r.IntN(3) == 0 {
		if h = g.handle(); h == "" {
			return ops.Op{}
		}
		return ops.Op{Verb: ops.Close, File: h}
	}
	if g.features.Tmpfile && g.r.IntN(3) == 0 {
		return ops.Op{Verb: ops.Tmpfile, File: pick(g, ".", "d"), Handle: h}
	}
	o := ops.Op{Verb: ops.Open, File: g.path(), Handle: h}
	if g.r.IntN(2) == 0 {
		o.Flags = pick(g, []string{ops.OCreat}, []string{ops.OTrunc}, []string{ops.OCreat, ops.OTrunc})
	}
	return o
}

func (g *generator) drawSync() ops.Op {
	o := ops.Op{Verb: pick(g, ops.Fsync, ops.Fsync, ops.Fdatasync, ops.Msync, ops.SyncFileRange, ops.DropCaches, ops.Syncfs)}
	switch o.Verb {
	case ops.Fsync, ops.Fdatasync:
		o.File = g.file()
	case ops.Msync, ops.SyncFileRange:
		o.File = g.file()
		g.extent(&o, true)
	}
	return o
}
