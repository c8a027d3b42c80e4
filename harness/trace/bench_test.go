package trace

import (
	"strings"
	"testing"

	"powercut/guest/workload"
)

// longRun is a log of 20,000 ops: each writes its block, a transaction of two
// requests, and flushes.
func longRun(b *testing.B, p workload.Plan) Input {
	s := newStory(b, p)
	s.tell("data /1 flush /2 ack")
	n := len(s.arrived)
	for range p.Count {
		s.tell("begin block journal")
		s.reply(uint64(n+1), 0)
		s.reply(uint64(n+2), 0)
		s.tell("flush")
		s.reply(uint64(n+3), 0)
		s.tell("commit:fua")
		s.reply(uint64(n+4), 0)
		s.tell("ack")
		n += 4
	}
	return s.input()
}

func benchmarkRead(b *testing.B, p workload.Plan) {
	if err := p.Validate(); err != nil {
		b.Fatal(err)
	}
	in := longRun(b, p)
	b.ReportAllocs()
	b.ReportMetric(float64(p.Count), "ops/run")
	for b.Loop() {
		tr, err := Read(in)
		if err != nil || len(tr.Unsafe()) > 0 || tr.Bill.Ops != p.Count {
			b.Fatalf("%v, %v, %v", err, tr.Bill, tr.Unsafe())
		}
	}
}

// BenchmarkReadOverwrite is the workload of the thread of March 2004, 20 rounds of it.
func BenchmarkReadOverwrite(b *testing.B) {
	p := overwrites()
	p.Size, p.Count, p.Bytes = 512_000, 20_000, 1
	benchmarkRead(b, p)
}

func BenchmarkReadAppendBytes(b *testing.B) { benchmarkRead(b, appends(1, 20_000, 5)) }

func BenchmarkReadAppendBlocks(b *testing.B) { benchmarkRead(b, appends(4096, 20_000, 5)) }

// BenchmarkReadOneSector has every op in the same sector.
func BenchmarkReadOneSector(b *testing.B) {
	p := overwrites()
	p.Size, p.Count = sector, 20_000
	benchmarkRead(b, p)
}

// BenchmarkReadGigabyte knows the first content of the largest file, and finds it
// in one block.
func BenchmarkReadGigabyte(b *testing.B) {
	p := overwrites()
	p.Size, p.Count = workload.MaxSize, 1
	block := make([]byte, 4096)
	p.Content(0, 1<<29, block)
	s := &story{t: b, plan: p}
	s.write(home, block, false, false)
	in := s.input()
	b.ReportAllocs()
	for b.Loop() {
		if tr := readInput(b, in); !strings.HasSuffix(tr.Requests[0].Detail, "op 0") {
			b.Fatal(lines(tr))
		}
	}
}
