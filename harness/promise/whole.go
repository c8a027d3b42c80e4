package promise

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"powercut/harness/model"
)

// atomic judges renames: both names must be as in one and the same state. Where a
// name alone is wrong already, that is said and enough.
func (j *reading) atomic() {
	if !j.profile.Journal {
		return
	}
	for _, r := range j.renames {
		a, b := j.entry(r.a), j.entry(r.b)
		if j.accused(r.a) || j.accused(r.b) {
			continue
		}
		led := func(k int, p place) model.ID {
			id := j.states[k].Entry(p.dir, p.name)
			if j.profile.Selective && id != a && id != b && slices.Contains(r.loose, id) {
				return model.None // it is as if it had never been
			}
			return id
		}
		same := func(k int) bool { return led(k, r.a) == a && led(k, r.b) == b }
		if j.profile.Selective && j.oneSide(r, a, b, led) {
			continue
		}
		from := func(l *floors) int { return max(l.place(r.a), l.place(r.b)) }
		switch {
		case slices.ContainsFunc(seq(from(&j.custom), len(j.states)), same):
			continue
		case slices.ContainsFunc(seq(from(&j.letter), len(j.states)), same):
			j.accuse(Customary, j.where(r.a), "rename", j.pair(r, a, b), "", from(&j.custom))
		default:
			j.accuse(Forbidden, j.where(r.a), "rename", j.pair(r, a, b), "", 0)
		}
	}
}

// oneSide tells whether both names are as at some time before the rename, or both as at
// some time after it, not necessarily the same: what else became of each may be durable
// or not by itself.
func (j *reading) oneSide(r renamed, a, b model.ID, led func(int, place) model.ID) bool {
	split := slices.IndexFunc(j.states, func(s *model.State) bool { return s.Op >= r.op })
	within := func(from, to int) bool {
		is := func(p place, id model.ID) bool {
			return slices.ContainsFunc(seq(max(from, j.custom.place(p)), to), func(k int) bool { return led(k, p) == id })
		}
		return is(r.a, a) && is(r.b, b)
	}
	return within(0, split) || within(split, len(j.states))
}

func seq(from, to int) (out []int) {
	for k := from; k < to; k++ {
		out = append(out, k)
	}
	return out
}

// pair tells what both names of a rename lead to.
func (j *reading) pair(r renamed, a, b model.ID) string {
	half := "half of op " + fmt.Sprint(r.op) + ": "
	if a == b && a == model.None {
		return fmt.Sprintf("%sneither %s nor %s is there", half, j.where(r.a), j.where(r.b))
	}
	if a == b {
		return fmt.Sprintf("%sboth %s and %s are %s", half, j.where(r.a), j.where(r.b), j.describe(a))
	}
	return fmt.Sprintf("%s%s is %s, %s is %s", half, j.where(r.a), j.describe(a), j.where(r.b), j.describe(b))
}

// entry is the inode that a name was read as; None where it is not there.
func (j *reading) entry(p place) model.ID {
	if o := j.objects[j.where(p)]; o != nil {
		if id, ok := j.now.ids[o.Ino]; ok {
			return id
		}
	}
	return model.None
}

// where is the path of a name, its directory being where it was found.
func (j *reading) where(p place) string {
	switch dir, ok := j.now.paths[p.dir]; {
	case !ok:
		return "(lost directory)/" + p.name
	case dir == ".":
		return p.name
	default:
		return dir + "/" + p.name
	}
}

// accused tells whether a name has been found wrong by itself, or is lost with its
// directory while some name is.
func (j *reading) accused(p place) bool {
	path := j.where(p)
	_, there := j.now.paths[p.dir]
	return slices.ContainsFunc(j.now.findings, func(f Finding) bool {
		return (f.Path == path || !there) && (f.Aspect == "name" || f.Aspect == "identity") && f.Class != Unpromised
	})
}

// counted holds link counts against names.
func (j *reading) counted() {
	names := map[uint64]uint64{}
	for _, o := range j.tree.Objects {
		names[o.Ino]++
	}
	told := map[uint64]bool{}
	for _, o := range j.tree.Objects {
		if o.Mode&unix.S_IFMT == unix.S_IFDIR || o.Mode == 0 || told[o.Ino] || o.Links == names[o.Ino] {
			continue
		}
		told[o.Ino] = true
		j.accuse(Forbidden, o.Path, "link count", fmt.Sprint(o.Links), fmt.Sprintf("%d, as many as there are names", names[o.Ino]), 0)
	}
}
