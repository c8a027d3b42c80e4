package machine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/internal/program"
	"powercut/harness/qemu"
	"powercut/images"
	"powercut/images/cache"
)

// binary is a static powercut, built once for all tests of the package.
var binary string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &binary)) }

// newSpec is a small machine's, after which the cache is the test's own; only the
// kernel is the user's.
func newSpec(t *testing.T) Spec {
	t.Helper()
	if _, err := qemu.Version(t.Context(), ""); err != nil {
		t.Skipf("no virtual machine can be run here: %v", err)
	}
	kernel, err := images.Fetch(t.Context(), images.DefaultKernel)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cache.Variable, t.TempDir())
	return Spec{Kernel: kernel, Binary: binary, Memory: qemu.DefaultMemory, DriveSize: 64 << 20, Bus: qemu.IDE, WriteCache: true}
}

// checkFork wants a fork that answers, and whose drive is served.
func checkFork(t *testing.T, m *Machine) {
	t.Helper()
	dir := t.TempDir()
	log, err := blocklog.Create(filepath.Join(dir, "block.log"), m.Spec.DriveSize)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	g, err := m.Fork(t.Context(), dir, disk.New(disk.Config{Base: Zeros{}, Size: m.Spec.DriveSize, Log: log, WriteCache: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Echo(t.Context()); err != nil {
		t.Error(err)
	}
	if reason, _, err := g.Drive().Cut(); reason != "" || err != nil {
		t.Errorf("the drive of the fork is stopped: %q, %v", reason, err)
	}
}

// What another process has pruned, or a bad disk has damaged, is made anew by the
// fork that misses it.
func TestForkMakesAnewWhatIsGone(t *testing.T) {
	m, err := Prepare(t.Context(), newSpec(t), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		damage func() error
	}{
		{"nothing", func() error { return nil }},
		{"initramfs", func() error { return m.cache.Remove(t.Context(), initramfsKind, m.initramfsKey) }},
		{"whole cache", func() error { return os.RemoveAll(m.cache.Root) }},
		{"damaged template", func() error { return m.damageTemplate() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.damage(); err != nil {
				t.Fatal(err)
			}
			checkFork(t, m)
		})
	}
	if left, err := filepath.Glob(filepath.Join(m.cache.Root, "*", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// damageTemplate changes bytes of the saved memory, which only a fork looks at.
func (m *Machine) damageTemplate() error {
	dir, ok := m.cache.Lookup(templateKind, m.key)
	if !ok {
		return os.ErrNotExist
	}
	path := filepath.Join(dir, savedFolder, "ram")
	ram, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for at := 0; at < len(ram); at += 4096 {
		if ram[at] != 0 {
			ram[at] ^= 0xff
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	return os.WriteFile(path, ram, 0o644)
}

// A run whose own program was replaced must not put the new one into its guests.
func TestInitramfsOfAnotherProgramIsRefused(t *testing.T) {
	c := &cache.Cache{Root: t.TempDir()}
	m := &Machine{Spec: newSpec(t), cache: c}
	if err := m.makeInitramfs(t.Context()); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), filepath.Base(binary))
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, append(data, time.Now().String()...), 0o755); err != nil {
		t.Fatal(err)
	}
	m.Spec.Binary = changed
	if _, err := m.openInitramfs(t.Context()); err != nil {
		t.Errorf("while the right one is there: %v", err)
	}
	if err := c.Remove(t.Context(), initramfsKind, m.initramfsKey); err != nil {
		t.Fatal(err)
	}
	if _, err := m.openInitramfs(t.Context()); !errors.Is(err, errRebuilt) {
		t.Errorf("another program as the guest's: %v", err)
	}
}
