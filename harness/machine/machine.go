// Package machine joins what a guest needs (kernel, initramfs, accelerator,
// template, drive, control channel) into guests that are ready for work.
//
// Prepare does all that is costly, once, and keeps it in the user's cache. Fork
// then gives a booted guest with a drive of its own in a fraction of a second.
package machine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"powercut/guest/ledger"
	"powercut/guest/wire"
	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/qemu"
	"powercut/images"
	"powercut/images/cache"
)

// BootDeadline bounds a cold boot, from the start of QEMU to the agent's greeting.
const BootDeadline = 2 * time.Minute

// The cache's kinds for what is made here. An entry of initramfsKind holds one
// file of that name, one of templateKind savedFolder and bootedFile.
const (
	initramfsKind = "initramfs"
	templateKind  = "template"
	savedFolder   = "saved"
	bootedFile    = "booted.json"
)

// keep is the number of entries of each kind that stay in the cache: every build
// of this program makes new ones.
const keep = 12

// Spec says which machine is wanted. Two specs that differ in Direct and
// NoFlush alone share a template.
type Spec struct {
	Kernel     images.Kernel
	Binary     string // this program, to be the guest's PID 1
	QEMU       string // empty: qemu.DefaultBinary
	Memory     int64  // bytes
	DriveSize  int64  // bytes; of two disks that of the first
	Second     int64  // size of a second disk, bytes; 0: there is none. The drive has it behind the first
	Bus        qemu.Bus
	WriteCache bool     // whether the drive tells the guest of a write cache
	Direct     bool     // QEMU bypasses the host's page cache (cache.direct)
	NoFlush    bool     // QEMU drops the guest's flushes (cache.no-flush)
	Modules    []string // beyond those that every guest needs, such as ext4
	Fsck       string   // the type of file system whose checker the guest needs; empty: none
	Shell      bool     // the guest has a shell: see Guest.Shell
	Params     []string // for the guest kernel's command line
}

// Machine is a spec with all that is needed to start guests of it.
type Machine struct {
	Spec     Spec
	Choice   qemu.Choice // accelerator
	Version  string      // of QEMU
	Greeting wire.Greeting
	Drive    wire.FoundDrive // as it was told of at boot; zero with NVMe

	// Loads are the modules that the guest loads, in that order, each with the hash of
	// its file: ext4=0123456789abcdef.
	Loads []string

	cache        *cache.Cache
	modules      []string // files, in the order in which the guest loads them
	initramfs    string   // path
	initramfsKey string
	key          string // of the template
}

// Agent names what runs in the guests: this program, and the modules.
func (m *Machine) Agent() string { return m.initramfsKey }

// Stages is told what is being prepared, in a few words, as it begins.
type Stages func(text string)

// Prepare makes what the spec's guests need: an initramfs, an accelerator that
// was seen to work, and a template of a booted guest.
func Prepare(ctx context.Context, s Spec, stages Stages) (*Machine, error) {
	c, err := cache.Default()
	if err != nil {
		return nil, err
	}
	m := &Machine{Spec: s, cache: c}
	if m.Version, err = qemu.Version(ctx, s.QEMU); err != nil {
		return nil, err
	}
	if err = m.makeInitramfs(ctx); err != nil {
		return nil, err
	}
	if m.Choice, err = m.probe(ctx, stages); err != nil {
		return nil, err
	}
	m.key = m.templateKey()
	if _, ok := c.Lookup(templateKind, m.key); !ok {
		stages("booting a guest, once")
	}
	return m, m.openTemplate(ctx)
}

// needed are the modules that a guest needs: for the control channel, the drive, and what
// the spec names.
func (s Spec) needed() []string {
	bus := map[qemu.Bus][]string{
		qemu.IDE: {"ata_piix", "sd_mod"}, qemu.AHCI: {"ahci", "sd_mod"}, qemu.SCSI: {"virtio_scsi", "sd_mod"},
		qemu.VirtioBlk: {"virtio_blk"}, qemu.NVMe: {"nvme"},
	}[s.Bus]
	return slices.Concat([]string{"virtio_pci", "virtio_console"}, bus, s.Modules)
}

// modules are those that a guest loads.
func (s Spec) modules() []string {
	all := s.needed()
	for _, r := range s.Kernel.Replaced {
		all = append(all, r.Module)
	}
	return all
}

// baseOptions are what every guest needs beside its modules: a boot from an initramfs,
// a console, the agent's runtime, and the file systems and devices that it looks into.
var baseOptions = []string{
	"CONFIG_BLK_DEV_INITRD", "CONFIG_BINFMT_ELF", "CONFIG_SERIAL_8250_CONSOLE", "CONFIG_PCI", "CONFIG_ACPI",
	"CONFIG_FUTEX", "CONFIG_EPOLL", "CONFIG_PROC_FS", "CONFIG_SYSFS", "CONFIG_DEVTMPFS",
}

