package campaign

import (
	"powercut/harness/disk"
	"powercut/scenarios"
)

// Timing is what a scenario's timing is to a drive; nil where there is none.
func Timing(t scenarios.Timing) disk.Timing {
	switch t.Profile.Kind() {
	case scenarios.Rotating:
		return disk.Rotating{
			RPM: t.RPM, SectorsPerTrack: t.SectorsPerTrack, SeekMin: t.SeekMin, SeekMax: t.SeekMax,
			BusRate: int64(t.BusRate), Overhead: t.Overhead, Buffer: int64(t.Buffer),
		}
	case scenarios.SolidState:
		return disk.SolidState{
			BusRate: int64(t.BusRate), Overhead: t.Overhead, Buffer: int64(t.Buffer),
			Channels: t.Channels, Page: int64(t.Page), Read: t.Read, Program: t.Program,
			Flush: t.Flush, FlushPage: t.FlushPage, FUA: t.FUA,
		}
	}
	return nil
}
