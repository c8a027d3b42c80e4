package promise

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
	"powercut/harness/model"
)

// Found is what recovery left.
type Found struct {
	Tree *inspect.Tree
	Work []string // what does not work any more
	// Kernel is what the kernel that recovered complained of.
	Kernel []string
}

// Warned tells whether the kernel warned. It may do so once only, so that who asks it to
// recover another state would not hear of it again.
func (f Found) Warned() bool {
	return slices.ContainsFunc(f.Kernel, func(w string) bool { return strings.HasPrefix(w, warning) })
}

// warning begins what a kernel says of a bug of its own (include/asm-generic/bug.h).
const warning = "WARNING: "

// Judge says what became of each thing. Its error is a contradiction between guest and
// model, and no verdict.
//
// A name may be read as leading to any inode that it has ever led to. Of all ways to
// read the tree the one that accuses the file system least is taken.
func Judge(h History, p Profile, found Found) (Result, error) {
	f, err := follow(h, p)
	if err != nil {
		return Result{}, err
	}
	r := Result{Unsupported: f.unsupported, Findings: []Finding{}, Doubted: f.doubted}
	r.Counts = Counts{Ops: int(h.Started), Syncs: f.acked, Failed: f.failed}
	if f.unsupported != nil {
		return r, nil
	}
	j := newReading(f, found.Tree)
	j.read()
	r.Findings = append(r.Findings, j.best.findings...)
	r.Counts.Kept, r.Counts.Custom, r.Counts.Luck = j.best.kept, j.best.custom, j.best.luck
	for _, w := range found.Work {
		r.Findings = append(r.Findings, Finding{Class: Forbidden, Path: ".", Aspect: "use", Found: "after recovery: " + w})
	}
	for _, w := range found.Kernel {
		if (f.distrusted || h.Erred) && !strings.HasPrefix(w, warning) {
			continue // a file system that met an error has noted it, and says so when it is mounted
		}
		r.Findings = append(r.Findings, Finding{Class: Forbidden, Path: ".", Aspect: "kernel", Found: "the kernel said: " + w})
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(b.Class.weight(), a.Class.weight()) })
	for _, x := range r.Findings {
		r.Counts.add(x.Class)
	}
	return r, nil
}

// reading is a search for the least accusing way to read a tree.
type reading struct {
	*past
	tree    *inspect.Tree
	objects map[string]*inspect.Object
	inDir   map[string][]string // names by path of the directory
	now     outcome             // of the reading under way
	best    outcome
	found   bool // best is one
	steps   int
}

// outcome is what a reading says.
type outcome struct {
	findings           []Finding
	kept, custom, luck int
	cost               int
	ids                map[uint64]model.ID // what each inode number is
	inos               map[model.ID]uint64
	paths              map[model.ID]string // of directories
}

// task is a name to be read: of a directory that was read as dir and is at path.
type task struct {
	at   place
	path string
}

func newReading(f *past, t *inspect.Tree) *reading {
	j := &reading{past: f, tree: t, objects: map[string]*inspect.Object{}, inDir: map[string][]string{}}
	for i, o := range t.Objects {
		j.objects[o.Path] = &t.Objects[i]
		if o.Path != "." && !inspect.Own(o.Path) {
			dir := path.Dir(o.Path)
			j.inDir[dir] = append(j.inDir[dir], path.Base(o.Path))
		}
	}
	j.now = outcome{ids: map[uint64]model.ID{}, inos: map[model.ID]uint64{}, paths: map[model.ID]string{}}
	return j
}

// maxSteps bounds the search. What was found by then counts.
const maxSteps = 20000

func (j *reading) read() {
	root := j.objects["."]
	j.aspects(".", model.Root, root, 0)
	j.identify(".", model.Root, root)
	j.next(j.tasks(model.Root, "."))
}

