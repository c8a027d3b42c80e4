// Package promise holds a recovered tree against what the sync calls before the cut
// promised. It is pure: what it says is a function of the plan, the ledger and the
// tree, and of nothing else.
//
// The model (package model) gives every state that the file system went through.
// For each thing that can be told apart (a name in a directory, and of an inode its
// size, each of its bytes, its mode, owner, time stamp, each extended attribute, the
// blocks reserved for it) a sync call sets a floor: the first state that may still be
// found. What is found must be that of the floor or of a later state, each thing for
// itself. Floors stand at two levels: by the letter of fsync(2), fdatasync(2),
// msync(2), open(2), syncfs(2) and sync(2), and by the custom of Linux file systems.
//
// Some things may never be found, whatever was synced: see Forbidden.
package promise

import (
	"fmt"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/harness/model"
)

// History is what a guest did.
type History struct {
	Plan    ops.Plan
	Records []ledger.Record // of op 0 and of each op that ended, in order
	Started uint64          // the op that had begun last, or may have
	// Doubtful is how many of the records, at their end, came after the drive had an error
	// in store, which sync(2) does not tell of.
	Doubtful int
	Erred    bool // the drive had an error in store for a request
}

// Unsupported says that an op is none that the kernel or the file system knows; or that it
// failed half-way, as it may, so that nobody knows what it has done.
type Unsupported struct {
	Op    int    `json:"op"` // from 1
	Text  string `json:"text"`
	Errno string `json:"errno"`
	// Partly: it is known, and may have done a part of its work.
	Partly bool `json:"partly,omitempty"`
}

// String says it in words.
func (u Unsupported) String() string {
	if u.Partly {
		return fmt.Sprintf("op %d, %s, failed with %s, and may have done a part of its work", u.Op, u.Text, u.Errno)
	}
	return fmt.Sprintf("op %d, %s, failed with %s: it is not supported by this kernel and file system", u.Op, u.Text, u.Errno)
}

// past is a history, followed in the model.
type past struct {
	plan        ops.Plan
	profile     Profile
	states      []*model.State // all that may be found; those of ops that may not have happened too
	now         int            // the state after the last op that ended
	letter      floors
	custom      floors
	failed      int  // ops with an error that they do not allow
	acked       int  // sync calls that succeeded
	distrusted  bool // a sync call has failed, or may have
	doubted     []int
	unsupported *Unsupported
	renames     []renamed
	namedBy     map[int]int // the first sync call that set the floor of a name to a state, by that state
}

// renamed is the two names that a rename changed, both or neither.
type renamed struct {
	op    int
	a, b  place
	loose []model.ID // of what had the names, that of which nobody had promised them by then
}

// follow carries the history out in the model. It fails where the guest did what the
// model says is impossible.
func follow(h History, p Profile) (*past, error) {
	f := &past{plan: h.Plan, profile: p, states: []*model.State{model.New()}, letter: newFloors(), custom: newFloors(), namedBy: map[int]int{}}
	last := uint64(0)
	for i, r := range h.Records {
		if r.Op == 0 {
			continue
		}
		if r.Op > uint64(len(h.Plan.Ops)) {
			return nil, fmt.Errorf("judge: the ledger has a record of op %d, the plan %d ops", r.Op, len(h.Plan.Ops))
		}
		last = r.Op
		if i >= len(h.Records)-h.Doubtful && h.Plan.Ops[r.Op-1].Verb == ops.Sync {
			f.distrusted = true // it may have failed
		}
		if err := f.ended(h.Plan.Ops[r.Op-1], r); err != nil || f.unsupported != nil {
			return f, err // what comes after it is not known
		}
	}
	f.underWay(last+1, h.Started)
	return f, nil
}

// underWay follows the ops from one to another, which may have happened, in that order: one,
// but where a ledger comes late, more.
func (f *past) underWay(from, to uint64) {
	now := f.now
	for n := from; n <= min(to, uint64(len(f.plan.Ops))); n++ {
		o, known := f.plan.Ops[n-1], len(f.states)
		switch f.perhaps(o, int(n)); {
		case len(f.states) > known:
			f.now = len(f.states) - 1
		case len(o.Allow) == 0:
			to = n // it fails, and is the last
		}
	}
	f.now = now
}

