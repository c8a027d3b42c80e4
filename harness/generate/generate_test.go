package generate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"powercut/guest/ops"
	"powercut/harness/model"
)

// text is a workload in one line.
func text(w []ops.Op) string {
	var words []string
	for _, o := range w {
		words = append(words, o.String())
	}
	return strings.Join(words, "; ")
}

// checkPossible demands that a workload can be written in a scenario, and that the
// model carries out all of it, a sync call at the end.
func checkPossible(t *testing.T, w []ops.Op) {
	t.Helper()
	if err := ops.Check(w); err != nil {
		t.Fatalf("%s: %v", text(w), err)
	}
	s := model.New()
	for i, o := range w {
		if again, err := ops.Parse(o.String()); err != nil || again.String() != o.String() {
			t.Fatalf("%s: op %q is read as %q: %v", text(w), o, again, err)
		}
		states, err := model.Apply(s, o, i+1)
		if err != nil {
			if o.Allows(ops.ErrnoName(err)) {
				continue
			}
			t.Fatalf("%s: op %q fails: %v", text(w), o, err)
		}
		s = states[len(states)-1]
	}
	if !w[len(w)-1].Syncs() {
		t.Fatalf("%s: ends without a sync call", text(w))
	}
}

// core is a workload without what is made first.
func core(w []ops.Op) []ops.Op {
	i := slices.IndexFunc(w, func(o ops.Op) bool { return o.Verb == ops.Sync })
	if i >= 0 && i < len(w)-1 && !slices.ContainsFunc(w[:i], func(o ops.Op) bool {
		return o.Verb != ops.Mkdir && o.Verb != ops.Write && o.Verb != ops.SetXattr || o.Verb == ops.Write && o.Length != fileSize
	}) {
		return w[i+1:]
	}
	return w
}

// alike are all workloads that differ from w in names that are alike, w among them.
func alike(w []ops.Op) (out [][]ops.Op) {
	swap := map[string]string{"a": "b", "b": "a", "d": "e", "e": "d"}
	for n := range 16 {
		rename := func(path string) string {
			dir, name, in := strings.Cut(path, "/")
			if !in {
				dir, name = "", path
			}
			bit := map[string]int{"": 1, "d": 2, "e": 4}[dir]
			if (name == "a" || name == "b") && n&bit != 0 {
				name = swap[name]
			}
			if n&8 != 0 {
				if name == "d" || name == "e" {
					name = swap[name]
				}
				dir = swap[dir]
			}
			if in {
				return dir + "/" + name
			}
			return name
		}
		other := slices.Clone(w)
		for i := range other {
			for _, path := range []*string{&other[i].File, &other[i].To} {
				if *path != "" && *path != "." && !ops.IsHandle(*path) {
					*path = rename(*path)
				}
			}
		}
		out = append(out, other)
	}
	return out
}

// TestEnumerate: every workload is possible, none is there twice, and of those that
// differ in names alone exactly one is canonical.
func TestEnumerate(t *testing.T) {
	seen := map[string]bool{}
	check := func(w []ops.Op) {
		checkPossible(t, w)
		if seen[text(w)] {
			t.Fatalf("%s: is there twice", text(w))
		}
		seen[text(w)] = true
		c := core(w)
		for _, other := range alike(c) {
			if canonical(other) != (text(other) == text(c)) {
				t.Fatalf("%s: canonical is %v, of %s", text(other), canonical(other), text(c))
			}
		}
	}
	n := 0
	for w := range Enumerate(Bounds{Length: 1}) {
		check(w)
		n++
	}
	if n < 300 || n > 500 {
		t.Errorf("%d workloads of length 1, want some 400", n)
	}
	n = 0
	all := func(yield func([]ops.Op) bool) {
		names := []string{"create", "mkdir", "write", "append", "truncate", "link", "rename", "fsync", "replace", "unlink", "rmdir"}
		for w := range Enumerate(Bounds{Length: 2, Kinds: names}) {
			if n++; !yield(w) {
				return
			}
		}
	}
	clear(seen) // some are as those of length 1, of which the first op is what is made first
	for w := range Sample(all, 2000, rand.New(rand.NewPCG(1, 1))) {
		check(w)
	}
	if n < 25_000 || n > 50_000 {
		t.Errorf("%d workloads of length 2 about names, want some 35000", n)
	}
}

