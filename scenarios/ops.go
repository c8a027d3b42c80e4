package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"powercut/guest/inspect"
	"powercut/guest/ops"
	"powercut/guest/workload"
	"powercut/harness/model"
)

// settleOps gives a workload of ops what follows from them.
func (s *Scenario) settleOps(given func(path string) bool) {
	if s.Workload.Kind != OpsKind {
		return
	}
	s.Workload.Count = len(s.Workload.Ops)
	s.Workload.Calls = []workload.Call{OpsCall}
	if s.Cut == (Cut{}) && !given("cut") {
		s.Cut.Ack = s.Workload.Count
	}
	none := func(path string, b *Bounds, unit Unit) {
		if !given("expect." + path) {
			*b = Bounds{Every: {Unit: unit}}
		}
	}
	none("customary", &s.Expect.Customary, Number)
	none("forbidden", &s.Expect.Forbidden, Number)
	none("failed", &s.Expect.Failed, Ops)
}

// ofOtherKinds are the fields of a workload that mean nothing to ops.
var ofOtherKinds = []string{"file", "size", "count", "bytes", "stride", "chunk", "sync", "observers", "calls"}

// checkOps says which of the ops cannot be what it is where it stands.
func (s Scenario) checkOps(d *decoder) error {
	w := s.Workload
	if w.Kind != OpsKind {
		return s.checkNoOps(d)
	}
	for _, name := range ofOtherKinds {
		if place, given := d.names["workload."+name]; given {
			return place.errorf("workload.%s: is not of a workload of ops", name)
		}
	}
	switch {
	case len(w.Ops) == 0:
		return d.at("workload").errorf(`workload.ops: is missing; with kind: ops it is a list, each an op such as "write a 4KiB"`)
	case s.Drive.Backend != NBD:
		return d.at("drive.backend").errorf("drive.backend: a workload of ops needs %s", NBD)
	}
	var wrong *ops.ListError
	if err := ops.Check(w.Ops); errors.As(err, &wrong) {
		return d.opError(w.Ops, wrong)
	}
	return s.checkPossible(d)
}

// checkNoOps refuses what only a workload of ops has.
func (s Scenario) checkNoOps(d *decoder) error {
	for path, is := range map[string]bool{
		"workload.ops": len(s.Workload.Ops) > 0, "expect.customary": len(s.Expect.Customary) > 0, "expect.forbidden": len(s.Expect.Forbidden) > 0,
	} {
		if is {
			return d.at(path).errorf("%s: needs a workload of kind: %s", path, OpsKind)
		}
	}
	return nil
}

// checkPossible follows the ops in the model: an op that cannot succeed is a mistake,
// unless it says that it may fail.
func (s Scenario) checkPossible(d *decoder) error {
	state := model.New()
	for i, o := range s.Workload.Ops {
		states, err := model.Apply(state, o, i+1)
		if err == nil {
			state = states[len(states)-1]
			if n := held(state); n > inspect.MaxData {
				return d.opError(s.Workload.Ops, &ops.ListError{Index: i, ParseError: ops.ParseError{
					Message: fmt.Sprintf("with this the files hold %d bytes, each of their names counted; allowed: up to %d, which is all that can be looked at", n, inspect.MaxData),
				}})
			}
			continue
		}
		if name := ops.ErrnoName(err); !o.Allows(name) {
			return d.opError(s.Workload.Ops, &ops.ListError{Index: i, ParseError: ops.ParseError{
				Message: fmt.Sprintf("%s fails here with %s; if it should, end it with: allow %s", o.Verb, name, name),
			}})
		}
		if slices.ContainsFunc(o.Allow, func(name string) bool { return name != ops.ErrnoName(err) }) {
			return nil // whether it fails is not known
		}
	}
	return nil
}

// held is how many bytes the files hold, a file counted for each of its names.
func held(state *model.State) (n int64) {
	state.Walk(func(_ string, id model.ID) {
		for _, p := range state.Get(id).Content {
			n += p.Length
		}
	})
	return n
}

// opError finds the place of an error about one op.
func (d *decoder) opError(list []ops.Op, e *ops.ListError) error {
	n := &node{kind: textual, text: list[e.Index].String(), place: d.at(fmt.Sprintf("workload.ops.%d", e.Index))}
	return n.inside(&e.ParseError).errorf("workload.ops: %s", strings.TrimSpace(e.Message))
}

// OpsPlan is the plan of a workload of ops.
func (s Scenario) OpsPlan(seed uint64) ops.Plan {
	return ops.Plan{Ops: s.Workload.Ops, Seed: mixSeed(seed, OpsCall)}
}
