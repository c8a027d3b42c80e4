package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"powercut/harness/campaign"
	"powercut/harness/report"
	"powercut/scenarios"
)

// LogFigure begins the names of the figures of PartLog; the scenario's name follows.
const LogFigure = "log-size"

// maxLogShare is how many bytes of log may be kept for each byte that a guest wrote.
const maxLogShare = 0.35

// logOps is the length of a workload whose log is measured: that of the thread's.
const logOps = 1000

// logs runs the workloads that are made after the mail threads to their end, on a drive
// that answers at once, and tells how large their compressed logs are: of each call's
// log, the value is that of the largest.
func (r *rig) logs(ctx context.Context) ([]Figure, error) {
	lab := &campaign.Lab{
		Runs: filepath.Join(r.folder, "runs"), Binary: r.options.Binary, QEMU: r.options.QEMU, Progress: r.options.Progress,
	}
	var out []Figure
	for _, name := range []string{"ext2-overwrite", "ext3-overwrite", "ext3-append", "ext4-overwrite"} {
		var changes []scenarios.Override
		for path, value := range map[string]string{
			"drive.timing": string(scenarios.NoTiming), "workload.count": strconv.Itoa(logOps), "cut": fmt.Sprintf("{op: %d}", logOps), "expect": "{}",
		} {
			changes = append(changes, scenarios.Override{Path: path, Value: value})
		}
		s, err := scenarios.Load(name, changes...)
		if err != nil {
			return nil, err
		}
		doc, err := lab.Run(ctx, s, 1)
		if err != nil {
			return nil, err
		}
		out = append(out, logSizes(name, doc.Calls))
	}
	return out, nil
}

// logSizes is the figure of one workload.
func logSizes(name string, calls []report.Call) Figure {
	f := Figure{Name: LogFigure + "-" + name, Text: "block log per byte written, " + name, Unit: Times, Parts: []Part{}}
	part := func(name string, bytes, payload int64) float64 {
		share := float64(bytes) / float64(payload)
		f.Parts = append(f.Parts, Part{Name: name, Value: share, Unit: Times, Samples: 1})
		return share
	}
	var payload, plain int64
	for _, c := range calls {
		payload, plain = payload+c.Log.Payload, plain+c.Log.Plain
		f.Value = max(f.Value, part(c.Call, c.Log.Compressed, c.Log.Payload))
	}
	part("not compressed", plain, payload)
	return f.atMost(maxLogShare)
}
