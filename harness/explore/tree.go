package explore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/harness/campaign"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// Operations are judged by the whole tree that they leave. All of it is read, so that all
// that was read is needed.

// treeKey names a tree, and what was found beside it, whatever a kernel says more than once;
// of none it is empty.
func treeKey(found *promise.Found) []byte {
	if found == nil {
		return nil
	}
	key := *found
	key.Kernel = slices.Compact(slices.Sorted(slices.Values(found.Kernel)))
	b, err := json.Marshal(key)
	if err != nil {
		panic(err) // it came as JSON
	}
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(found.Tree.Data))
}

// supported fails where an op of the run is not supported: nothing is judged then.
func (e *exploration) supported() error {
	c := e.subject.Call
	r, err := promise.Judge(c.OpsHistory(c.Cut), c.Profile(), promise.Found{Tree: &inspect.Tree{Objects: []inspect.Object{{Path: "."}}}})
	if u := r.Unsupported; u != nil {
		err = fmt.Errorf("explore: op %d, %s, is not supported by this kernel and file system (%s), and nothing of such a run is judged", u.Op, u.Text, u.Errno)
	}
	return err
}

// judgeTree holds the tree of an outcome against what the ops before a position promised.
func (e *exploration) judgeTree(at int, o *outcome) (Verdict, error) {
	result, err := promise.Judge(e.subject.Call.OpsHistory(at), e.subject.Call.Profile(), *o.tree)
	if err != nil {
		return Verdict{}, fmt.Errorf("judge the state of cut %d: %w", at, err)
	}
	return Verdict{Recovery: o.recovery, Tree: &result}, nil
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
