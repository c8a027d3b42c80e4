package qemu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"powercut/images"
)

// ledgerBase is where the test guests' /init finds memory of its own.
const ledgerBase = 0x0B000000

// shared is what all tests together make once: built by the first that asks,
// removed by TestMain.
var shared = struct {
	dir      string
	guest    func() (Config, error) // a bootable Config without Dir
	template func() (string, error) // a folder made by Save of that Config
}{}

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		orphanMain()
		return
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "qemu-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	shared.guest = sync.OnceValues(buildGuest)
	shared.template = sync.OnceValues(buildTemplate)
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// buildGuest makes what is booted: Debian's kernel, and testdata/init.
func buildGuest() (Config, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err := Version(ctx, ""); err != nil {
		return Config{}, err
	}
	kernel, err := images.Fetch(ctx, images.DefaultKernel)
	if err != nil {
		return Config{}, err
	}
	modules, err := kernel.Closure("virtio_pci", "virtio_console", "ata_piix", "sd_mod")
	if err != nil {
		return Config{}, err
	}
	binary := filepath.Join(shared.dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", binary, "./testdata/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return Config{}, fmt.Errorf("build init: %w: %s", err, out)
	}
	initramfs := filepath.Join(shared.dir, "initramfs")
	f, err := os.Create(initramfs)
	if err != nil {
		return Config{}, err
	}
	err = errors.Join(images.WriteInitramfs(f, kernel, modules, binary), f.Close())
	cfg := Config{Kernel: kernel.Vmlinux, Initramfs: initramfs, Reserve: Reserve{Base: ledgerBase, Size: 1 << 20}, Timeout: 2 * time.Minute}
	return cfg, err
}

// buildTemplate boots the guest and saves it.
func buildTemplate() (string, error) {
	cfg, err := shared.guest()
	if err != nil {
		return "", err
	}
	cfg.Dir = shared.dir
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	vm, err := Start(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer vm.Close()
	if err := awaitReady(ctx, vm); err != nil {
		return "", err
	}
	dir := filepath.Join(shared.dir, "template")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, Save(ctx, vm, dir)
}

// awaitReady reads the one line that a booting guest says by itself.
func awaitReady(_ context.Context, vm *VM) error {
	_ = vm.Control().SetDeadline(time.Now().Add(2 * patience))
	line := make([]byte, len("ready\n"))
	for got := 0; got < len(line); {
		n, err := vm.Control().Read(line[got:])
		if err != nil {
			return vm.Failure("await guest", err)
		}
		got += n
	}
	if string(line) != "ready\n" {
		return fmt.Errorf("guest says %q", line)
	}
	return nil
}

// testConfig is a guest to boot, in a folder of its own. Without QEMU or a
// kernel the test is skipped.
func testConfig(t testing.TB) Config {
	t.Helper()
	cfg, err := shared.guest()
	if err != nil {
		t.Skip("no guest to be had here: ", err)
	}
	cfg.Dir = t.TempDir()
	return cfg
}

// testFork is a guest to fork from the common template.
func testFork(t testing.TB) Config {
	t.Helper()
	cfg := testConfig(t)
	template, err := shared.template()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Template = template
	return cfg
}

// start starts a machine that is closed, and proved gone, with the test.
func start(t testing.TB, cfg Config) *VM {
	t.Helper()
	vm, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
		if err := unix.Kill(vm.PID(), 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("process %d after Close: %v", vm.PID(), err)
		}
	})
	return vm
}

// ask sends one line to the guest and returns the line it answers.
func ask(t testing.TB, vm *VM, line string) string {
	t.Helper()
	_ = vm.Control().SetDeadline(time.Now().Add(patience))
	_, err := fmt.Fprintln(vm.Control(), line)
	if err == nil {
		line, err = bufio.NewReader(vm.Control()).ReadString('\n') // the guest says one line at a time
	}
	if err != nil {
		t.Fatal(vm.Failure("ask guest", err))
	}
	return strings.TrimSpace(line)
}

// at is the memory that the guest's poke writes.
func at(vm *VM, n int) string { return string(vm.Memory()[ledgerBase : ledgerBase+n]) }
