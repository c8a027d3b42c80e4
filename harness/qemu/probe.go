package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Choice is an accelerator and why it was chosen.
type Choice struct {
	Accel    Accel  `json:"accel"`
	CPUModel string `json:"cpu_model"`
	Reason   string `json:"reason"` // a sentence for the report
}

// Apply puts the choice into a Config.
func (c Choice) Apply(cfg Config) Config {
	cfg.Accel, cfg.CPUModel = c.Accel, c.CPUModel
	return cfg
}

// Probing says how to probe for KVM.
type Probing struct {
	// Config is the machine to boot; its Accel, CPUModel, Disk and Template
	// are not used.
	Config Config
	// Ready returns nil once the guest has come up as it should. It ought to
	// end with its context; the machine is killed if it does not.
	Ready func(context.Context, *VM) error
	// Limit is how long all attempts together may take. Default DefaultProbeLimit.
	Limit time.Duration
	// Memo is a file that keeps the answers, by host, QEMU and kernel. Remove
	// it to probe anew. Empty: nothing is kept.
	Memo string
	// KernelID tells one kernel and initramfs from another in the memo.
	KernelID string
}

// DefaultProbeLimit is enough for a boot under a KVM that is worth using, and
// little to lose where there is none.
const DefaultProbeLimit = 6 * time.Second

// kvmDevice is how KVM is reached.
const kvmDevice = "/dev/kvm"

// kvmModels are tried in order under KVM. A hypervisor below may not let all
// features of its processor through: QEMU aborts then, quickly.
func kvmModels() []string { return []string{"host", "max", "qemu64"} }

// Probe chooses the accelerator: KVM if a guest really comes up under it in
// time, TCG otherwise. That /dev/kvm is there proves nothing; it may abort at
// the first MSR or interpret the guest at a crawl. An error means that nothing
// could be found out: QEMU is unusable, the Config is wrong, or ctx ended.
func Probe(ctx context.Context, p Probing) (Choice, error) {
	cfg := p.Config
	cfg.Disk, cfg.Template = nil, ""
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Choice{}, err
	}
	version, err := Version(ctx, cfg.Binary)
	if err != nil {
		return Choice{}, err
	}
	if err := openKVM(); err != nil {
		return fallback(err.Error()), nil
	}
	memo := memo{path: p.Memo, key: memoKey(version, p.KernelID)}
	if known, ok := memo.read(); ok {
		return known, nil
	}
	choice := attempt(ctx, cfg, p.Ready, or(p.Limit, DefaultProbeLimit))
	if err := ctx.Err(); err != nil {
		return Choice{}, fmt.Errorf("probe accelerator: %w", err)
	}
	memo.write(choice)
	return choice, nil
}

// fallback is TCG, with the reason.
func fallback(reason string) Choice {
	return Choice{Accel: TCG, CPUModel: "qemu64", Reason: "TCG, because " + reason}
}

// openKVM says why KVM cannot be used at all, in words.
func openKVM() error {
	f, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no %s", kvmDevice)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s may not be opened (join the group kvm)", kvmDevice)
	case err != nil:
		return fmt.Errorf("%s cannot be opened: %w", kvmDevice, err)
	}
	defer f.Close()
	const getAPIVersion, stable = 0xAE00, 12 // KVM_GET_API_VERSION in linux/kvm.h
	v, err := unix.IoctlRetInt(int(f.Fd()), getAPIVersion)
	if err != nil || v != stable {
		return fmt.Errorf("%s does not answer as KVM does", kvmDevice)
	}
	return nil
}

// attempt boots under KVM with one model after the other, until one comes up or
// time is over.
func attempt(ctx context.Context, cfg Config, ready func(context.Context, *VM) error, limit time.Duration) Choice {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var tried []string
	for _, model := range kvmModels() {
		begin := time.Now()
		err := boot(ctx, Choice{Accel: KVM, CPUModel: model}.Apply(cfg), ready)
		if err == nil {
			reason := fmt.Sprintf("KVM, a guest with CPU model %s came up in %.1f s", model, time.Since(begin).Seconds())
			return Choice{Accel: KVM, CPUModel: model, Reason: reason}
		}
		if ctx.Err() != nil {
			tried = append(tried, fmt.Sprintf("%s was not up when the limit of %v was over", model, limit))
			break
		}
		tried = append(tried, fmt.Sprintf("%s failed (%s)", model, firstLine(err)))
	}
	return fallback("a guest did not come up under KVM: CPU model " + strings.Join(tried, ", "))
}

// boot starts a machine and waits for ready, both no longer than ctx.
func boot(ctx context.Context, cfg Config, ready func(context.Context, *VM) error) error {
	vm, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	returned := make(chan struct{})
	var outcome error // of ready; read after returned
	go func() {
		defer close(returned)
		outcome = ready(ctx, vm)
	}()
	select {
	case <-returned:
		err = vm.Failure("await guest", outcome)
	case <-vm.Done():
		err = vm.Failure("await guest", ErrExited)
	case <-ctx.Done():
		err = vm.Failure("await guest", ctx.Err())
	}
	cancel()
	_ = vm.Kill()
	_ = vm.control.Close()
	if waitFor(returned, readyGrace) {
		_ = vm.Close()
	} // else ready is stuck: the memory it may be looking at has to stay
	return err
}

// readyGrace is how long a Ready may take to notice that its machine is dead.
const readyGrace = 5 * time.Second

// firstLine is the reason of a failure on one line, with the first thing QEMU
// said if it said something.
func firstLine(err error) string {
	var failure *Error
	if !errors.As(err, &failure) {
		return err.Error()
	}
	said, _, _ := strings.Cut(strings.TrimSpace(failure.Stderr), "\n")
	if said == "" {
		return failure.Err.Error()
	}
	return fmt.Sprintf("%v; %s", failure.Err, said)
}

// memo is the file in which answers are remembered.
type memo struct{ path, key string }

// maxMemo is how many answers are kept; a full memo starts anew.
const maxMemo = 64

// read finds the answer of an earlier probe. A memo that cannot be read holds
// none.
func (m memo) read() (Choice, bool) {
	c, ok := m.all()[m.key]
	return c, ok && (c.Accel == TCG || c.Accel == KVM)
}

func (m memo) all() map[string]Choice {
	answers := map[string]Choice{}
	if m.path == "" {
		return answers
	}
	data, err := readLimited(m.path, 1<<20)
	if err != nil || json.Unmarshal(data, &answers) != nil || answers == nil || len(answers) >= maxMemo {
		return map[string]Choice{}
	}
	return answers
}

// write remembers an answer. If that fails the next run just probes again.
func (m memo) write(c Choice) {
	if m.path == "" {
		return
	}
	answers := m.all()
	answers[m.key] = c
	data, err := json.MarshalIndent(answers, "", "  ")
	if err != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(m.path), filepath.Base(m.path)+".*")
	if err != nil {
		return
	}
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), m.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

// memoKey names host, QEMU and kernel. A reboot may change what the host lets
// us do, so the boot is part of it.
func memoKey(version, kernel string) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.Join([]string{strings.TrimSpace(string(boot)), cpuModel(), "qemu " + version, kernel}, "|")
}

// cpuModel is the processor's name; empty where the kernel does not give it.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
