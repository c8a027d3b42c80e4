package promise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/harness/model"
)

const seed = 77

// parse reads ops.
func parse(t *testing.T, lines ...string) (out []ops.Op) {
	t.Helper()
	for _, l := range lines {
		o, err := ops.Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// done is the history of ops that all ended, with success where the model knows none
// of an error.
func done(list []ops.Op) History {
	h := History{Plan: ops.Plan{Ops: list, Seed: seed}, Started: uint64(len(list)), Records: []ledger.Record{{Synced: true}}}
	s := model.New()
	for i, o := range list {
		r := ledger.Record{Op: uint64(i + 1)}
		if states, err := model.Apply(s, o, i+1); err != nil {
			r.Errno = int32(err.(unix.Errno))
		} else {
			s = states[len(states)-1]
			r.Synced = o.Syncs()
		}
		h.Records = append(h.Records, r)
	}
	return h
}

// after is the model's state after ops.
func after(t *testing.T, list []ops.Op) *model.State {
	t.Helper()
	f, err := follow(done(list), Profile{})
	if err != nil {
		t.Fatal(err)
	}
	return f.current()
}

// render is the tree that a file system in that state shows.
func render(s *model.State) *inspect.Tree {
	t := &inspect.Tree{}
	s.Walk(func(path string, id model.ID) {
		n := s.Get(id)
		o := inspect.Object{
			Path: path, Ino: uint64(id) + 100, Mode: n.Type | n.Mode, UID: n.UID, GID: n.GID, Links: uint64(n.Links),
			Rdev: n.Rdev, Target: n.Target, Size: n.Size, Blocks: (n.Held()+n.Size)/512 + 8, Mtime: 1700,
		}
		if n.Stamped {
			o.Mtime = n.Mtime * 1e9
		}
		for name, value := range n.Xattrs {
			if o.Xattrs == nil {
				o.Xattrs = map[string][]byte{}
			}
			o.Xattrs[name] = []byte(value)
		}
		if n.Regular() && n.Size > 0 {
			data := make([]byte, n.Size)
			n.Content.Read(data, 0, seed)
			o.Pieces = []inspect.Piece{{Offset: 0, Length: n.Size, At: int64(len(t.Data))}}
			t.Data = append(t.Data, data...)
		}
		t.Objects = append(t.Objects, o)
	})
	return t
}

func object(t *inspect.Tree, path string) *inspect.Object {
	i := slices.IndexFunc(t.Objects, func(o inspect.Object) bool { return o.Path == path })
	return &t.Objects[i]
}

func judge(t *testing.T, h History, p Profile, tree *inspect.Tree) Result {
	t.Helper()
	r, err := Judge(h, p, Found{Tree: tree})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// say is a result in one line.
func say(r Result) string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("%s: %s %s: %s", f.Class, f.Path, f.Aspect, f.Found))
	}
	return strings.Join(out, "; ")
}

var (
	ext4 = ProfileOf("ext4", nil, "")
	ext2 = ProfileOf("ext2", nil, "")
)

