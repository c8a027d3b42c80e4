package promise

import (
	"slices"

	"powercut/guest/ops"
	"powercut/harness/model"
)

// Object tells of what a path led to last in a history.
type Object struct {
	There   bool // the path led to it still when the last op had ended
	Changed int  // the last op that changed it, or what the path leads to; 0: none
	Synced  int  // the last sync call that was about it, from 1; 0: none
	Inode   model.ID
}

// Objects are those of each path that there ever was, "." included; the sync calls that
// Judge doubted are passed over. Like Judge it fails where guest and model contradict
// each other.
func Objects(h History, doubted []int) (map[string]Object, error) {
	f, err := follow(h, Profile{})
	if err != nil {
		return nil, err
	}
	list, leads := map[string]Object{}, map[string]model.ID{}
	old, was := f.states[0], map[string]model.ID{}
	for _, s := range f.states[:f.now+1] {
		is := map[string]model.ID{}
		s.Walk(func(path string, id model.ID) {
			o := list[path]
			if before, known := was[path]; !known || before != id || old.Get(id) != s.Get(id) {
				o.Changed = s.Op
			}
			o.There = true
			list[path], is[path], leads[path] = o, id, id
		})
		for path := range was {
			if _, still := is[path]; !still {
				list[path] = Object{Changed: s.Op}
			}
		}
		old, was = s, is
	}
	synced, all := lastSyncs(h, f, doubted)
	for path, o := range list {
		o.Synced, o.Inode = max(synced[leads[path]], all), leads[path]
		list[path] = o
	}
	return list, nil
}

// lastSyncs are the last sync call on each inode, and the last one on everything.
func lastSyncs(h History, f *past, doubted []int) (on map[model.ID]int, all int) {
	on = map[model.ID]int{}
	after := map[int]*model.State{} // by op
	for _, s := range f.states[:f.now+1] {
		after[s.Op] = s
	}
	for _, r := range h.Records {
		if r.Op == 0 || r.Errno != 0 || slices.Contains(doubted, int(r.Op)) {
			continue
		}
		switch o := h.Plan.Ops[r.Op-1]; {
		case !o.Syncs():
		case o.Verb == ops.Syncfs, o.Verb == ops.Sync, o.Verb == ops.Freeze, o.Verb == ops.Remount:
			all = int(r.Op)
		default:
			if id, err := after[int(r.Op)].Find(o.File); err == nil {
				on[id] = int(r.Op)
			}
		}
	}
	return on, all
}
