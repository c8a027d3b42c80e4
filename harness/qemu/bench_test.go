package qemu

import (
	"context"
	"os"
	"testing"
	"time"
)

// BenchmarkBoot is a cold boot up to the guest's first word.
func BenchmarkBoot(b *testing.B) {
	cfg := testConfig(b)
	for b.Loop() {
		vm, err := Start(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		if err := awaitReady(b.Context(), vm); err != nil {
			b.Fatal(err)
		}
		vm.Close()
	}
}

// BenchmarkFork is a fork up to the guest's first answer and its end, and how
// much of that each stage takes: copying the memory by itself (it goes along
// with QEMU's start in a real fork), until Start returns, until the answer, and
// the kill.
func BenchmarkFork(b *testing.B) {
	cfg := testFork(b)
	var copying, starting, answering, killing time.Duration
	for b.Loop() {
		copying += timeCopy(b, cfg)
		begin := time.Now()
		vm, err := Start(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		started := time.Now()
		ask(b, vm, "echo x")
		answered := time.Now()
		if err := vm.Close(); err != nil {
			b.Fatal(err)
		}
		starting += started.Sub(begin)
		answering += answered.Sub(started)
		killing += time.Since(answered)
	}
	for name, d := range map[string]time.Duration{
		"copy-ms": copying, "start-ms": starting, "answer-ms": answering, "kill-ms": killing,
	} {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name)
	}
}

// timeCopy copies a template's memory without a machine around it.
func timeCopy(b *testing.B, cfg Config) time.Duration {
	b.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	m, err := readManifest(cfg)
	if err != nil {
		b.Fatal(err)
	}
	mem, err := newRAM(cfg.Memory)
	if err != nil {
		b.Fatal(err)
	}
	defer mem.close()
	begin := time.Now()
	if err := loadRAM(b.Context(), cfg.templateFile(ramName), m.Extents, mem); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// BenchmarkSave is saving a fork again.
func BenchmarkSave(b *testing.B) {
	cfg := testFork(b)
	dir, err := os.MkdirTemp(cfg.Dir, "template")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		vm, err := Start(context.Background(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := Save(context.Background(), vm, dir); err != nil {
			b.Fatal(err)
		}
		vm.Close()
	}
}
