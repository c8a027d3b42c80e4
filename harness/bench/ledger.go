package bench

import (
	"context"
	"fmt"

	"powercut/guest/ledger"
	"powercut/guest/wire"
	"powercut/harness/machine"
)

// The bounds of the ledger. That a record be a hundred times cheaper than a round
// trip is what sharing memory is worth its trouble for.
const (
	minRecordGain  = 100
	maxLedgerShare = 1 // percent of a sync call
)

// burst is how many records are published in one go: fewer than the ring holds,
// so that the guest never waits.
const burst = ledger.Capacity - 320

// ledgerCosts are times in nanoseconds.
type ledgerCosts struct {
	record []float64 // each the mean of a burst
	trip   []int64
	sync   []int64 // latencies of fdatasync
}

// ledger measures what a record costs, and what it is to be compared with.
func (r *rig) ledger(ctx context.Context) ([]Figure, error) {
	var c ledgerCosts
	r.options.Progress.Stage("ledger", 3)
	if err := r.withGuest(ctx, "ledger", func(ctx context.Context, g *machine.Guest) error { return r.ledgerOf(ctx, g, &c) }); err != nil {
		return nil, err
	}
	record := timed("record", c.record)
	return []Figure{
		Figure{
			Name: RoundTripFigure, Text: "serial round trip against ledger record", Unit: Times,
			Value: median(c.trip) / record.Value, Parts: []Part{record, timed("round trip", c.trip)},
		}.atLeast(minRecordGain),
		Figure{
			Name: ShareFigure, Text: "ledger's share of a sync call", Unit: Percent,
			Value: 100 * record.Value / median(c.sync), Parts: []Part{record, timed("fdatasync", c.sync)},
		}.atMost(maxLedgerShare),
	}, nil
}

func (r *rig) ledgerOf(ctx context.Context, g *machine.Guest, c *ledgerCosts) error {
	for range r.effort.echoes {
		d, err := g.Echo(ctx)
		if err != nil {
			return err
		}
		c.trip = append(c.trip, int64(d))
	}
	r.options.Progress.Set(1)
	for range r.effort.bursts {
		ns, err := recordCost(ctx, g)
		if err != nil {
			return err
		}
		c.record = append(c.record, ns)
	}
	r.options.Progress.Set(2)
	records, err := r.runWorkload(ctx, g, overwrite(r.effort.ops))
	if err != nil {
		return err
	}
	for _, rec := range records {
		c.sync = append(c.sync, rec.SyncLatency())
	}
	return nil
}

// recordCost lets the guest publish a burst of records and returns the time that
// one took, in nanoseconds of the guest.
func recordCost(ctx context.Context, g *machine.Guest) (float64, error) {
	region, err := g.Ledger()
	if err != nil {
		return 0, err
	}
	var m wire.Measurement
	err = g.Ask(ctx, wire.Measure, wire.Measurement{Rounds: burst}, func(f wire.Frame) (bool, error) {
		if f.Type != wire.Measure {
			return false, fmt.Errorf("measure ledger: unexpected message of type %d", f.Type)
		}
		return true, f.Decode(&m)
	})
	if err != nil {
		return 0, err
	}
	records, err := region.Take()
	if err != nil {
		return 0, err
	}
	if len(records) != burst || m.Elapsed <= 0 {
		return 0, fmt.Errorf("measure ledger: %d of %d records in %d ns", len(records), burst, m.Elapsed)
	}
	return float64(m.Elapsed) / burst, nil
}
