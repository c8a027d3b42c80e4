package generate

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"powercut/guest/ops"
)

// The names: two files at the root, and two directories with two files each. What can
// be had by exchanging names that are alike is the same to a file system.
var (
	files       = []string{"a", "b", "d/a", "d/b", "e/a", "e/b"}
	directories = []string{"d", "e"}
)

// Sizes in bytes. A file that is there has four blocks.
const (
	block    = 4096
	fileSize = 4 * block
	attr     = "user.x"
)

// step is an op of a sequence, or a few that go together, and what it takes to succeed
// and to do what it is there for.
type step struct {
	ops    []ops.Op
	needs  []string // paths that are there: directories, files, attributes as FILE#NAME
	absent []string // paths that are not
}

// kind is a set of steps under one name.
type kind struct {
	name    string
	meaning string
	steps   func() []step
}

// Kinds lists the names of kinds of ops.
func Kinds() (out []string) {
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// Meaning says what the ops of a kind are.
func Meaning(name string) string {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	return kinds[i].meaning
}

var kinds = []kind{
	{"create", "an empty file made", onNew(ops.Op{Verb: ops.Create})},
	{"mkdir", "a directory made", func() (out []step) {
		for _, d := range directories {
			out = append(out, step{ops: []ops.Op{{Verb: ops.Mkdir, File: d}}, absent: []string{d}})
		}
		return out
	}},
	{"mknod", "a fifo made", onNew(ops.Op{Verb: ops.Mknod, Word: "fifo"})},
	{"symlink", "a symbolic link made", func() (out []step) {
		for _, f := range files {
			out = append(out, step{ops: []ops.Op{{Verb: ops.Symlink, Word: "target", To: f}}, absent: []string{f}})
		}
		return out
	}},
	{"tmpfile", "a file without a name written, and linked", func() (out []step) {
		for _, f := range files {
			out = append(out, step{
				ops:    []ops.Op{{Verb: ops.Tmpfile, File: parent(f), Handle: "@t"}, {Verb: ops.Append, File: "@t", Length: 2 * block}, {Verb: ops.Link, File: "@t", To: f}, {Verb: ops.Close, File: "@t"}},
				absent: []string{f},
			})
		}
		return out
	}},
	{"write", "a file written as the shell's > does: a new one, and one that is there", both(
		onNew(ops.Op{Verb: ops.Write, Length: 2 * block}),
		on(ops.Op{Verb: ops.Write, Length: 2 * block}))},
	{"append", "blocks and part of a block added at the end", on(
		ops.Op{Verb: ops.Append, Length: block},
		ops.Op{Verb: ops.Append, Length: 100})},
	{"overwrite", "a block, parts of two, and the end overwritten", on(
		ops.Op{Verb: ops.Pwrite, Offset: block, Length: block},
		ops.Op{Verb: ops.Pwrite, Offset: block / 2, Length: block},
		ops.Op{Verb: ops.Pwrite, Offset: fileSize - block/2, Length: block})},
	{"direct", "the same by O_DIRECT: a block, and beyond the end", on(
		ops.Op{Verb: ops.Pwrite, Offset: block, Length: block, Flags: []string{ops.Direct}},
		ops.Op{Verb: ops.Pwrite, Offset: fileSize, Length: block, Flags: []string{ops.Direct}})},
	{"mmap", "a block and parts of two overwritten through a mapping", on(
		ops.Op{Verb: ops.MmapWrite, Offset: block, Length: block},
		ops.Op{Verb: ops.MmapWrite, Offset: block / 2, Length: block})},
	{"truncate", "a file made shorter, and longer", on(
		ops.Op{Verb: ops.Truncate, Offset: 0},
		ops.Op{Verb: ops.Truncate, Offset: block + block/2},
		ops.Op{Verb: ops.Truncate, Offset: fileSize + block + block/2})},
	{"falloc", "blocks reserved beyond the end, the size kept or not", on(
		ops.Op{Verb: ops.Fallocate, Offset: fileSize, Length: 2 * block},
		ops.Op{Verb: ops.Fallocate, Offset: fileSize, Length: 2 * block, Flags: []string{ops.KeepSize}})},
	{"punch", "holes of a block and of parts of two", on(
		ops.Op{Verb: ops.Punch, Offset: block, Length: block},
		ops.Op{Verb: ops.Punch, Offset: block / 2, Length: block})},
	{"zero", "zeros in the middle, and across the end with the size kept or not", on(
		ops.Op{Verb: ops.ZeroRange, Offset: block, Length: block},
		ops.Op{Verb: ops.ZeroRange, Offset: fileSize - block, Length: 2 * block},
		ops.Op{Verb: ops.ZeroRange, Offset: fileSize - block, Length: 2 * block, Flags: []string{ops.KeepSize}})},
	{"shift", "a block taken out of a file, and put in", on(
		ops.Op{Verb: ops.Fallocate, Offset: block, Length: block, Flags: []string{ops.Collapse}},
		ops.Op{Verb: ops.Fallocate, Offset: block, Length: block, Flags: []string{ops.Insert}})},
	{"clone", "a file's blocks shared with a new one", onPairs(ops.Op{Verb: ops.Clone})},
	{"setxattr", "an attribute set", on(ops.Op{Verb: ops.SetXattr, Word: attr, Value: "1"})},
	{"removexattr", "and removed", func() (out []step) {
		for _, f := range files {
			out = append(out, step{ops: []ops.Op{{Verb: ops.RemoveXattr, File: f, Word: attr}}, needs: []string{f, f + "#" + attr}})
		}
		return out
	}},
	{"chmod", "permissions changed", on(ops.Op{Verb: ops.Chmod, Mode: 0o600})},
	{"link", "a further name", onPairs(ops.Op{Verb: ops.Link})},
	{"rename", "a new name, of a file and of a directory with a file", both(
		onPairs(ops.Op{Verb: ops.Rename}),
		func() []step {
			return []step{
				{ops: []ops.Op{{Verb: ops.Rename, File: "d", To: "e"}}, needs: []string{"d/a"}, absent: []string{"e"}},
				{ops: []ops.Op{{Verb: ops.Rename, File: "e", To: "d"}}, needs: []string{"e/a"}, absent: []string{"d"}},
				{ops: []ops.Op{{Verb: ops.Rename, File: "d", To: "e/d"}}, needs: []string{"d/a", "e"}, absent: []string{"e/d"}},
				{ops: []ops.Op{{Verb: ops.Rename, File: "e", To: "d/e"}}, needs: []string{"e/a", "d"}, absent: []string{"d/e"}},
			}
		})},
	{"replace", "a file renamed over another, and a directory over an empty one", both(
		onExisting(ops.Op{Verb: ops.Rename}),
		func() []step {
			return []step{
				{ops: []ops.Op{{Verb: ops.Rename, File: "d", To: "e"}}, needs: []string{"d/a", "e"}, absent: []string{"e/a", "e/b"}},
				{ops: []ops.Op{{Verb: ops.Rename, File: "e", To: "d"}}, needs: []string{"e/a", "d"}, absent: []string{"d/a", "d/b"}},
			}
		})},
	{"exchange", "two names exchanged, of files and of directories", func() (out []step) {
		exchange := ops.Op{Verb: ops.Rename, Flags: []string{ops.Exchange}}
		for _, s := range onExisting(exchange)() {
			if s.ops[0].File < s.ops[0].To {
				out = append(out, s)
			}
		}
		exchange.File, exchange.To = "d", "e"
		return append(out, step{ops: []ops.Op{exchange}, needs: []string{"d/a", "e"}})
	}},
	{"unlink", "a name removed", on(ops.Op{Verb: ops.Unlink})},
	{"rmdir", "an empty directory removed", func() (out []step) {
		for _, d := range directories {
			out = append(out, step{ops: []ops.Op{{Verb: ops.Rmdir, File: d}}, needs: []string{d}, absent: []string{d + "/a", d + "/b"}})
		}
		return out
	}},
}

// on are steps on each file, which is there.
func on(list ...ops.Op) func() []step {
	return func() (out []step) {
		for _, f := range files {
			for _, o := range list {
				o.File = f
				out = append(out, step{ops: []ops.Op{o}, needs: []string{f}})
			}
		}
		return out
	}
}

// onNew are steps on each file, which is not there.
func onNew(o ops.Op) func() []step {
	return func() (out []step) {
		for _, f := range files {
			o.File = f
			out = append(out, step{ops: []ops.Op{o}, absent: []string{f}})
		}
		return out
	}
}

// onPairs are steps from each file to each other, which is not there.
func onPairs(o ops.Op) func() []step {
	return pairs(o, func(s *step, to string) { s.absent = []string{to} })
}

// onExisting are steps from each file to each other, which is there.
func onExisting(o ops.Op) func() []step {
	return pairs(o, func(s *step, to string) { s.needs = append(s.needs, to) })
}

func pairs(o ops.Op, target func(s *step, to string)) func() []step {
	return func() (out []step) {
		for _, from := range files {
			for _, to := range files {
				if from == to {
					continue
				}
				o.File, o.To = from, to
				s := step{ops: []ops.Op{o}, needs: []string{from}}
				target(&s, to)
				out = append(out, s)
			}
		}
		return out
	}
}

func both(a, b func() []step) func() []step {
	return func() []step { return append(a(), b()...) }
}

// parent is the directory of a path.
func parent(path string) string {
	file, _, _ := strings.Cut(path, "#")
	if file != path {
		return file
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

// makes is the op that makes what a path stands for.
func makes(path string) ops.Op {
	switch file, name, isAttr := strings.Cut(path, "#"); {
	case isAttr:
		return ops.Op{Verb: ops.SetXattr, File: file, Word: name, Value: "0"}
	case slices.Contains(directories, path):
		return ops.Op{Verb: ops.Mkdir, File: path}
	}
	return ops.Op{Verb: ops.Write, File: path, Length: fileSize}
}

// has tells whether what a path stands for is there.
func (s sequence) has(path string) bool {
	file, name, isAttr := strings.Cut(path, "#")
	id, err := s.state.Find(file)
	if err != nil {
		return false
	}
	if !isAttr {
		return slices.Contains(directories, path) == s.state.Get(id).Dir() && s.plain(path)
	}
	_, ok := s.state.Get(id).Xattrs[name]
	return ok
}

// plain tells whether a path leads to a directory or a regular file.
func (s sequence) plain(path string) bool {
	id, err := s.state.Find(path)
	return err == nil && (s.state.Get(id).Type == unix.S_IFREG || s.state.Get(id).Dir())
}

// isFile tells whether a path leads to a regular file.
func (s sequence) isFile(path string) bool {
	id, err := s.state.Find(path)
	return err == nil && s.state.Get(id).Regular()
}

// named are the paths that ops name, and the directories that hold these, each once.
func named(list []ops.Op) (out []string) {
	add := func(path string) {
		if path != "" && !ops.IsHandle(path) && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	for _, o := range list {
		add(o.File)
		add(o.To)
	}
	for _, path := range slices.Clone(out) {
		if path != "." {
			add(parent(path))
		}
	}
	return out
}