// tasks are the names of a directory: those that are there, and those that ever were.
func (j *reading) tasks(dir model.ID, at string) (out []task) {
	names := map[string]bool{}
	for _, n := range j.inDir[at] {
		names[n] = true
	}
	for _, s := range j.states {
		if n := s.Get(dir); n != nil {
			for name := range n.Entries {
				names[name] = true
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		out = append(out, task{place{dir, n}, path.Join(at, n)})
	}
	return out
}

// next reads the first task in every way, and then the others.
func (j *reading) next(tasks []task) {
	j.steps++
	if j.found && (j.now.cost >= j.best.cost || j.steps > maxSteps) {
		return
	}
	if len(tasks) == 0 {
		j.finish()
		return
	}
	t, rest := tasks[0], tasks[1:]
	o := j.objects[t.path]
	if o == nil {
		j.branch(func() { j.absent(t); j.next(rest) })
		return
	}
	candidates := j.candidates(t.at, o)
	if len(candidates) == 0 {
		j.branch(func() { j.stranger(t, o); j.next(rest) })
		return
	}
	for _, id := range candidates {
		j.branch(func() {
			j.present(t, id, o)
			more := rest
			if id != model.None && j.identify(t.path, id, o) && o.Mode&unix.S_IFMT == unix.S_IFDIR {
				more = append(j.tasks(id, t.path), rest...)
			}
			j.next(more)
		})
	}
}

// branch does something and takes back what it did to the reading.
func (j *reading) branch(do func()) {
	kept := j.now
	j.now.ids, j.now.inos, j.now.paths = maps.Clone(kept.ids), maps.Clone(kept.inos), maps.Clone(kept.paths)
	j.now.findings = slices.Clip(kept.findings)
	do()
	j.now = kept
}

// finish adds what can only be said of a whole reading, and keeps the best.
func (j *reading) finish() {
	j.branch(func() {
		j.atomic()
		j.counted()
		if !j.found || j.now.cost < j.best.cost {
			j.best, j.found = j.now, true
		}
	})
}

// accuse adds a finding.
func (j *reading) accuse(c Class, path, aspect, found, want string, floor int) {
	f := Finding{Class: c, Path: path, Aspect: aspect, Found: found, Want: want}
	if floor > 0 && c != Forbidden && c != Unpromised {
		f.Sync = cmp.Or(j.namedBy[floor], j.states[floor].Op)
	}
	j.now.findings = append(j.now.findings, f)
	j.now.cost += c.weight()
}

// identify notes which inode an object is. Two names of one inode number must be one
// inode, and one inode has one number.
func (j *reading) identify(path string, id model.ID, o *inspect.Object) bool {
	other, known := j.now.ids[o.Ino]
	ino, seen := j.now.inos[id]
	if known && other != id || seen && ino != o.Ino {
		j.accuse(Forbidden, path, "identity", "the inode of another file", "", 0)
		return false
	}
	again := known
	j.now.ids[o.Ino], j.now.inos[id] = id, o.Ino
	if o.Mode&unix.S_IFMT == unix.S_IFDIR {
		if again {
			j.accuse(Forbidden, path, "name", "the directory that is also at "+j.now.paths[id], "", 0)
			return false
		}
		j.now.paths[id] = path
	}
	return true
}

// candidates are the inodes of the object's type that the name has ever led to, the
// latest first.
func (j *reading) candidates(p place, o *inspect.Object) (out []model.ID) {
	for _, s := range slices.Backward(j.states) {
		id := s.Entry(p.dir, p.name)
		if id != model.None && !slices.Contains(out, id) && s.Get(id).Type == o.Mode&unix.S_IFMT {
			out = append(out, id)
		}
	}
	if known, ok := j.now.ids[o.Ino]; ok && slices.Contains(out, known) {
		return []model.ID{known}
	}
	return out
}

// window is which of the states may be found of one thing.
type window struct{ letter, custom int }

func (j *reading) places(p place) window { return window{j.letter.place(p), j.custom.place(p)} }

// check holds what was found against the states from the floors on: is tells whether
// it agrees with a state. It returns "" where it is as at the cut or may be otherwise.
func (j *reading) check(w window, is func(k int) bool) (c Class, floor int) {
	w.custom = max(w.custom, w.letter)
	last := is(j.past.now)
	some := func(from int) bool {
		for k := from; k < len(j.states); k++ {
			if is(k) {
				return true
			}
		}
		return false
	}
	all := func(from int) bool {
		for k := from; k <= j.past.now; k++ {
			if !is(k) {
				return false
			}
		}
		return true
	}
	switch {
	case last && all(w.letter):
		j.now.kept++
	case last && all(w.custom):
		j.now.custom++
	case last:
		j.now.luck++
	case some(w.custom):
		return Unpromised, 0
	case some(w.letter):
		return Customary, w.custom
	default:
		return Promised, w.letter
	}
	return "", 0
}

// absent judges a name that is not there.
func (j *reading) absent(t task) {
	w := j.places(t.at)
	c, floor := j.check(w, func(k int) bool { return j.states[k].Entry(t.at.dir, t.at.name) == model.None })
	if c == "" {
		return
	}
	id := j.current().Entry(t.at.dir, t.at.name)
	if floor > 0 {
		id = j.states[floor].Entry(t.at.dir, t.at.name)
	}
	j.accuse(c, t.path, "name", "missing", j.describe(id), floor)
}

// stranger judges a name that leads to what it has never led to. Without a journal
// that is the inode's matter, which may not have been written.
func (j *reading) stranger(t task, o *inspect.Object) {
	class, floor := Forbidden, 0
	if !j.profile.Journal {
		class, floor = Unpromised, j.letter.place(t.at)
		if j.states[floor].Entry(t.at.dir, t.at.name) != model.None {
			class = Promised
		}
	}
	j.accuse(class, t.path, "name", "a "+model.TypeName(o.Mode)+" that nobody made", "", floor)
}

// describe names an inode by what it is and the op that made it.
func (j *reading) describe(id model.ID) string {
	if id == model.None {
		return "no such name"
	}
	k := j.born(id)
	n := j.states[k].Get(id)
	return fmt.Sprintf("the %s of op %d", model.TypeName(n.Type), j.states[k].Op)
}

// present judges a name that leads to an object, read as that inode.
func (j *reading) present(t task, id model.ID, o *inspect.Object) {
	w := j.places(t.at)
	c, floor := j.check(w, func(k int) bool { return j.states[k].Entry(t.at.dir, t.at.name) == id })
	if c != "" {
		want := j.current().Entry(t.at.dir, t.at.name)
		if floor > 0 {
			want = j.states[floor].Entry(t.at.dir, t.at.name)
		}
		j.accuse(c, t.path, "name", j.describe(id), j.describe(want), floor)
	}
	if _, again := j.now.inos[id]; !again {
		j.aspects(t.path, id, o, j.replaced(t.at, id))
	}
}

// replaced is the state whose bytes a file must have because it was renamed over
// another one; 0 where it was not, or where the file system does nothing about it.
func (j *reading) replaced(p place, id model.ID) int {
	if !j.profile.Replaced {
		return 0
	}
	for k := len(j.states) - 1; k > 0; k-- {
		was := j.states[k-1].Entry(p.dir, p.name)
		if j.states[k].Entry(p.dir, p.name) != id || was == id || was == model.None {
			continue
		}
		if j.states[k-1].Get(id) != nil && j.states[k-1].Get(was).Regular() && j.states[k].Get(was).Links == 0 {
			return k - 1
		}
	}
	return 0
}
