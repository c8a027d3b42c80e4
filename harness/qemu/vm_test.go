package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A real kernel boots, answers, and what it stored last is there after SIGKILL.
func TestBootAndKill(t *testing.T) {
	before := openFiles(t)
	cfg := testConfig(t)
	vm := start(t, cfg)
	if err := awaitReady(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, vm, "echo hello"); got != "hello" {
		t.Errorf("guest answers %q", got)
	}
	if got := ask(t, vm, "poke last words"); got != "poked" {
		t.Fatalf("guest answers %q", got)
	}
	if err := vm.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := at(vm, 10); got != "last words" {
		t.Errorf("memory after the kill: %q", got)
	}
	if got := strings.Join(Tail(vm.ConsolePath(), 5), "\n"); !strings.Contains(got, "init: ready") {
		t.Errorf("console ends with %q", got)
	}
	for range 2 {
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files open before, %d after", before, after)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Forks of one template run side by side, each with a memory of its own.
func TestForks(t *testing.T) {
	cfg := testFork(t)
	var wg sync.WaitGroup
	vms := make([]*VM, 3)
	for i := range vms {
		cfg := cfg
		cfg.ConsolePath = fmt.Sprintf("console-%d", i)
		wg.Go(func() {
			vm, err := Start(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			vms[i] = vm
			t.Cleanup(func() { vm.Close() })
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, vm := range vms {
		if got := at(vm, 1); got != "\x00" {
			t.Errorf("fork %d starts with %q", i, got)
		}
		if got := ask(t, vm, fmt.Sprintf("poke %d", i)); got != "poked" {
			t.Errorf("fork %d answers %q", i, got)
		}
		if got := ask(t, vm, "print hello"); got != "printed" {
			t.Errorf("fork %d answers %q", i, got)
		}
	}
	for i, vm := range vms {
		if err := vm.Kill(); err != nil {
			t.Error(err)
		}
		if got := at(vm, 1); got != fmt.Sprint(i) {
			t.Errorf("fork %d stored %q", i, got)
		}
		if got := Tail(vm.ConsolePath(), 1); len(got) != 1 || got[0] != "hello" {
			t.Errorf("console of fork %d: %q", i, got)
		}
	}
}

// A fork can be saved again: a checker with a file system loaded, say.
func TestSaveFork(t *testing.T) {
	cfg := testFork(t)
	vm := start(t, cfg)
	ask(t, vm, "poke second generation")
	cfg.Template = t.TempDir()
	if err := Save(t.Context(), vm, cfg.Template); err != nil {
		t.Fatal(err)
	}
	if !vm.dead() {
		t.Error("qemu is still there after Save")
	}
	cfg.ConsolePath = "second"
	again := start(t, cfg)
	if got := ask(t, again, "echo me"); got != "me" {
		t.Errorf("guest answers %q", got)
	}
	if got := at(again, 17); got != "second generation" {
		t.Errorf("memory holds %q", got)
	}
}

func TestPauseResume(t *testing.T) {
	vm := start(t, testFork(t))
	if err := vm.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	var status struct{ Running bool }
	if err := vm.Monitor().Execute(t.Context(), "query-status", nil, &status); err != nil || status.Running {
		t.Errorf("running %v, %v", status.Running, err)
	}
	if err := vm.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, vm, "echo back"); got != "back" {
		t.Errorf("guest answers %q", got)
	}
}

// QEMU's own description of its protocol is larger than what usual line
// readers take.
func TestMonitorOfQEMU(t *testing.T) {
	vm := start(t, testFork(t))
	var schema []map[string]any
	if err := vm.Monitor().Execute(t.Context(), "query-qmp-schema", nil, &schema); err != nil || len(schema) < 100 {
		t.Errorf("schema with %d entries, %v", len(schema), err)
	}
	err := vm.Monitor().Execute(t.Context(), "no-such-command", nil, nil)
	var refusal *CommandError
	if !errors.As(err, &refusal) || refusal.Class != "CommandNotFound" {
		t.Errorf("got %v", err)
	}
	if v := vm.Monitor().Version(); v.QEMU.Major < minMajor {
		t.Errorf("version %v", v)
	}
}

// A panic ends QEMU, and the failure carries the kernel's last words.
func TestGuestPanics(t *testing.T) {
	vm := start(t, testFork(t))
	_ = vm.Control().SetDeadline(time.Now().Add(patience))
	fmt.Fprintln(vm.Control(), "crash")
	_, err := vm.Control().Read(make([]byte, 1))
	err = vm.Failure("await answer", err)
	if !errors.Is(err, ErrExited) || errors.Is(err, ErrDeadline) {
		t.Fatalf("got %v", err)
	}
	var failure *Error
	if !errors.As(err, &failure) || failure.ConsolePath != vm.ConsolePath() {
		t.Fatalf("got %#v", err)
	}
	if !strings.Contains(err.Error(), "panic, line ") || !strings.Contains(failure.Summary(), "await answer: qemu exited (") {
		t.Errorf("got %v", err)
	}
	var kinds []Kind
	for _, f := range failure.Findings {
		kinds = append(kinds, f.Kind)
	}
	if !slices.Contains(kinds, Panic) {
		t.Errorf("found only %v in %q", failure.Findings, failure.Console)
	}
	status, err := vm.Wait(t.Context())
	if err != nil || status != "exit status 0" {
		t.Errorf("ended with %q, %v", status, err)
	}
}

func TestGuestHangs(t *testing.T) {
	vm := start(t, testFork(t))
	fmt.Fprintln(vm.Control(), "hang")
	_ = vm.Control().SetDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := vm.Control().Read(make([]byte, 1))
	if err = vm.Failure("await answer", err); !errors.Is(err, ErrDeadline) || errors.Is(err, ErrExited) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := vm.Wait(ctx); !errors.Is(err, ErrDeadline) {
		t.Errorf("got %v", err)
	}
}

// A guest that floods its console does not fill the host's disk, and runs on.
func TestConsoleFlood(t *testing.T) {
	cfg := testFork(t)
	cfg.ConsoleLimit = 100_000
	vm := start(t, cfg)
	if got := ask(t, vm, "flood water"); got != "flooded" {
		t.Errorf("guest answers %q", got)
	}
	if info, err := os.Stat(vm.ConsolePath()); err != nil || info.Size() != cfg.ConsoleLimit {
		t.Errorf("console %v, %v", info, err)
	}
}

// QEMU dies with the thread that started it, so that must not be one of those
// that come and go.
func TestThreadsComeAndGo(t *testing.T) {
	cfg := testFork(t)
	started := make(chan *VM)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		vm, err := Start(context.Background(), cfg)
		if err != nil {
			t.Error(err)
		}
		started <- vm
	}()
	vm := <-started
	if vm == nil {
		return
	}
	defer vm.Close()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(runtime.LockOSThread)
	}
	wg.Wait()
	if got := ask(t, vm, "echo alive"); got != "alive" {
		t.Errorf("guest answers %q", got)
	}
}

func TestStartFailures(t *testing.T) {
	good := testConfig(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no kernel"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change func(*Config)
		is     error
		want   string // in the message
	}{
		"not a kernel":       {func(c *Config) { c.Kernel = text }, ErrExited, "qemu said"},
		"no drive":           {func(c *Config) { c.Disk = &Disk{Socket: "nobody"} }, ErrExited, "nobody"},
		"unknown cpu":        {func(c *Config) { c.CPUModel = "z80" }, ErrExited, "z80"},
		"unknown device":     {func(c *Config) { c.Devices = []Device{Raw{Arguments: []string{"-device", "toaster"}}} }, ErrExited, "toaster"},
		"no place to write":  {func(c *Config) { c.ConsolePath = "no/such/folder" }, ErrExited, "no/such/folder"},
		"qemu missing":       {func(c *Config) { c.Binary = "qemu-system-nothing" }, ErrUnusable, "apt-get install qemu-system-x86"},
		"qemu path missing":  {func(c *Config) { c.Binary = "/no/qemu" }, ErrUnusable, "apt-get install qemu-system-x86"},
		"no folder":          {func(c *Config) { c.Dir = "" }, nil, "no working folder"},
		"folder missing":     {func(c *Config) { c.Dir = "/no/folder" }, os.ErrNotExist, "working folder /no/folder"},
		"no kernel":          {func(c *Config) { c.Kernel = "missing" }, os.ErrNotExist, "kernel"},
		"no initramfs":       {func(c *Config) { c.Initramfs = "" }, nil, "no initramfs"},
		"accelerator":        {func(c *Config) { c.Accel = "gas pedal" }, nil, "gas pedal"},
		"little memory":      {func(c *Config) { c.Memory = 4096 }, nil, "between 67108864 and 3221225472"},
		"reserved too far":   {func(c *Config) { c.Reserve.Base = c.Memory + DefaultMemory }, nil, "reserved range"},
		"reserved uneven":    {func(c *Config) { c.Reserve.Size = 5 }, nil, "reserved range"},
		"reserved too large": {func(c *Config) { c.Reserve.Size = 1<<62 + 1<<61 }, nil, "reserved range"},
		"template missing":   {func(c *Config) { c.Template = "nowhere" }, ErrTemplateDamaged, "manifest"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := good
			cfg.Dir = t.TempDir()
			tt.change(&cfg)
			vm, err := Start(t.Context(), cfg)
			if err == nil {
				vm.Close()
				t.Fatal("started")
			}
			if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestStartCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, cfg := range []Config{testConfig(t), testFork(t)} {
		if vm, err := Start(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", vm, err)
		}
	}
}

// A QEMU that never greets is given up after the timeout, and killed.
func TestStartSilentQEMU(t *testing.T) {
	cfg := testConfig(t)
	cfg.Binary = script(t, "exec sleep 1000")
	cfg.Timeout = 100 * time.Millisecond
	if vm, err := Start(t.Context(), cfg); !errors.Is(err, ErrDeadline) {
		t.Errorf("got %v, %v", vm, err)
	}
}

// script makes an executable shell script, to stand in for a QEMU that the
// machine does not have.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qemu")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
