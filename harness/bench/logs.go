package bench

import (
	"context"
	"path/filepath"

	"powercut/harness/campaign"
	"powercut/scenarios"
)

// LogFigure begins the names of the figures of PartLog; the scenario's name follows.
const LogFigure = "log-size"

// maxLogShare is how many bytes of log may be kept for each byte that a guest wrote.
const maxLogShare = 0.35

// logs runs the scenarios that are made after the mail threads, on a drive that
// answers at once, and tells how large their compressed logs are.
func (r *rig) logs(ctx context.Context) ([]Figure, error) {
	lab := &campaign.Lab{
		Runs: filepath.Join(r.folder, "runs"), Binary: r.options.Binary, QEMU: r.options.QEMU, Progress: r.options.Progress,
	}
	var out []Figure
	for _, name := range []string{"ext2-overwrite", "ext3-overwrite", "ext3-append", "ext4-overwrite"} {
		s, err := scenarios.Load(name, scenarios.Override{Path: "drive.timing", Value: string(scenarios.NoTiming)})
		if err != nil {
			return nil, err
		}
		doc, err := lab.Run(ctx, s, 1)
		if err != nil {
			return nil, err
		}
		var payload, plain, kept int64
		f := Figure{Name: LogFigure + "-" + name, Text: "block log per byte written, " + name, Unit: Times}
		for _, c := range doc.Calls {
			payload, plain, kept = payload+c.Log.Payload, plain+c.Log.Plain, kept+c.Log.Compressed
			f.Parts = append(f.Parts, Part{Name: c.Call, Value: float64(c.Log.Compressed) / float64(c.Log.Payload), Unit: Times, Samples: 1})
		}
		f.Parts = append(f.Parts, Part{Name: "not compressed", Value: float64(plain) / float64(payload), Unit: Times, Samples: 1})
		f.Value = float64(kept) / float64(payload)
		out = append(out, f.atMost(maxLogShare))
	}
	return out, nil
}
