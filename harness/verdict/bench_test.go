package verdict

import (
	"testing"

	"powercut/guest/workload"
)

// The largest runs that a plan allows. The numbers are for people and benchstat:
// nothing here fails because a machine is slow.

// largest is a million ops in a file of a GiB, four rounds of it.
func largest() workload.Plan {
	return workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 1 << 30, Count: 1_000_000, Bytes: 4096, Stride: 4096, Call: workload.Fsync, Seed: 1}
}

func benchmarkJudge(b *testing.B, st *story, check func(c Counts) bool) {
	b.Helper()
	if err := st.history.Plan.Validate(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.survivors.Size)
	b.ReportAllocs()
	for b.Loop() {
		if r := Judge(st.history, st.survivors); !check(r.Counts) {
			b.Fatalf("counts %+v", r.Counts)
		}
	}
}

func BenchmarkJudgeAllKept(b *testing.B) {
	benchmarkJudge(b, tell(largest(), 1_000_000, 1_000_000), func(c Counts) bool { return c.Kept == 1_000_000 })
}

func BenchmarkJudgeAllLost(b *testing.B) {
	benchmarkJudge(b, tell(largest(), 1_000_000, 1_000_000).rewind(0, 0, 1<<30), func(c Counts) bool { return c.Lost == 1_000_000 })
}

func BenchmarkJudgeOneRoundBack(b *testing.B) {
	benchmarkJudge(b, tell(largest(), 1_000_000, 1_000_000).rewind(1_000_000-1<<18, 0, 1<<30), func(c Counts) bool { return c.Lost == 1<<18 })
}

func BenchmarkJudgeSingleBytes(b *testing.B) {
	p := largest()
	p.Bytes, p.Stride, p.Size = 1, 512, 1_000_000*512
	benchmarkJudge(b, tell(p, 1_000_000, 1_000_000).rewind(0, 0, 1<<28), func(c Counts) bool { return c.Lost == 1<<28/512 })
}

// BenchmarkJudgeOverlap has each op overlap with thousands of others.
func BenchmarkJudgeOverlap(b *testing.B) {
	p := largest()
	p.Bytes, p.Stride = 16<<20, 1000
	benchmarkJudge(b, tell(p, 1_000_000, 1_000_000).rewind(500_000, 512<<20, 1<<20), func(c Counts) bool { return c.Lost > 0 && c.Kept > 900_000 })
}

// BenchmarkJudgeOnePlace has a million ops write one byte, and none of it kept.
func BenchmarkJudgeOnePlace(b *testing.B) {
	p := workload.Plan{Kind: workload.Overwrite, Path: "f", Size: 1, Count: 1_000_000, Bytes: 1, Call: workload.Fsync}
	benchmarkJudge(b, tell(p, 1_000_000, 1_000_000).rewind(0, 0, 1), func(c Counts) bool { return c.Lost == 1_000_000 })
}