// TestBounds: what is asked for is made, and nothing else.
func TestBounds(t *testing.T) {
	got := []string{}
	for w := range Enumerate(Bounds{Length: 1, Kinds: []string{"unlink"}, Syncs: []string{"fsync"}, Unsynced: true}) {
		got = append(got, text(w))
	}
	want := []string{
		"write a 16KiB; sync; unlink a; fsync .", "write a 16KiB; unlink a; fsync .",
		"mkdir d; write d/a 16KiB; sync; unlink d/a; fsync d", "mkdir d; write d/a 16KiB; unlink d/a; fsync d",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("workloads (-want +got):\n%s", d)
	}
	for w := range Enumerate(Bounds{Length: 3, Kinds: []string{"link", "unlink"}}) {
		for _, o := range core(w) {
			if !o.Syncs() && o.Verb != ops.Link && o.Verb != ops.Unlink {
				t.Fatalf("%s: has %s", text(w), o)
			}
		}
	}
}

// TestFound: sequences that once broke file systems are among those of their length.
func TestFound(t *testing.T) {
	for _, c := range []struct {
		length int
		kinds  string
		sync   string
		want   string
	}{
		{1, "rename", "fsync", "mkdir d; write d/a 16KiB; mkdir e; sync; rename d/a e/a; fsync d"},                    // fstests generic/335
		{2, "rename create", "fsync", "mkdir d; write d/a 16KiB; sync; rename d/a d/b; create d/a; fsync d/a"},        // generic/342
		{2, "link unlink", "fsync", "mkdir d; write d/a 16KiB; sync; link d/a d/b; fsync d/a; unlink d/b; fsync d/a"}, // generic/039
		{2, "mkdir rename", "fsync", "write a 16KiB; sync; mkdir d; rename a d/a; fsync d/a"},
		{2, "falloc append", "fdatasync", "write a 16KiB; sync; fallocate a 16KiB+8KiB keep-size; append a 4KiB; fdatasync a"},
		{3, "link unlink create", "fsync", "mkdir d; write d/a 16KiB; sync; link d/a d/b; unlink d/a; create d/a; fsync d/a"},             // generic/481
		{3, "rename link", "fsync", "mkdir d; write d/a 16KiB; write d/b 16KiB; sync; rename d/a a; rename d/b d/a; link a d/b; fsync a"}, // generic/526
	} {
		found := false
		for w := range Enumerate(Bounds{Length: c.length, Kinds: strings.Fields(c.kinds), Syncs: []string{c.sync}}) {
			if found = text(w) == c.want; found {
				break
			}
		}
		if !found {
			t.Errorf("not there: %s", c.want)
		}
	}
}

// TestRandom: the same seed makes the same workload, of the length that was asked for.
func TestRandom(t *testing.T) {
	for n := range uint64(300) {
		made := func() []ops.Op {
			return Random(rand.New(rand.NewPCG(n, 1)), 2+int(n)%60, model.FeaturesOf([]string{"ext4", "xfs", "btrfs", "ext2"}[n%4]))
		}
		w := made()
		checkPossible(t, w)
		if len(w) != 2+int(n)%60 || text(w) != text(made()) {
			t.Fatalf("workload %d has %d ops: %s", n, len(w), text(w))
		}
	}
}

// TestSample: a sample of n has n workloads in their order, of fewer all, and each is
// drawn about as often as another.
func TestSample(t *testing.T) {
	all := func(yield func([]ops.Op) bool) {
		for n := range int64(10) {
			if !yield([]ops.Op{{Offset: n}}) {
				return
			}
		}
	}
	var drawn [10]int
	for seed := range uint64(3000) {
		last := int64(-1)
		n := 0
		for w := range Sample(all, 3, rand.New(rand.NewPCG(seed, 0))) {
			if w[0].Offset <= last {
				t.Fatal("out of order")
			}
			last, n = w[0].Offset, n+1
			drawn[last]++
		}
		if n != 3 {
			t.Fatalf("%d drawn, want 3", n)
		}
	}
	for i, n := range drawn {
		if n < 780 || n > 1020 {
			t.Errorf("workload %d is drawn %d times of 3000, want some 900", i, n)
		}
	}
	if n := len(slices.Collect(Sample(all, 20, rand.New(rand.NewPCG(1, 0))))); n != 10 {
		t.Errorf("%d of 10 drawn", n)
	}
}
