package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/harness/campaign"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// Operations are judged by the whole tree that they leave. All of it is read, so that all
// that was read is needed.

// trees are what was found in states, each kept once.
type trees struct {
	stamps map[int64]bool // time stamps that ops set, in nanoseconds
	mu     sync.Mutex     // guards known, which a goroutine for each checker uses
	known  map[uint64]*promise.Found
}

func newTrees(list []ops.Op) *trees {
	t := &trees{stamps: map[int64]bool{}, known: map[uint64]*promise.Found{}}
	for _, o := range list {
		if o.Verb == ops.Utimes {
			t.stamps[o.Seconds*int64(time.Second)] = true
		}
	}
	return t
}

// keep gives an outcome its tree, or an equal one that is known.
func (t *trees) keep(o *outcome, found *promise.Found) {
	key := t.key(found)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[key] == nil {
		t.known[key] = found
	}
	o.tree, o.treeKey = t.known[key], key
}

// key names what was found, as far as a verdict depends on it: not on what mkfs has made, nor
// on time stamps that no op set, which recovery may set, nor on how often a kernel says a thing.
func (t *trees) key(found *promise.Found) uint64 {
	same := promise.Found{Tree: &inspect.Tree{}, Work: found.Work, Kernel: slices.Compact(slices.Sorted(slices.Values(found.Kernel)))}
	for _, o := range found.Tree.Objects {
		if inspect.Own(o.Path) {
			continue
		}
		if !t.stamps[o.Mtime] {
			o.Mtime = -1
		}
		same.Tree.Objects = append(same.Tree.Objects, o)
	}
	b, err := json.Marshal(same)
	if err != nil {
		panic(err) // it came as JSON
	}
	h := xxhash.New()
	_, _ = h.Write(b)
	_, _ = h.Write(found.Tree.Data)
	return h.Sum64()
}

// supported fails where an op of the run is not supported: nothing is judged then.
func (e *exploration) supported() error {
	c := e.subject.Call
	r, err := promise.Judge(c.OpsHistory(c.History(c.Cut)), c.Profile(), promise.Found{Tree: &inspect.Tree{Objects: []inspect.Object{{Path: "."}}}})
	e.report.Doubted = r.Doubted
	if u := r.Unsupported; u != nil {
		err = fmt.Errorf("explore: nothing of this run is judged: %s", u)
	}
	return err
}

// judgeTree holds the tree of an outcome against a history of ops.
func (e *exploration) judgeTree(h verdict.History, o *outcome) (Verdict, error) {
	result, err := promise.Judge(e.subject.Call.OpsHistory(h), e.subject.Call.Profile(), *o.tree)
	return Verdict{Recovery: o.recovery, Tree: &result}, err
}

// ofTree fills in what a verdict on the tree of these ops comes to.
func (v *Violation) ofTree(r *promise.Result, list []string, records []ledger.Record) {
	v.Counts = campaign.OpsCounts(*r)
	var words []string
	for _, f := range r.Findings {
		if f.Class == promise.Unpromised {
			continue
		}
		if len(v.Findings) < maxOps {
			v.Findings = append(v.Findings, f)
		}
		if len(words) == 0 {
			words = append(words, fmt.Sprintf("%s: %s, %s", f.Class, f.Path, f.Text(list)))
		}
	}
	if n := r.Counts.Lost + r.Counts.Customary + r.Counts.Forbidden; n > 1 {
		words = append(words, fmt.Sprintf("and %d more", n-1))
	}
	v.Text = strings.Join(words, "; ")
	v.Runs = treeRuns(r, records)
}

// treeRuns are the ops that had ended: a sync call is kept or lost by what it promised, and
// the others have no verdict.
func treeRuns(r *promise.Result, records []ledger.Record) []Run {
	lost := map[int]bool{}
	for _, f := range r.Findings {
		lost[f.Sync] = lost[f.Sync] || f.Class != promise.Unpromised
	}
	var list []verdict.OpVerdict
	for _, rec := range records {
		if rec.Op == 0 {
			continue
		}
		o := verdict.OpVerdict{Op: int(rec.Op)}
		switch {
		case lost[o.Op]:
			o.Class = verdict.Lost
		case rec.Synced:
			o.Class = verdict.Kept
		}
		list = append(list, o)
	}
	return runsOf(list)
}
