package qemu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Whatever this host has, the probe comes back with a reason, remembers it, and
// says KVM only of a host on which a guest did come up.
func TestProbe(t *testing.T) {
	p := Probing{
		Config:   testConfig(t),
		Memo:     filepath.Join(t.TempDir(), "accelerator.json"),
		KernelID: "test",
	}
	boots := 0
	p.Ready = func(ctx context.Context, vm *VM) error {
		boots++
		return awaitReady(ctx, vm)
	}
	first, err := Probe(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(first.Reason)
	if first.Accel == KVM && boots == 0 || first.Accel != KVM && first.Accel != TCG || first.CPUModel == "" {
		t.Errorf("got %+v after %d boots", first, boots)
	}
	if !strings.HasPrefix(first.Reason, strings.ToUpper(string(first.Accel))+", ") {
		t.Errorf("%s is said to be chosen because %q", first.Accel, first.Reason)
	}
	before := boots
	second, err := Probe(t.Context(), p)
	if err != nil || second != first || boots != before {
		t.Errorf("second time: %+v, %v, %d boots", second, err, boots-before)
	}
}

// needKVM skips where a probe ends before it starts a guest.
func needKVM(t *testing.T) {
	t.Helper()
	if err := openKVM(); err != nil {
		t.Skip("a probe does not come so far here: ", err)
	}
}

// fakeQEMU answers --version, and is otherwise body.
func fakeQEMU(t *testing.T, body string) string {
	return script(t, `if [ "$1" = --version ]; then echo QEMU emulator version 7.2.0; exit; fi
`+body)
}

// A QEMU that aborts is found out at once, model by model, and remembered.
func TestProbeAborts(t *testing.T) {
	needKVM(t)
	p := Probing{Config: testConfig(t), Memo: filepath.Join(t.TempDir(), "memo")}
	p.Config.Binary = fakeQEMU(t, `echo "error: failed to set MSR" >&2; kill -ABRT $$`)
	p.Limit = patience
	got, err := Probe(t.Context(), p)
	if err != nil || got.Accel != TCG {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, want := range append(kvmModels(), "failed to set MSR", "aborted") {
		if !strings.Contains(got.Reason, want) {
			t.Errorf("%q is not in %q", want, got.Reason)
		}
	}
	p.Config.Binary = fakeQEMU(t, "exec sleep 1000")
	again, err := Probe(t.Context(), p)
	if err != nil || again != got {
		t.Errorf("got %+v, %v", again, err)
	}
	p.KernelID = "another"
	p.Limit = time.Millisecond
	other, err := Probe(t.Context(), p)
	if err != nil || other == got || !strings.Contains(other.Reason, "limit of 1ms") {
		t.Errorf("got %+v, %v", other, err)
	}
}

// A guest that does not come up, and a Ready that does not care, hold a probe
// no longer than its limit.
func TestProbeHangs(t *testing.T) {
	needKVM(t)
	p := Probing{Config: testConfig(t), Limit: 300 * time.Millisecond}
	p.Ready = func(_ context.Context, vm *VM) error {
		_, err := vm.Control().Read(make([]byte, 1<<20)) // until the machine is killed
		return errors.Join(err, errors.New("never ready"))
	}
	got, err := Probe(t.Context(), p)
	if err != nil || got.Accel != TCG {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestProbeErrors(t *testing.T) {
	good := testConfig(t)
	bad := good
	bad.Kernel = "missing"
	if _, err := Probe(t.Context(), Probing{Config: bad}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	bad = good
	bad.Binary = "no-such-qemu"
	if _, err := Probe(t.Context(), Probing{Config: bad}); !errors.Is(err, ErrUnusable) {
		t.Errorf("got %v", err)
	}
	needKVM(t)
	memo := filepath.Join(t.TempDir(), "memo")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Probe(ctx, Probing{Config: good, Memo: memo, Ready: func(context.Context, *VM) error {
		cancel()
		return errors.New("interrupted")
	}})
	if ctx.Err() != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(memo); ctx.Err() != nil && err == nil {
		t.Error("an interrupted probe is remembered")
	}
}

// A memo that cannot be read or written costs a probe, nothing more.
func TestMemo(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "memo")
	m := memo{path: path, key: "here"}
	want := Choice{Accel: KVM, CPUModel: "host", Reason: "KVM, because"}
	for _, content := range []string{"", "null", "[]", "{", `{"here": {"accel": "steam"}}`, `{"elsewhere": {"accel": "kvm"}}`} {
		must(t, os.WriteFile(path, []byte(content), 0o600))
		if c, ok := m.read(); ok {
			t.Errorf("%q holds %+v", content, c)
		}
		m.write(want)
		if c, ok := m.read(); !ok || c != want {
			t.Errorf("over %q: %+v, %v", content, c, ok)
		}
	}
	if _, ok := (memo{path: path, key: "elsewhere"}).read(); !ok {
		t.Error("another host's answer was dropped")
	}
	nowhere := memo{path: filepath.Join(dir, "no", "folder"), key: "here"}
	nowhere.write(want)
	if _, ok := nowhere.read(); ok {
		t.Error("read from nowhere")
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("files left: %v", entries)
	}
}