// TestStories: what is left of a few ops, as the tree after other ops, and the verdict.
func TestStories(t *testing.T) {
	none := func(*inspect.Tree) {}
	for _, c := range []struct {
		name    string
		profile Profile
		ops     string // what was done
		left    string // what the tree is as after
		change  func(*inspect.Tree)
		want    string // of the findings, each begins with one of these
	}{
		{"all kept", ext4, "write a 8KiB; fsync a; fsync .", "write a 8KiB", none, ""},
		{"nothing synced, nothing left", ext4, "write a 8KiB; mkdir d", "sync", none, "lost, not promised: a name: missing; lost, not promised: d name: missing"},
		{"name of a synced file", ext4, "write a 8KiB; fsync a", "sync", none, "lost, customary: a name: missing"},
		{"name of a synced file, without a journal", ext2, "write a 8KiB; sync; link a b; fsync a", "write a 8KiB", none, "lost, not promised: b name: missing"},
		{"name in a synced directory", ext2, "write a 8KiB; fsync .", "sync", none, "lost, promised: a name: missing"},
		{"synced bytes", ext4, "write a 8KiB; fsync a; fsync .", "write a 8KiB", func(x *inspect.Tree) { clear(x.Data[4096:]) }, "lost, promised: a content: the end of the file at 0 at byte 4096"},
		{"unsynced bytes", ext4, "write a 8KiB; fsync .", "write a 8KiB", func(x *inspect.Tree) { clear(x.Data[4096:]) }, "lost, not promised: a content: older at byte 4096"},
		{"foreign bytes", ext4, "write a 8KiB; fsync .", "write a 8KiB", func(x *inspect.Tree) { x.Data[5000] ^= 0x40 }, "never allowed: a content: byte 0x"},
		{"stale bytes, writeback", ProfileOf("ext4", nil, "data=writeback"), "write a 8KiB; fsync .", "write a 8KiB", func(x *inspect.Tree) { x.Data[5000] ^= 0x40 }, "lost, not promised: a content: what the disk held before"},
		{"overwritten bytes may be old or new", ext4, "write a 8KiB; fsync a; fsync .; pwrite a 0+8KiB", "write a 8KiB", none, "lost, not promised: a content: older at byte 0"},
		{"size", ext4, "write a 8KiB; fsync a; fsync .; append a 4KiB; fdatasync a", "write a 8KiB", none, "lost, promised: a size: 8192"},
		{"size on its way", ext4, "write a 8KiB; fsync .", "write a 4KiB; fsync .", none, "lost, not promised: a size: 4096"},
		{"fdatasync keeps no mode", ext4, "create a; fsync a; fsync .; chmod a 600; fdatasync a", "create a", none, "lost, not promised: a mode: 644"},
		{"fsync does", ext4, "create a; fsync a; fsync .; chmod a 600; fsync a", "create a", none, "lost, promised: a mode: 644"},
		{"a mode of nobody", ext4, "create a; fsync .", "create a; chmod a 777", none, "never allowed: a mode: 777"},
		{"xattr is back", ext4, "create a; setxattr a user.x 1; fsync a; fsync .; removexattr a user.x; fsync a", "create a; setxattr a user.x 1", none, "lost, promised: a user.x: \"1\""},
		{"renamed, both names", ext4, "write a 4KiB; sync; rename a b", "write a 4KiB; link a b", none, "lost, not promised: a name: the file of op 1; never allowed: a rename: half of op 3: both"},
		{"renamed, neither name", ext4, "write a 4KiB; sync; rename a b", "sync", none, "lost, not promised: b name: missing; never allowed: a rename: half of op 3: neither"},
		{"renamed, neither name, without a journal", ext2, "write a 4KiB; sync; rename a b", "sync", none, "lost, not promised: b name: missing"},
		{"moved, and the old parent synced", ext4, "mkdir d; mkdir e; write d/a 4KiB; sync; rename d/a e/a; fsync d", "mkdir d; mkdir e", none, "lost, not promised: e/a name: missing; never allowed: d/a rename: half of op 5: neither"},
		{"old name taken again", ext4, "write a 4KiB; sync; rename a b; write a 8KiB; fsync a", "sync; sync; sync; write a 8KiB", none, "never allowed: a rename: half of op 3: a is the file of op 4, b is no such name"},
		{"replaced, old bytes", ext4, "write a 4KiB; sync; write b 8KiB; rename b a", "write a 4KiB", none, "lost, not promised: a name: the file of op 1"},
		{"replaced, no bytes", ext4, "write a 4KiB; sync; write b 8KiB; rename b a", "sync; sync; write b 8KiB; rename b a", func(x *inspect.Tree) { clear(x.Data) }, "lost, customary: a content: the end of the file at 0 at byte 0"},
		{"replaced, no bytes, noauto_da_alloc", ProfileOf("ext4", nil, "noauto_da_alloc"), "write a 4KiB; sync; write b 8KiB; rename b a", "sync; sync; write b 8KiB; rename b a", func(x *inspect.Tree) { clear(x.Data) }, "lost, not promised: a content"},
		{"empty symbolic link", ext4, "symlink x s; fsync .", "symlink y s", none, "never allowed: s target"},
		{"link count", ext4, "create a; link a b; sync", "create a; link a b", func(x *inspect.Tree) { object(x, "a").Links, object(x, "b").Links = 1, 1 }, "never allowed: a link count: 1"},
		{"two names, two files", ext4, "create a; link a b; sync", "create a; create b", none, "never allowed: b identity"},
		{"unlinked name is back", ext4, "create a; link a b; sync; unlink b; fsync .", "create a; link a b", none, "lost, promised: b name: the file of op 1"},
		{"unlinked name is back, file synced", ext4, "create a; link a b; sync; unlink b; fsync a", "create a; link a b", none, "lost, customary: b name: the file of op 1"},
		{"renamed, and fdatasync, which need not commit it", ext4, "mkdir d; write d/a 4KiB; sync; rename d/a a; fdatasync a", "mkdir d; write d/a 4KiB", none, "lost, not promised: a name: missing; lost, not promised: d/a name"},
		{"made, and fdatasync", ext4, "write a 4KiB; fdatasync a", "sync", none, "lost, customary: a name: missing"},
		{"reserved blocks", ext4, "write a 4KiB; fallocate a 4KiB+1MiB keep-size; fsync a; fsync .", "write a 4KiB", none, "lost, promised: a blocks"},
		{"a name that another took, and the first synced", ext4, "mkdir d; sync; rename d c; sync; mkdir d; fsync c", "sync; mkdir c", none, "lost, not promised: d name: missing"},
		{"a name that another took, and the first is back", ext4, "write a 4KiB; sync; rename a b; create a; fsync b", "write a 4KiB; link a b", none, "lost, customary: a name: the file of op 1"},
		{"nested new directory", ext4, "mkdir d; mkdir d/e; write d/e/a 4KiB; fsync d/e/a", "mkdir d", none, "lost, customary: d/e name: missing"},
		{"a name nobody made", ext4, "create a; sync", "create a; create b", none, "never allowed: b name"},
		{"nothing is promised after a failed sync", ext4, "create a; sync; write a 4KiB", "create a", none, "lost, not promised: a"},
		{"directory renamed, file synced", ext4, "mkdir d; write d/a 4KiB; fsync d/a; fsync d; fsync .; rename d e", "mkdir d; write d/a 4KiB", none, "lost, not promised: d name"},
		{"directory half renamed", ext4, "mkdir d; write d/a 4KiB; sync; rename d e", "sync", none, "lost, not promised: e name: missing; never allowed: d rename"},
		{"a range promises no more size than it needs", ext4, "create a; sync; pwrite a 16KiB+4KiB; pwrite a 0+4KiB O_DSYNC", "create a; sync; sync; pwrite a 0+4KiB", none, "lost, not promised: a size: 4096"},
		{"a range promises the size that it needs", ext4, "create a; sync; append a 4KiB O_DSYNC", "create a", none, "lost, promised: a size: 0"},
		{"msync", ext4, "write a 8KiB; sync; mmap-write a 4KiB+4KiB; msync a 4KiB+4KiB", "write a 8KiB", none, "lost, promised: a content"},
		{"msync of a hole", ext4, "create a; sync; pwrite a 45950+6534; msync a 28KiB+12KiB", "create a", none, "lost, not promised: a size: 0"},
		{"msync of a hole and some bytes", ext4, "create a; sync; pwrite a 30KiB+2KiB; pwrite a 45950+6534; msync a 28KiB+12KiB", "create a; sync; pwrite a 0+31KiB", none, "lost, promised: a size: 31744"},
		{"a lost directory takes its renames with it", ext4, "mkdir d; write d/a 4KiB; sync; rename d/a d/b", "sync", none, "lost, promised: d name: missing; ONLY"},
		{"never durable, and its name taken, on btrfs", ProfileOf("btrfs", nil, ""), "mknod d fifo; rename d a; write d 8KiB; fsync d", "sync; sync; write d 8KiB", none, "lost, not promised: a name: missing; ONLY"},
		{"never durable, and its name taken", ext4, "mknod d fifo; rename d a; write d 8KiB; fsync d", "sync; sync; write d 8KiB", none, "never allowed: d rename: half of op 2"},
		{"durable, and its name taken, on btrfs", ProfileOf("btrfs", nil, ""), "mknod d fifo; sync; rename d a; write d 8KiB; fsync d", "sync; sync; sync; write d 8KiB", none, "never allowed: d rename: half of op 3"},
		{"renamed, removed, and its old name taken, on btrfs", ProfileOf("btrfs", nil, ""), "write b 4KiB; rename b d; sync; unlink d; write b 8KiB; fsync b", "write d 4KiB; sync; sync; sync; write b 8KiB", none, "lost, not promised: d name; ONLY"},
		{"half renamed, on btrfs", ProfileOf("btrfs", nil, ""), "write a 4KiB; mkdir d; sync; rename a d/a; fsync d", "write a 4KiB; mkdir d; link a d/a", none, "never allowed: a rename: half of op 4: both"},
		{"exchanged with a file that was never synced", ProfileOf("btrfs", nil, ""), "write d 8KiB; fsync d; write f 1KiB; rename d f exchange; fsync f", "write f 8KiB", none, "lost, not promised: d name: missing; ONLY"},
		{"exchange, and a file synced", ext4, "write a 4KiB; write b 8KiB; sync; rename a b exchange; fsync a", "write a 4KiB; write b 8KiB", none, "lost, customary: a name"},
		{"exchange, and a file synced, on xfs", ProfileOf("xfs", nil, ""), "write a 4KiB; write b 8KiB; sync; rename a b exchange; fsync a", "write a 4KiB; write b 8KiB", none, "lost, not promised: a name"},
		{"exchange, and the directory synced, on xfs", ProfileOf("xfs", nil, ""), "write a 4KiB; write b 8KiB; sync; rename a b exchange; fsync .", "write a 4KiB; write b 8KiB", none, "lost, promised: a name"},
		{"exchange", ext4, "write a 4KiB; write b 8KiB; sync; rename a b exchange; fsync .", "write a 4KiB; write b 8KiB", none, "lost, promised: a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := render(after(t, parse(t, strings.Split(c.left, "; ")...)))
			renumber(tree)
			c.change(tree)
			r := judge(t, done(parse(t, strings.Split(c.ops, "; ")...)), c.profile, tree)
			got := say(r)
			want := strings.Split(c.want, "; ")
			sorted := slices.Clone(r.Findings)
			for _, w := range want {
				if w == "ONLY" {
					if len(r.Findings) != len(want)-1 {
						t.Errorf("findings %q, want no others than %q", got, want)
					}
					continue
				}
				if w != "" && !slices.ContainsFunc(sorted, func(f Finding) bool {
					return strings.HasPrefix(fmt.Sprintf("%s: %s %s: %s", f.Class, f.Path, f.Aspect, f.Found), w)
				}) {
					t.Errorf("findings %q, want %q", got, w)
				}
			}
			if c.want == "" && got != "" {
				t.Errorf("findings %q, want none", got)
			}
			broken := strings.Contains(c.want, "never") || strings.Contains(c.want, "promised") && strings.Contains(strings.ReplaceAll(c.want, "not promised", ""), "promised") || strings.Contains(c.want, "customary")
			if r.Broken() != broken {
				t.Errorf("broken is %v: %s", r.Broken(), got)
			}
		})
	}
}

