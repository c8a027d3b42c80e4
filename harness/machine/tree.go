package machine

import (
	"bytes"
	"context"
	"fmt"

	"powercut/guest/wire"
)

// Inspect asks the guest to check and mount the drive, to read its whole tree, and to
// try whether it still works. What goes wrong in the guest is in what it told.
func (g *Guest) Inspect(ctx context.Context, m wire.Mount) (told wire.Inspection, err error) {
	var b bytes.Buffer
	err = g.Ask(ctx, wire.Inspect, m, func(f wire.Frame) (bool, error) {
		switch f.Type {
		case wire.Content:
			b.Write(f.Payload)
			return false, nil
		case wire.Inspected:
			return true, f.Decode(&told)
		}
		return false, fmt.Errorf("inspect: unexpected message of type %d", f.Type)
	})
	told.Tree.Data = b.Bytes()
	if err == nil {
		err = told.Tree.Check()
	}
	return told, err
}

// Rehearse has the guest carry out plans, and calls each with what became of one
// after the other.
func (g *Guest) Rehearse(ctx context.Context, r wire.Rehearsal, each func(wire.Performance) error) error {
	var b bytes.Buffer
	return g.Ask(ctx, wire.Rehearse, r, func(f wire.Frame) (bool, error) {
		switch f.Type {
		case wire.Content:
			b.Write(f.Payload)
			return false, nil
		case wire.RecordDone:
			return true, nil
		case wire.Rehearsed:
			var p wire.Performance
			if err := f.Decode(&p); err != nil {
				return false, err
			}
			p.Tree.Data = bytes.Clone(b.Bytes())
			b.Reset()
			if err := p.Tree.Check(); err != nil {
				return false, err
			}
			return false, each(p)
		}
		return false, fmt.Errorf("rehearse: unexpected message of type %d", f.Type)
	})
}
