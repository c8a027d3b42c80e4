// Package generate makes workloads of ops: all short ones within bounds, and random
// ones of any length. It is pure.
//
// The short ones are after CrashMonkey's ACE (Mohan et al., "Finding Crash-Consistency
// Bugs with Bounded Black-Box Crash Testing", OSDI 2018): sequences of a few ops over a
// few names. After the last op comes fsync of what is named in the sequence or holds that,
// fdatasync of what the op names, or sync; after others none, fsync, or sync. What a
// sequence needs to be there is made first and synced: directories, files of 16 KiB,
// attributes. Of sequences that differ in names alone one is made.
package generate

import (
	"iter"
	"slices"

	"powercut/guest/ops"
	"powercut/harness/model"
)

// MaxLength bounds the ops of an enumerated sequence, sync calls not counted.
const MaxLength = 3

// Bounds are those of an enumeration.
type Bounds struct {
	Length int      // ops of a sequence, 1 to MaxLength; shorter sequences are not made
	Kinds  []string // of ops, of Kinds; none: all
	Syncs  []string // of sync calls, of Syncs; none: all
	// Unsynced makes each workload a second time without a sync after what is made first.
	Unsynced bool
}

// Syncs are the sync calls that may follow an op.
var Syncs = []string{"fsync", "fdatasync", "sync"}

// Enumerate makes all workloads within the bounds, always in the same order.
func Enumerate(b Bounds) iter.Seq[[]ops.Op] {
	return func(yield func([]ops.Op) bool) {
		var steps []step
		for _, k := range kinds {
			if len(b.Kinds) == 0 || slices.Contains(b.Kinds, k.name) {
				steps = append(steps, k.steps()...)
			}
		}
		e := &enumeration{bounds: b, steps: steps, yield: yield}
		e.extend(sequence{}, 0)
	}
}

type enumeration struct {
	bounds Bounds
	steps  []step
	yield  func([]ops.Op) bool
}

// extend makes all sequences that begin like s, which has n ops. It is false where no
// more are wanted.
func (e *enumeration) extend(s sequence, n int) bool {
	for _, step := range e.steps {
		next, ok := s.then(step)
		if !ok || !canonical(next.core) {
			continue
		}
		last := n+1 == e.bounds.Length
		if !last && !e.extend(next, n+1) { // without a sync call
			return false
		}
		calls := e.calls(next, step)
		if !last {
			calls = between(calls)
		}
		for _, call := range calls {
			synced, ok := next.sync(call)
			switch {
			case !ok || !canonical(synced.core):
			case last && !e.emit(synced), !last && !e.extend(synced, n+1):
				return false
			}
		}
	}
	return true
}

// emit makes the workloads of a sequence: with what it needs synced and not.
func (e *enumeration) emit(s sequence) bool {
	made := s.preparation()
	if len(made) == 0 {
		return e.yield(s.core)
	}
	return e.yield(slices.Concat(made, []ops.Op{{Verb: ops.Sync}}, s.core)) &&
		(!e.bounds.Unsynced || e.yield(slices.Concat(made, s.core)))
}

// calls are the sync calls that may follow a step: fdatasync of the files that it
// names; fsync of those, of all that ops before it name, and of the directories that
// hold these; and sync. Those that come first are of what it names itself.
func (e *enumeration) calls(s sequence, last step) (out []ops.Op) {
	wanted := func(v ops.Verb) bool { return len(e.bounds.Syncs) == 0 || slices.Contains(e.bounds.Syncs, string(v)) }
	own := named(last.ops)
	if wanted(ops.Fsync) {
		for _, path := range append(own, named(s.core)...) {
			if call := (ops.Op{Verb: ops.Fsync, File: path}); !slices.ContainsFunc(out, func(o ops.Op) bool { return o.File == path }) {
				out = append(out, call)
			}
		}
	}
	if wanted(ops.Fdatasync) {
		for _, path := range own {
			if s.isFile(path) {
				out = append(out, ops.Op{Verb: ops.Fdatasync, File: path})
			}
		}
	}
	if wanted(ops.Sync) {
		out = append(out, ops.Op{Verb: ops.Sync})
	}
	return out
}

// between are those of an op's sync calls that may stand before another op.
func between(calls []ops.Op) (out []ops.Op) {
	for _, v := range []ops.Verb{ops.Fsync, ops.Sync} {
		if i := slices.IndexFunc(calls, func(o ops.Op) bool { return o.Verb == v }); i >= 0 {
			out = append(out, calls[i])
		}
	}
	return out
}

// sequence is a list of ops and what it needs to be there before.
type sequence struct {
	core   []ops.Op
	made   []string // paths that are made first: of directories and files, and attributes as FILE#NAME
	absent []string // paths that may not be made first
	state  *model.State
}

// then is the sequence with a step more; false where it is not possible.
func (s sequence) then(t step) (sequence, bool) {
	if s.state == nil {
		s.state = model.New()
	}
	s.core, s.made, s.absent = slices.Clip(s.core), slices.Clip(s.made), slices.Clip(s.absent)
	for _, path := range t.needs {
		if !s.has(path) && !s.make(path) {
			return s, false
		}
	}
	for _, path := range t.absent {
		if dir := parent(path); dir != "." && !s.has(dir) && !s.make(dir) {
			return s, false
		}
		if s.has(path) {
			return s, false
		}
		if !slices.Contains(s.made, path) {
			s.absent = append(s.absent, path)
		}
	}
	for _, o := range t.ops {
		if !s.add(o) {
			return s, false
		}
	}
	return s, true
}

// sync is the sequence with a sync call at its end.
func (s sequence) sync(o ops.Op) (sequence, bool) {
	s.core = slices.Clip(s.core)
	ok := s.add(o)
	return s, ok
}

// add appends an op; false where it fails.
func (s *sequence) add(o ops.Op) bool {
	states, err := model.Apply(s.state, o, 1)
	if err != nil {
		return false
	}
	s.core, s.state = append(s.core, o), states[len(states)-1]
	return true
}

// make has a path made before the sequence; false where that was not so for all that
// the sequence has done since.
func (s *sequence) make(path string) bool {
	if slices.Contains(s.made, path) || slices.Contains(s.absent, path) {
		return false
	}
	if dir := parent(path); dir != "." && !slices.Contains(s.made, dir) && !s.make(dir) {
		return false
	}
	s.made = append(s.made, path)
	core := s.core
	s.core, s.state = nil, model.New()
	for _, o := range append(s.preparation(), core...) {
		if !s.add(o) {
			return false
		}
	}
	s.core = core
	return true
}

// preparation are the ops that make what has to be there.
func (s sequence) preparation() (out []ops.Op) {
	for _, path := range slices.Sorted(slices.Values(s.made)) {
		out = append(out, makes(path))
	}
	return out
}
