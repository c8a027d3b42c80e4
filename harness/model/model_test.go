package model

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/ops"
)

// follow applies ops, each given as its text and, behind a slash, the errno that it
// must fail with.
func follow(t *testing.T, lines ...string) *State {
	t.Helper()
	s := New()
	for i, line := range lines {
		o, err := ops.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		states, err := Apply(s, o, i+1)
		want := "<nil>"
		if len(o.Allow) > 0 {
			want = o.Allow[0]
		}
		if got := name(err); got != want {
			t.Fatalf("%s: %s, want %s", line, got, want)
		}
		if err == nil {
			s = states[len(states)-1]
		} else {
			s = Refuse(s, o, i+1)
		}
	}
	return s
}

// TestStamps: which time stamps are known.
func TestStamps(t *testing.T) {
	for _, c := range []struct {
		lines []string
		path  string
		known bool
	}{
		{[]string{"create a", "utimes a 7", "chmod a 600", "rename a b"}, "b", true},
		{[]string{"create a", "utimes a 7", "append a 1"}, "a", false},
		{[]string{"mkdir d", "utimes d 7", "create d/a"}, "d", false},
		{[]string{"mkdir d", "utimes d 7", "rename d e"}, "e", false},
		{[]string{"create a", "utimes a 7", "fallocate a 4KiB+4KiB insert allow EINVAL"}, "a", false},
		{[]string{"create a", "utimes a 7", "msync a 0+4KiB allow EINVAL", "link a a allow EEXIST"}, "a", true},
	} {
		s := follow(t, c.lines...)
		id, err := s.Find(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if known := s.Get(id).Stamped; known != c.known {
			t.Errorf("%q: that of %s is known: %v", c.lines, c.path, known)
		}
	}
}

func name(err error) string {
	if err == nil {
		return "<nil>"
	}
	return ops.ErrnoName(err)
}

// TestStories: short stories, and how they end.
func TestStories(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  []string // paths, with what matters of them
	}{
		{[]string{"create a", "link a b", "unlink a", "create a allow ENOENT"}[:3], []string{"b file 1 link of 0"}},
		{[]string{"write a 10", "write b 20", "rename a b"}, []string{"b file 1 link of 10"}},
		{[]string{"mkdir d", "mkdir d/e", "rename d d/e/x allow EINVAL", "rename d/e d allow ENOTEMPTY", "rmdir d allow ENOTEMPTY"}, []string{"d dir", "d/e dir"}},
		{[]string{"mkdir d", "write a 5", "rename a d exchange"}, []string{"a dir", "d file 1 link of 5"}},
		{[]string{"open a as @h O_CREAT", "unlink a", "append @h 7", "link @h b allow ENOENT"}, nil},
		{[]string{"tmpfile . as @h", "pwrite @h 8+8", "link @h b", "link @h c"}, []string{"b file 2 link of 16", "c file 2 link of 16"}},
		{[]string{"write a 16KiB", "fallocate a 4KiB+4KiB collapse", "fallocate a 0+4KiB insert", "truncate a 5000"}, []string{"a file 1 link of 5000"}},
		{[]string{"create a", "mkdir a/b allow ENOTDIR", "unlink d allow ENOENT", "rmdir a allow ENOTDIR", "create a allow EEXIST"}, []string{"a file 1 link of 0"}},
		{[]string{"symlink a s", "setxattr s user.x 1 allow EPERM", "fsync s allow ELOOP", "unlink s"}, nil},
	} {
		s := follow(t, c.lines...)
		var got []string
		s.Walk(func(path string, id ID) {
			n := s.Get(id)
			switch {
			case path == ".":
			case n.Dir():
				got = append(got, path+" dir")
			default:
				got = append(got, fmt.Sprintf("%s %s %d link of %d", path, TypeName(n.Type), n.Links, n.Size))
			}
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}

// TestContent: bytes follow writes, holes, clones and moves as a plain array does.
func TestContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 200
		var c Content
		want := make([]byte, size)
		buf := make([]byte, size)
		for k := 1; k <= rapid.IntRange(1, 12).Draw(t, "ops"); k++ {
			off := rapid.Int64Range(0, size-1).Draw(t, "offset")
			n := rapid.Int64Range(1, size-off).Draw(t, "length")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				c = c.written(off, n, k)
				Content{{off, n, k, off}}.Read(want[off:off+n], off, 9)
			case 1:
				c = c.without(off, off+n)
				clear(want[off : off+n])
			case 2:
				to := rapid.Int64Range(0, size-n).Draw(t, "to")
				c = c.with(to, to+n, c.slice(off, off+n).moved(to-off))
				copy(want[to:to+n], bytes.Clone(want[off:off+n]))
			}
			if c.Read(buf, 0, 9); !bytes.Equal(buf, want) {
				t.Fatalf("content %v\n% x\nwant\n% x", c, buf, want)
			}
		}
	})
}

// TestExtents: cover and uncover against a set of bytes.
func TestExtents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Extent
		var want [64]bool
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			from := rapid.Int64Range(0, 63).Draw(t, "from")
			to := rapid.Int64Range(from+1, 64).Draw(t, "to")
			in := rapid.Bool().Draw(t, "in")
			if in {
				list = cover(list, from, to)
			} else {
				list = uncover(list, from, to)
			}
			for i := from; i < to; i++ {
				want[i] = in
			}
		}
		var got [64]bool
		last := int64(-1)
		for _, e := range list {
			if e.Length <= 0 || e.Offset <= last {
				t.Fatalf("list %v", list)
			}
			last = e.End() - 1
			for i := e.Offset; i < e.End(); i++ {
				got[i] = true
			}
		}
		if got != want {
			t.Fatalf("list %v", list)
		}
	})
}

// TestPast: what ops do to later states they do not do to earlier ones, links are
// counted, and a list depends on its seed alone.
func TestPast(t *testing.T) {
	for seed := range uint64(300) {
		list := Random(rand.New(rand.NewPCG(seed, 0)), 30, FeaturesOf("xfs"))
		if again := Random(rand.New(rand.NewPCG(seed, 0)), 30, FeaturesOf("xfs")); !reflect.DeepEqual(list, again) {
			t.Fatal("two lists of one seed differ")
		}
		if err := ops.Check(list); err != nil {
			t.Fatal(err)
		}
		s := New()
		var past []*State
		var shown []string
		for k, o := range list {
			states, err := Apply(s, o, k+1)
			if (err != nil) != (len(o.Allow) > 0) {
				t.Fatalf("%s: %v", o, err)
			}
			if err == nil {
				s = states[len(states)-1]
			}
			past, shown = append(past, s), append(shown, show(s))
			count(t, s)
		}
		for i, p := range past {
			if show(p) != shown[i] {
				t.Fatalf("seed %d: the state after op %d has changed", seed, i+1)
			}
		}
	}
}

func show(s *State) string {
	text := ""
	for id, n := range s.Inodes {
		text += fmt.Sprintf("%d %+v\n", id, *n)
	}
	return text
}

// count holds each inode's links against the names that lead to it.
func count(t *testing.T, s *State) {
	t.Helper()
	names := map[ID]int{}
	s.Walk(func(_ string, id ID) { names[id]++ })
	for id, n := range s.Inodes {
		if !n.Dir() && n.Links != names[ID(id)] || n.Dir() && names[ID(id)] > 1 {
			t.Fatalf("inode %d has %d links, and %d names", id, n.Links, names[ID(id)])
		}
	}
}
