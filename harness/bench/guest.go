package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"powercut/guest/ledger"
	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/machine"
)

// blockLog is the name of a drive's log in the folder of its guest.
const blockLog = "block.log"

// bay is a folder with a recording drive in it, for one guest.
type bay struct {
	dir    string
	base   *os.File
	log    *blocklog.Writer
	drive  *disk.Drive
	memory atomic.Pointer[ledger.Region] // the guest's ledger; nil before there is one
}

// newBay makes a drive as a run has it, with the formatted disk in it. Cut, if not
// nil, is asked as disk.Config.Cut is.
func (r *rig) newBay(name string, cut func(int, *blocklog.Event) (string, bool)) (_ *bay, err error) {
	b := &bay{}
	if b.dir, err = os.MkdirTemp(r.folder, name+"-"); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if b.base, err = os.Open(r.base); err != nil {
		return nil, fmt.Errorf("open formatted disk: %w", err)
	}
	size := int64(r.scenario.Filesystem.Size)
	if b.log, err = blocklog.Create(filepath.Join(b.dir, blockLog), size); err != nil {
		b.base.Close()
		return nil, err
	}
	if cut == nil {
		cut = func(int, *blocklog.Event) (string, bool) { return "", false }
	}
	b.drive = disk.New(disk.Config{
		Base: b.base, Size: size, Log: b.log, WriteCache: r.scenario.Drive.WriteCache, Counts: b.counts, Cut: cut,
	})
	return b, nil
}

// counts are those of the guest's ledger, the records first, as a run reads them.
func (b *bay) counts() (started, acked uint64) {
	if m := b.memory.Load(); m != nil {
		acked = m.Published()
		return m.Started(), acked
	}
	return 0, 0
}

// close ends the drive and deletes the folder. The guest is closed before.
func (b *bay) close() error {
	b.drive.Close()
	return errors.Join(b.log.Close(), b.base.Close(), os.RemoveAll(b.dir))
}

// fork starts a guest on the drive of the bay.
func (b *bay) fork(ctx context.Context, m *machine.Machine) (*machine.Guest, error) {
	g, err := m.Fork(ctx, b.dir, b.drive)
	if err != nil {
		return nil, err
	}
	region, err := g.Ledger()
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	b.memory.Store(&region)
	return g, nil
}

// withGuest calls do with a guest on a recording drive of its own, for at most
// stepDeadline.
func (r *rig) withGuest(ctx context.Context, name string, do func(context.Context, *machine.Guest) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	b, err := r.newBay(name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	g, err := b.fork(ctx, r.machine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := do(ctx, g); err != nil {
		return g.Failure("measure", err)
	}
	return nil
}

// mount is how the scenario's file system is mounted.
func (r *rig) mount() wire.Mount {
	return wire.Mount{Type: string(r.scenario.Filesystem.Type), Options: r.scenario.Filesystem.Mount}
}

// overwrite is a workload of fdatasync on blocks of 4 KiB, each written once.
func overwrite(ops int) workload.Plan {
	const block = 4096
	return workload.Plan{
		Kind: workload.Overwrite, Path: "bench", Size: int64(ops) * block, Count: ops, Bytes: block, Stride: block,
		Call: workload.Fdatasync, Seed: 1,
	}
}

// runWorkload runs a plan of fewer ops than the ledger holds to its end, and
// returns the records of its ops.
func (r *rig) runWorkload(ctx context.Context, g *machine.Guest, p workload.Plan) ([]ledger.Record, error) {
	region, err := g.Ledger()
	if err != nil {
		return nil, err
	}
	err = g.Ask(ctx, wire.Record, wire.Workload{Mount: r.mount(), Plan: p}, func(f wire.Frame) (bool, error) {
		if f.Type == wire.Mounted {
			return false, nil
		}
		if f.Type != wire.RecordDone {
			return false, fmt.Errorf("run workload: unexpected message of type %d", f.Type)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	records, err := region.Take()
	if err != nil {
		return nil, err
	}
	if len(records) != p.Count+1 {
		return nil, fmt.Errorf("run workload: %d records of %d ops", len(records), p.Count)
	}
	for _, rec := range records {
		if !rec.Synced {
			return nil, fmt.Errorf("run workload: op %d failed with errno %d", rec.Op, rec.Errno)
		}
	}
	return records[1:], nil
}

// nanoseconds since begun.
func since(begun time.Time) int64 { return int64(time.Since(begun)) }