// ended follows an op that has ended.
func (f *past) ended(o ops.Op, r ledger.Record) error {
	k := int(r.Op)
	if r.Errno != 0 {
		f.refused(o, k, unix.Errno(r.Errno))
		return nil
	}
	states, err := model.Apply(f.states[f.now], o, k)
	if err != nil {
		return fmt.Errorf("judge: op %d, %s, succeeded, and the model says %s: this is a defect of powercut", k, o, ops.ErrnoName(err))
	}
	f.noteRename(o, k)
	f.states = append(f.states, states...)
	f.now = len(f.states) - 1
	if o.Syncs() {
		f.acked++
		if f.distrusted {
			f.doubted = append(f.doubted, k)
		} else {
			f.promised(o)
		}
	}
	return nil
}

// refused follows an op that failed. What it may have done all the same may be found.
func (f *past) refused(o ops.Op, k int, errno unix.Errno) {
	if o.Allows(unix.ErrnoName(errno)) {
		if _, err := model.Apply(f.states[f.now], o, k); err != nil { // it could not succeed
			if s := model.Refuse(f.states[f.now], o, k); s != f.states[f.now] {
				f.states = append(f.states, s)
				f.now = len(f.states) - 1
			}
			return
		}
		if partly(o, errno) {
			f.unsupported = &Unsupported{Op: k, Text: o.String(), Errno: unix.ErrnoName(errno), Partly: true}
			return
		}
	} else if unsupported(o, errno) {
		f.unsupported = &Unsupported{Op: k, Text: o.String(), Errno: unix.ErrnoName(errno)}
		return
	} else {
		f.failed++
	}
	f.perhaps(o, k)
	f.distrusted = f.distrusted || o.Syncs() && errno != unix.EBUSY // which is said before anything is written
}

// partly tells whether an op that failed so may have done a part of its work: it is about many
// bytes, and ran out of room or met an error on its way.
func partly(o ops.Op, errno unix.Errno) bool {
	switch o.Verb {
	case ops.Write, ops.Append, ops.Pwrite, ops.MmapWrite, ops.Truncate, ops.Fallocate, ops.Punch, ops.ZeroRange, ops.Clone, ops.CloneRange:
	default:
		return false
	}
	switch errno {
	case unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EIO:
		return true
	}
	return false
}

// unsupported tells whether an error says that an op is not known at all.
func unsupported(o ops.Op, errno unix.Errno) bool {
	switch errno {
	case unix.EOPNOTSUPP, unix.ENOTTY, unix.ENOSYS:
		return true
	case unix.EINVAL: // ioctl_ficlone(2), rename(2), fallocate(2), open(2)
		switch o.Verb {
		case ops.Clone, ops.CloneRange, ops.Rename, ops.Fallocate, ops.Freeze, ops.Thaw, ops.Remount, ops.Tmpfile:
			return true
		}
		return o.Has(ops.Direct)
	}
	return false
}

// perhaps adds the states of an op that may have happened, in part or in full.
func (f *past) perhaps(o ops.Op, k int) {
	states, err := model.Apply(f.states[f.now], o, k)
	if err != nil {
		return
	}
	f.noteRename(o, k)
	f.states = append(f.states, states...)
}

// noteRename keeps the names that a rename is about.
func (f *past) noteRename(o ops.Op, k int) {
	if o.Verb != ops.Rename {
		return
	}
	a, okA := placeOf(f.states[f.now], o.File)
	b, okB := placeOf(f.states[f.now], o.To)
	if okA && okB && a != b {
		r := renamed{op: k, a: a, b: b}
		for _, p := range []place{a, b} {
			if id := f.current().Entry(p.dir, p.name); id != model.None && f.custom.place(p) < f.since(p, id) {
				r.loose = append(r.loose, id)
			}
		}
		f.renames = append(f.renames, r)
	}
}

// current is the state after the last op that ended.
func (f *past) current() *model.State { return f.states[f.now] }
