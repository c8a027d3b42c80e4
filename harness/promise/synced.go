package promise

import (
	"powercut/guest/ops"
	"powercut/harness/model"
)

// Object tells of what a path led to last in a history.
type Object struct {
	There  bool // the path led to it still when the last op had ended
	Synced int  // the last sync call that was about it, from 1; 0: none
}

// Objects are those of each path that there ever was, "." included. Like Judge it fails
// where guest and model contradict each other.
func Objects(h History) (map[string]Object, error) {
	f, err := follow(h, Profile{})
	if err != nil {
		return nil, err
	}
	leads := map[string]model.ID{}
	for _, s := range f.states[:f.now+1] {
		s.Walk(func(path string, id model.ID) { leads[path] = id })
	}
	now := map[string]bool{}
	f.current().Walk(func(path string, _ model.ID) { now[path] = true })
	synced, all := lastSyncs(h, f)
	list := map[string]Object{}
	for path, id := range leads {
		list[path] = Object{There: now[path], Synced: max(synced[id], all)}
	}
	return list, nil
}

// lastSyncs are the last sync call on each inode, and the last one on everything.
func lastSyncs(h History, f *past) (on map[model.ID]int, all int) {
	on = map[model.ID]int{}
	after := map[int]*model.State{} // by op
	for _, s := range f.states[:f.now+1] {
		after[s.Op] = s
	}
	for _, r := range h.Records {
		if r.Op == 0 || r.Errno != 0 {
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