// features are what the kernel must have, by the names of its options.
func (s Spec) features() []images.Feature {
	var out []images.Feature
	for _, option := range baseOptions {
		out = append(out, images.Feature{Config: option})
	}
	for _, m := range s.modules() {
		out = append(out, images.FeatureOf(m))
	}
	if s.Bus == qemu.NVMe {
		out = append(out, images.Feature{Name: "PCI hotplug", Config: "CONFIG_HOTPLUG_PCI_ACPI"})
	}
	return out
}

// makeInitramfs finds out what the spec's initramfs holds, and makes it.
func (m *Machine) makeInitramfs(ctx context.Context) error {
	if gap := m.Spec.Kernel.Missing(m.Spec.features()...); len(gap) > 0 {
		return fmt.Errorf("prepare guest: kernel %s has no %s, neither built in nor as a module", m.Spec.Kernel.Release, strings.Join(gap, ", "))
	}
	err := m.Spec.Kernel.CheckUsed(m.Spec.needed())
	if err != nil {
		return fmt.Errorf("prepare guest: %w", err)
	}
	if m.modules, err = m.Spec.Kernel.Closure(m.Spec.modules()...); err != nil {
		return fmt.Errorf("prepare guest: %w", err)
	}
	if m.initramfsKey, err = contentKey(m.Spec, m.modules); err != nil {
		return err
	}
	if m.Loads, err = images.Hashes(m.modules); err != nil {
		return err
	}
	if m.initramfs, err = m.openInitramfs(ctx); err != nil {
		return err
	}
	return m.cache.Prune(ctx, initramfsKind, keep, m.initramfsKey)
}

// openInitramfs makes the initramfs where there is none, and returns its path, which is
// always the same.
func (m *Machine) openInitramfs(ctx context.Context) (string, error) {
	dir, err := m.cache.Entry(ctx, initramfsKind, m.initramfsKey, m.buildInitramfs)
	if err != nil {
		return "", fmt.Errorf("prepare guest: %w", err)
	}
	return filepath.Join(dir, initramfsKind), nil
}

// errRebuilt ends a run whose program is not the one that it began with.
var errRebuilt = errors.New("powercut itself or a module has changed since this run began: run it again")

// buildInitramfs makes the initramfs in dir. It may be made long after the run
// began, if another process has pruned the cache, and must be the same then.
func (m *Machine) buildInitramfs(ctx context.Context, dir string) error {
	var extra []images.File
	if m.Spec.Fsck != "" {
		checker, err := images.Checker(ctx, m.Spec.Fsck)
		if err != nil {
			return err
		}
		extra = append(extra, checker...)
	}
	if m.Spec.Shell {
		busybox, err := images.Busybox(ctx)
		if err != nil {
			return err
		}
		extra = append(extra, busybox...)
	}
	f, err := os.Create(filepath.Join(dir, initramfsKind))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := images.WriteInitramfs(f, m.Spec.Kernel, m.modules, m.Spec.Binary, extra...); err != nil {
		return err
	}
	if key, err := contentKey(m.Spec, m.modules); err != nil || key != m.initramfsKey {
		return errors.Join(errRebuilt, err)
	}
	return f.Close()
}

// contentKey names the content of an initramfs.
func contentKey(s Spec, modules []string) (string, error) {
	h := xxhash.New()
	for _, path := range append([]string{s.Binary}, modules...) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("prepare guest: %w", err)
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(path), len(b))
		h.Write(b)
	}
	return fmt.Sprintf("%s fsck=%s shell=%v %s", s.Kernel.ID, s.Fsck, s.Shell, hex.EncodeToString(h.Sum(nil))), nil
}

// config is the part of a virtual machine's configuration that boots, forks and
// probes have in common.
func (m *Machine) config(dir string) qemu.Config {
	return m.Choice.Apply(qemu.Config{
		Binary: m.Spec.QEMU, Memory: m.Spec.Memory, Dir: dir,
		Kernel: m.Spec.Kernel.Vmlinux, Initramfs: m.initramfs,
		Reserve: qemu.Reserve{Base: ledger.Base, Size: ledger.Size}, Cmdline: m.Spec.Params,
	})
}

// AcceleratorFile is the file in the cache folder that keeps which accelerator
// works; see qemu.Probing.
const AcceleratorFile = "accelerator.json"

// probe chooses the accelerator by booting this very guest.
func (m *Machine) probe(ctx context.Context, stages Stages) (_ qemu.Choice, err error) {
	memo := filepath.Join(m.cache.Root, AcceleratorFile)
	if _, err := os.Stat(memo); err != nil {
		stages("trying KVM, once")
	}
	dir, release, err := m.cache.Scratch(ctx)
	if err != nil {
		return qemu.Choice{}, fmt.Errorf("probe accelerator: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	return qemu.Probe(ctx, qemu.Probing{
		Config: m.config(dir), Memo: memo, KernelID: m.Spec.Kernel.ID,
		Ready: func(ctx context.Context, vm *qemu.VM) error {
			_, err := awaitGreeting(ctx, vm)
			return err
		},
	})
}