// renumber gives inodes other numbers: those of a real file system tell nothing.
func renumber(t *inspect.Tree) {
	for i := range t.Objects {
		t.Objects[i].Ino = t.Objects[i].Ino*7 + 3
	}
}

// TestAllowed: a tree as after any op since the last sync call, or with the bytes of a
// file as after another one, is never accused.
func TestAllowed(t *testing.T) {
	profiles := []Profile{ext4, ext2, ProfileOf("btrfs", nil, ""), ProfileOf("xfs", nil, "")}
	for n := range uint64(1500) {
		r := rand.New(rand.NewPCG(n, 5))
		list := model.Random(r, 3+r.IntN(20), model.FeaturesOf("xfs"))
		for range r.IntN(4) {
			list = slices.Insert(list, r.IntN(len(list)+1), ops.Op{Verb: []ops.Verb{ops.Syncfs, ops.Sync}[r.IntN(2)]})
		}
		h := done(list)
		f, err := follow(h, ext4)
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for k, s := range f.states {
			if s.Op > 0 && list[s.Op-1].Syncs() && h.Records[s.Op].Errno == 0 {
				last = k
			}
		}
		k := last + r.IntN(len(f.states)-last)
		for _, p := range profiles {
			if p.Replaced {
				p.Replaced = false // a state in the middle of an op is none that it leaves
			}
			tree := render(f.states[k])
			renumber(tree)
			if got := judge(t, h, p, tree); got.Broken() {
				t.Fatalf("seed %d, state %d of %d: %s\nafter\n%s", n, k, len(f.states), say(got), listing(list))
			}
		}
	}
}

