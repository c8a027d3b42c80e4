package generate

import (
	"iter"
	"math/rand/v2"
	"slices"

	"powercut/guest/ops"
	"powercut/harness/model"
)

// Random makes a workload of n ops that depends on r alone, with many sync calls among
// them and one at the end.
func Random(r *rand.Rand, n int, f model.Features) []ops.Op {
	out := make([]ops.Op, 0, n)
	s := model.New()
	add := func(o ops.Op) {
		if states, err := model.Apply(s, o, len(out)+1); err == nil {
			s = states[len(states)-1]
		}
		out = append(out, o)
	}
	for _, o := range model.Random(r, n, f) {
		if len(out) >= n-1 {
			break
		}
		add(o)
		if len(out) < n-1 && r.IntN(4) == 0 {
			add(syncOf(r, s))
		}
	}
	add(syncOf(r, s))
	return out
}

// syncOf is a sync call of anything that is there.
func syncOf(r *rand.Rand, s *model.State) ops.Op {
	if r.IntN(8) == 0 {
		return ops.Op{Verb: ops.Sync}
	}
	var paths []string
	s.Walk(func(path string, id model.ID) {
		if n := s.Get(id); n.Dir() || n.Regular() {
			paths = append(paths, path)
		}
	})
	path := paths[r.IntN(len(paths))]
	if id, err := s.Find(path); err == nil && s.Get(id).Regular() && r.IntN(4) == 0 {
		return ops.Op{Verb: ops.Fdatasync, File: path}
	}
	return ops.Op{Verb: ops.Fsync, File: path}
}

// Sample draws n of the workloads, in their order; all where there are no more.
func Sample(all iter.Seq[[]ops.Op], n int, r *rand.Rand) iter.Seq[[]ops.Op] {
	return func(yield func([]ops.Op) bool) {
		type drawn struct {
			at int
			w  []ops.Op
		}
		var kept []drawn // a reservoir (Vitter's algorithm R)
		at := 0
		for w := range all {
			if at++; len(kept) < n {
				kept = append(kept, drawn{at, w})
			} else if i := r.IntN(at); i < n {
				kept[i] = drawn{at, w}
			}
		}
		slices.SortFunc(kept, func(a, b drawn) int { return a.at - b.at })
		for _, d := range kept {
			if !yield(d.w) {
				return
			}
		}
	}
}