// templateKey names everything that a template depends on.
func (m *Machine) templateKey() string {
	s := m.Spec
	key := fmt.Sprintf("1 %s qemu=%s %s cpu=%s memory=%d drive=%d bus=%s write-cache=%v params=%q",
		filepath.Base(filepath.Dir(m.initramfs)), m.Version, m.Choice.Accel, m.Choice.CPUModel,
		s.Memory, s.DriveSize, s.Bus, s.WriteCache, s.Params)
	if s.Second > 0 {
		key += fmt.Sprintf(" second=%d", s.Second)
	}
	return key
}

// booted is what a template's guest told of itself.
type booted struct {
	Greeting wire.Greeting
	Drive    wire.FoundDrive
}

// openTemplate makes the template where there is none, and reads what its guest
// said of itself.
func (m *Machine) openTemplate(ctx context.Context) error {
	b, err := m.readTemplate(ctx)
	for try := 1; try < forkTries && errors.Is(err, os.ErrNotExist); try++ {
		b, err = m.readTemplate(ctx) // another process has pruned it meanwhile
	}
	if err != nil {
		return err
	}
	var told booted
	if err := json.Unmarshal(b, &told); err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	m.Greeting, m.Drive = told.Greeting, told.Drive
	if err := m.checkReplaced(); err != nil {
		return err
	}
	return m.cache.Prune(ctx, templateKind, keep, m.key)
}

// checkReplaced demands that the guest has loaded the very modules that it was to
// load in place of the kernel's own.
func (m *Machine) checkReplaced() error {
	for _, r := range m.Spec.Kernel.Replaced {
		if got := m.Greeting.Modules[r.Module]; got != r.BuildID {
			return fmt.Errorf("prepare guest: it was to load %s from %s (build ID %s), and its kernel says that it has one of build ID %q", r.Module, r.Path, r.BuildID, got)
		}
	}
	return nil
}

func (m *Machine) readTemplate(ctx context.Context) ([]byte, error) {
	dir, err := m.cache.Entry(ctx, templateKind, m.key, m.bootTemplate)
	if err != nil {
		return nil, fmt.Errorf("make template: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, bootedFile))
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	return b, nil
}

// bootTemplate boots a guest and saves it in dir.
func (m *Machine) bootTemplate(ctx context.Context, dir string) (err error) {
	work, release, err := m.cache.Scratch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	size := m.Spec.DriveSize + m.Spec.Second
	log, err := blocklog.Create(filepath.Join(work, "block.log"), size)
	if err != nil {
		return err
	}
	defer log.Close()
	g, told, err := m.Boot(ctx, work, disk.New(disk.Config{Base: Zeros{}, Size: size, Log: log}))
	if err != nil {
		return m.keepConsole(err)
	}
	defer g.Close()
	b, err := json.Marshal(told)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, bootedFile), b, 0o644); err != nil {
		return err
	}
	saved := filepath.Join(dir, savedFolder)
	if err := os.Mkdir(saved, 0o755); err != nil {
		return err
	}
	return qemu.Save(ctx, g.vm, saved)
}

// failedBootFile is the console, in the cache folder, of the last guest that did
// not boot.
const failedBootFile = "failed-boot.txt"

// keepConsole saves the console of a guest that did not boot from being removed
// with its folder.
func (m *Machine) keepConsole(err error) error {
	var e *qemu.Error
	if errors.As(err, &e) && e.ConsolePath != "" {
		kept := filepath.Join(m.cache.Root, failedBootFile)
		if os.Rename(e.ConsolePath, kept) == nil {
			e.ConsolePath = kept
		}
	}
	return err
}

// Boot starts a guest from cold, with that drive, in the folder dir, and waits
// until its agent has found the drive; with NVMe a guest has none until it is
// forked. If it fails it closes the drive.
func (m *Machine) Boot(ctx context.Context, dir string, d *disk.Drive) (*Guest, booted, error) {
	ctx, cancel := context.WithTimeout(ctx, BootDeadline)
	defer cancel()
	var told booted
	g, err := m.start(ctx, m.config(dir), d, "")
	if err != nil {
		d.Close()
		return nil, told, err
	}
	// An NVMe drive is plugged into forks alone: see package qemu.
	if told.Greeting, err = awaitGreeting(ctx, g.vm); err == nil && m.Spec.Bus != qemu.NVMe {
		err = g.ask(ctx, wire.AwaitDrive, wire.Awaited{Disks: len(m.Spec.units())}, &told.Drive)
	}
	if err != nil {
		err = g.vm.Failure("boot guest", err)
		g.Close()
		return nil, told, err
	}
	return g, told, nil
}

// Zeros is a drive that was never written.
type Zeros struct{}

// ReadAt implements io.ReaderAt.
func (Zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