// TestCaught: right after syncfs every difference is a broken promise, and no difference
// is none.
func TestCaught(t *testing.T) {
	different := 0
	for n := range uint64(1500) {
		r := rand.New(rand.NewPCG(n, 6))
		list := append(model.Random(r, 3+r.IntN(20), model.FeaturesOf("xfs")), ops.Op{Verb: ops.Syncfs})
		h := done(list)
		f, err := follow(h, ext4)
		if err != nil {
			t.Fatal(err)
		}
		k := r.IntN(len(f.states))
		tree := render(f.states[k])
		renumber(tree)
		differs := len(model.Differences(f.current(), tree, seed)) > 0
		if differs {
			different++
		}
		if got := judge(t, h, ext4, tree); got.Broken() != differs {
			t.Fatalf("seed %d, state %d of %d differs: %v, and the verdict is %q\nafter\n%s", n, k, len(f.states), differs, say(got), listing(list))
		}
	}
	if different < 1000 {
		t.Errorf("only %d trees differed", different)
	}
}

// TestUnderWay: a tree as after an op that has begun and not ended, or in the middle of
// it, is never accused.
func TestUnderWay(t *testing.T) {
	for n := range uint64(1500) {
		r := rand.New(rand.NewPCG(n, 8))
		list := model.Random(r, 3+r.IntN(20), model.FeaturesOf("xfs"))
		h := done(list)
		h.Records = h.Records[:len(h.Records)-1]
		f, err := follow(h, ext4)
		if err != nil {
			t.Fatal(err)
		}
		for k := f.now; k < len(f.states); k++ {
			tree := render(f.states[k])
			renumber(tree)
			for _, p := range []Profile{ext2, ProfileOf("xfs", nil, "")} {
				if got := judge(t, h, p, tree); got.Broken() {
					t.Fatalf("seed %d, state %d of %d: %s\nafter\n%s", n, k, len(f.states), say(got), listing(list))
				}
			}
		}
	}
}

