package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"

	"powercut/guest/ops"
	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/promise"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// Stand is what the guests of a scenario of ops need, for those who put the stages of
// a run together in another way: the scenario's own ops are of no use to it.
type Stand struct {
	Scenario scenarios.Scenario
	Machine  *machine.Machine
	Base     string // path of the formatted disk

	run *run
}

// Stand prepares a scenario of ops. The guest's ledger must be in memory.
func (l *Lab) Stand(ctx context.Context, s scenarios.Scenario) (*Stand, error) {
	if s.Workload.Kind != scenarios.OpsKind {
		return nil, fmt.Errorf("prepare scenario %s: its workload is not one of ops", s.Name)
	}
	r := &run{lab: l, scenario: s}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if r.serial() {
		return nil, errors.New("prepare guest: it has no ledger in memory, without which many workloads cannot share it: its kernel lacks /dev/mem")
	}
	return &Stand{Scenario: s, Machine: r.machine, Base: r.base, run: r}, nil
}

// Plans are those of lists of ops, each with the bytes that a run of it with that seed
// writes.
func (s *Stand) Plans(lists [][]ops.Op, seed uint64) (out []ops.Plan) {
	other := s.Scenario
	for _, list := range lists {
		other.Workload.Ops = list
		out = append(out, other.OpsPlan(seed))
	}
	return out
}

// Workload is what a guest is asked for, to carry out plans.
func (s *Stand) Workload(plans []ops.Plan) wire.Workload {
	w := s.run.workload(workload.Plan{})
	w.Ops = plans
	return w
}

// Drive is the scenario's drive over that content; counts reads the guest's ledger.
func (s *Stand) Drive(base io.ReaderAt, log *blocklog.Writer, seed uint64, counts func() (started, acked uint64)) *disk.Drive {
	cfg := s.run.driveConfig(base, log, seed)
	cfg.Counts = counts
	return disk.New(cfg)
}

// Honest is a drive without faults over that content, for a recovery.
func (s *Stand) Honest(base io.ReaderAt, log *blocklog.Writer) *disk.Drive {
	return disk.New(disk.Config{Base: base, Size: s.Scenario.Filesystem.DriveSize(), Log: log, WriteCache: s.Scenario.Drive.Volatile()})
}

// Recover has a guest recover its drive, and says what it found. What goes wrong in the
// guest is a verdict; limit is how long it had, of which ctx is the rest.
func (s *Stand) Recover(ctx context.Context, g *machine.Guest, console Console) (verdict.Recovery, promise.Found, error) {
	v, found, _, err := InspectTree(ctx, g, s.run.recoveryMount(), console)
	return v, found, err
}

// Profile is what the file system is known to do.
func (s *Stand) Profile() promise.Profile { return s.run.profile() }
