package evidence

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/harness/model"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// Object is a path of a workload of ops: found in the recovered tree, or missing there.
type Object struct {
	Path     string
	Found    *inspect.Object // nil: not there
	There    bool            // it was there when the last op had ended
	Changed  int             // the last op that changed it, from 1; 0: none
	Synced   int             // the last sync call that was about it, from 1; 0: none
	Findings []promise.Finding
	// GoneWith is the directory above it that is missing and has a finding, where it is
	// missing and has none of its own: what cannot be reached is not judged.
	GoneWith string
}

// tree makes the ops of a workload of ops, and the objects that they were about. A
// sync call is kept or lost by what it promised; the other ops have no verdict.
func (c *Call) tree(dir string, plan ops.Plan, records []ledger.Record) error {
	h := promise.History{Plan: plan, Records: records, Started: uint64(c.Tree.Counts.Ops)}
	known := c.Recovery.Class == verdict.Recovered && c.Tree.Unsupported == nil
	for k := 1; k <= min(c.Tree.Counts.Ops, len(plan.Ops)); k++ {
		c.Ops = append(c.Ops, Op{Number: k, Text: plan.Ops[k-1].String()})
	}
	c.timed(records)
	for _, r := range records {
		if r.Op == 0 || r.Op > uint64(len(c.Ops)) {
			continue
		}
		o, op := &c.Ops[r.Op-1], plan.Ops[r.Op-1]
		o.Failed = r.Errno != 0 && !op.Allows(unix.ErrnoName(unix.Errno(r.Errno)))
		switch o.Acked = op.Syncs() && r.Errno == 0; {
		case !o.Acked || !known:
		case slices.Contains(c.Tree.Doubted, o.Number):
			o.Class = verdict.Unpromised
		default:
			o.Class = verdict.Kept
		}
	}
	if !known {
		return nil
	}
	for _, f := range c.Tree.Findings {
		if f.Class != promise.Unpromised && f.Sync > 0 && f.Sync <= len(c.Ops) {
			c.Ops[f.Sync-1].Class = verdict.Lost
		}
	}
	var found inspect.Tree
	if err := readJSON(filepath.Join(dir, "tree.json"), &found); err != nil {
		return err
	}
	return c.objects(h, found)
}

// objects joins what was found, what was there, and what was said of each path.
func (c *Call) objects(h promise.History, found inspect.Tree) error {
	known, err := promise.Objects(h, c.Tree.Doubted)
	if err != nil {
		return err
	}
	all := map[string]*Object{}
	at := func(p string) *Object {
		if all[p] == nil {
			all[p] = &Object{Path: p, There: known[p].There, Changed: known[p].Changed, Synced: known[p].Synced}
		}
		return all[p]
	}
	for i, o := range found.Objects {
		if !inspect.Own(o.Path) {
			at(o.Path).Found = &found.Objects[i]
		}
	}
	for p, o := range known {
		if o.There {
			at(p)
		}
	}
	for _, f := range c.Tree.Findings {
		o := at(f.Path)
		o.Findings = append(o.Findings, f)
	}
	reached := map[model.ID]bool{} // inodes that a path which was there still leads to
	for p, o := range all {
		reached[known[p].Inode] = reached[known[p].Inode] || o.There && o.Found != nil
	}
	for _, p := range slices.Sorted(maps.Keys(all)) { // a directory comes before what is in it
		o := all[p]
		switch above := all[path.Dir(p)]; {
		case !o.There || o.Found != nil:
		case len(o.Findings) > 0:
			c.gone(o, o.Findings, reached[known[p].Inode])
		case above != nil && above.Found == nil:
			o.GoneWith = cmp.Or(above.GoneWith, above.Path)
			c.gone(o, all[o.GoneWith].Findings, reached[known[p].Inode])
		}
		c.Objects = append(c.Objects, *o)
	}
	return nil
}

// gone marks the last sync call on what is missing, if it was to be kept, as findings say
// of it or of the directory that it is gone with: what that call promised cannot be reached,
// unless by another name.
func (c *Call) gone(o *Object, findings []promise.Finding, reached bool) {
	broken := slices.ContainsFunc(findings, func(f promise.Finding) bool { return f.Class != promise.Unpromised })
	if broken && !reached && o.Synced > 0 && o.Synced <= len(c.Ops) {
		c.Ops[o.Synced-1].Class = verdict.Lost
	}
}