func listing(list []ops.Op) string {
	var b strings.Builder
	for _, o := range list {
		b.WriteString(o.String() + "; ")
	}
	return b.String()
}

// TestHole: a file of a TiB, of which some bytes were written, is judged at once, and a
// byte that nobody wrote, in the middle of its hole, is found.
func TestHole(t *testing.T) {
	list := parse(t, "create a", "truncate a 1024GiB", "pwrite a 512GiB+5KiB", "fsync a")
	s := after(t, list)
	tree := render(after(t, parse(t, "create a")))
	a := object(tree, "a")
	a.Size, a.Blocks = 1<<40, 16
	a.Pieces = []inspect.Piece{{Offset: 512 << 30, Length: 5 << 10, At: 0}}
	tree.Data = make([]byte, 5<<10)
	s.Get(1).Content.Read(tree.Data, 512<<30, seed)
	if r := judge(t, done(list), ext4, tree); r.Broken() {
		t.Errorf("as it was written: %s", say(r))
	}
	tree.Data[5<<10-1] ^= 1
	if r := judge(t, done(list), ext4, tree); !strings.Contains(say(r), fmt.Sprint(" at byte ", 512<<30+5<<10-1)) {
		t.Errorf("a byte that is another: %s", say(r))
	}
	a.Pieces = append(a.Pieces, inspect.Piece{Offset: 700 << 30, Length: 1, At: 5 << 10})
	tree.Data = append(tree.Data, 1)
	if r := judge(t, done(list), ext4, tree); !r.Broken() {
		t.Errorf("a byte in a hole: %s", say(r))
	}
	a.Pieces, tree.Data = nil, nil
	if r := judge(t, done(list), ext4, tree); !r.Broken() {
		t.Errorf("nothing but zeros: %s", say(r))
	}
}

// TestErrors: ops that fail.
func TestErrors(t *testing.T) {
	list := parse(t, "create a", "sync", "write a 4KiB", "fsync a", "fsync a", "sync")
	h := done(list)
	h.Records[4].Errno, h.Records[4].Synced = int32(unix.EIO), false
	tree := render(after(t, list[:2]))
	if r := judge(t, h, ext4, tree); r.Broken() || r.Counts.Failed != 1 {
		t.Errorf("a sync call that succeeds after one that failed promises: %s", say(r))
	}
	if r := judge(t, h, ext4, tree); !slices.Equal(r.Doubted, []int{5, 6}) {
		t.Errorf("doubted are the ops %v", r.Doubted)
	}
	h.Records[4].Errno = 0
	if r := judge(t, h, ext4, tree); r.Counts.Lost == 0 {
		t.Errorf("without a failure the loss is not seen: %s", say(r))
	}
	list = parse(t, "write a 4KiB", "sync", "fsync a")
	h, tree = done(list), render(model.New())
	if h.Doubtful = 3; judge(t, h, ext4, tree).Broken() {
		t.Errorf("sync, which does not tell of the drive's error, promises: %s", say(judge(t, h, ext4, tree)))
	}
	if h.Doubtful = 1; judge(t, h, ext4, tree).Counts.Lost == 0 {
		t.Error("what sync promised before the drive's first error is lost, and nothing is said")
	}
	list = parse(t, "create a", "sync", "write a 4KiB", "rename a b", "create a", "unlink c allow ENOENT", "link b c")
	h, tree = done(list), render(after(t, list))
	h.Records = h.Records[:3] // up to op 2
	if r := judge(t, h, ext4, tree); r.Broken() {
		t.Errorf("ops that may have happened, which a late ledger does not tell of: %s", say(r))
	}
	if h.Started = 3; !judge(t, h, ext4, tree).Broken() {
		t.Error("names of ops that had not begun are found, and nothing is said")
	}
	list = parse(t, "mkdir d", "sync", "rename d e", "write e/a 4KiB", "chmod e 700", "fsync e/a", "fsync e/a")
	for _, x := range judge(t, done(list), ext4, render(after(t, list[:2]))).Findings {
		if want := map[Class]int{Customary: 6}[x.Class]; x.Sync != want {
			t.Errorf("%s %s is by op %d, not %d", x.Path, x.Aspect, x.Sync, want)
		}
	}
	h = done(parse(t, "write a 4KiB", "clone a b"))
	h.Records[2].Errno = int32(unix.EOPNOTSUPP)
	if r := judge(t, h, ext4, tree); r.Unsupported == nil || r.Unsupported.Op != 2 {
		t.Errorf("clone, not supported: %+v", r)
	}
	h = done(parse(t, "create f", "write c 15MiB allow ENOSPC", "truncate c 4KiB", "sync"))
	h.Records[2].Errno = int32(unix.ENOSPC)
	if r := judge(t, h, ext4, tree); r.Unsupported == nil || r.Unsupported.Op != 2 || !r.Unsupported.Partly {
		t.Errorf("a write that failed half-way: %+v", r)
	}
	h = done(parse(t, "open a as @a O_CREAT", "remount ro allow EBUSY", "write b 4KiB", "fsync b"))
	h.Records[2].Errno, h.Records[2].Synced = int32(unix.EBUSY), false
	if r := judge(t, h, ext4, render(after(t, h.Plan.Ops[:1]))); r.Counts.Customary != 1 || len(r.Doubted) > 0 {
		t.Errorf("a remount that was refused takes promises away: %s", say(r))
	}
	h = done(parse(t, "create a"))
	told := Found{Tree: render(after(t, h.Plan.Ops)), Kernel: []string{"EXT4-fs (sda): warning: mounting fs with errors"}}
	for _, h.Erred = range []bool{true, false} {
		if r, err := Judge(h, ext4, told); err != nil || r.Broken() == h.Erred {
			t.Errorf("what a kernel says, where the drive has erred: %t: %s, %v", h.Erred, say(r), err)
		}
	}
	h.Plan.Ops = parse(t, "unlink a")
	if _, err := Judge(h, ext4, Found{Tree: tree}); err == nil {
		t.Error("an op that cannot succeed did, and nothing is said")
	}
	h = done(parse(t, "write a 4KiB", "fsync a"))
	h.Records = h.Records[:2]
	if r := judge(t, h, ext4, render(after(t, parse(t, "sync")))); r.Broken() {
		t.Errorf("a sync call that never returned promises: %s", say(r))
	}
	r, err := Judge(done(parse(t, "sync")), ext4, Found{Tree: render(model.New()), Work: []string{"rmdir d: it is not empty"}, Kernel: []string{"WARNING: at fs/x.c"}})
	if err != nil || r.Counts.Forbidden != 2 {
		t.Errorf("a directory that cannot be removed, and a warning: %+v, %v", r, err)
	}
}
