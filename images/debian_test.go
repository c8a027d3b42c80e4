package images

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"powercut/images/cache"
	"powercut/images/debian"
	"powercut/images/vmlinux"
)

// kernelsVariable set to "all" tests all kernels that Fetch knows, not only the
// default one.
const kernelsVariable = "POWERCUT_TEST_KERNELS"

// guestModules are what a guest with an emulated IDE disk needs.
func guestModules() []string {
	return []string{"ata_piix", "sd_mod", "ext4", "virtio_console", "virtio_pci"}
}

// skipOffline skips if err only says that there is no mirror to be reached.
func skipOffline(t *testing.T, err error) {
	t.Helper()
	var network net.Error
	if errors.Is(err, debian.ErrUnreachable) || errors.Is(err, debian.ErrNotDebian) || errors.As(err, &network) {
		t.Skipf("no Debian mirror: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDebianKernels downloads kernels into an empty cache and takes them the
// whole way: modules, initramfs, boot.
func TestDebianKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads 70 MB a kernel")
	}
	t.Setenv(cache.Variable, t.TempDir())
	specs := []string{DefaultKernel}
	if os.Getenv(kernelsVariable) == "all" {
		specs = Specs()
	}
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			k, err := Fetch(t.Context(), spec)
			skipOffline(t, err)
			checkFetched(t, k, spec)
			t.Run("from cache", func(t *testing.T) { checkCached(t, k, spec) })
			t.Run("boot", func(t *testing.T) { bootGuest(t, k) })
			t.Run("own", func(t *testing.T) { checkAsOwn(t, k) })
		})
	}
}

func checkFetched(t *testing.T, k Kernel, spec string) {
	t.Helper()
	version := strings.TrimPrefix(spec, debianPrefix)
	if !strings.HasPrefix(k.Release, version+".") || !strings.HasPrefix(k.ID, spec+":"+k.Release+":") {
		t.Errorf("got %+v", k)
	}
	info, err := vmlinux.Inspect(k.Vmlinux)
	if err != nil || !info.PVH || info.Release != k.Release {
		t.Errorf("vmlinux: release %q, PVH %v, %v", info.Release, info.PVH, err)
	}
	features := []Feature{DevMem(), {Config: "CONFIG_PVH"}}
	for _, m := range guestModules() {
		features = append(features, FeatureOf(m))
	}
	if missing := k.Missing(features...); len(missing) > 0 {
		t.Errorf("missing %v", missing)
	}
	if missing := k.Missing(FeatureOf("no_such"), Feature{Config: "CONFIG_NO_SUCH"}); len(missing) != 2 {
		t.Errorf("of two absent features, only %v are missing", missing)
	}
	paths, err := k.Closure(guestModules()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if filepath.Ext(p) != ".ko" {
			t.Errorf("%s is not decompressed", p)
		}
	}
}

// checkCached fetches again: without apt, and so without a network.
func checkCached(t *testing.T, k Kernel, spec string) {
	c, err := cache.Default()
	if err != nil {
		t.Fatal(err)
	}
	c.Verify = true
	if err := c.Check(kernelKind, kernelKey(spec)); err != nil {
		t.Error(err)
	}
	t.Setenv("PATH", "")
	again, err := Fetch(t.Context(), spec)
	if err != nil || again.ID != k.ID || again.Vmlinux != k.Vmlinux {
		t.Errorf("second time: %+v, %v", again, err)
	}
}

// checkAsOwn uses a fetched kernel as a user's own.
func checkAsOwn(t *testing.T, k Kernel) {
	own, err := Local(t.Context(), k.Vmlinux, k.Modules)
	if err != nil {
		t.Fatal(err)
	}
	got, err := own.Closure(guestModules()...)
	if err != nil {
		t.Fatal(err)
	}
	want, err := k.Closure(guestModules()...)
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("closure differs:\n%s\n%s (%v)", strings.Join(got, "\n"), strings.Join(want, "\n"), err)
	}
}

// bootGuest boots a kernel with an initramfs whose /init loads the modules in
// the listed order and mounts an ext4 disk.
func bootGuest(t *testing.T, k Kernel) {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is not installed")
	}
	needed, err := k.Closure(guestModules()...)
	if err != nil {
		t.Fatal(err)
	}
	fsck, err := Checker(t.Context(), "ext4")
	skipOffline(t, err)
	dir := t.TempDir()
	initramfs, err := os.Create(filepath.Join(dir, "initramfs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(WriteInitramfs(initramfs, k, needed, buildInit(t), fsck...), initramfs.Close()); err != nil {
		t.Fatal(err)
	}
	disk := makeDisk(t, Format{Type: "ext4", Size: 32 << 20})

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, "-accel", "tcg", "-M", "pc", "-m", "256", "-nodefaults", "-no-user-config", "-display", "none",
		"-nic", "none", "-no-reboot", "-serial", "stdio", "-kernel", k.Vmlinux, "-initrd", initramfs.Name(),
		"-append", "console=ttyS0 quiet panic=-1", "-drive", "format=raw,if=ide,snapshot=on,file="+disk)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"guest: loaded all modules", "guest: e2fsck says 0", "guest: mounted"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the guest does not say %q:\n%s", want, out)
		}
	}
}

// buildInit builds testdata/init statically.
func buildInit(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "init")
	cmd := exec.Command("go", "build", "-o", binary, "./testdata/init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

func TestDoctorChecks(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not/there/yet")
	t.Setenv(cache.Variable, root)
	tools := CheckTools(t.Context())
	for _, c := range append(tools, CheckCache()...) {
		if c.Name == "" || c.Detail == "" || c.OK != (c.Fix == "") {
			t.Errorf("check says %+v", c)
		}
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking at the cache folder made it (%v)", err)
	}
	for _, c := range CheckKernels() {
		if c.OK || !strings.Contains(c.Fix, "fetched") {
			t.Errorf("kernel in an empty cache: %+v", c)
		}
	}
	t.Setenv("PATH", "")
	for _, c := range CheckTools(t.Context()) {
		if (c.Name == "apt-get" || c.Name == "dpkg-deb") && (c.OK || c.Detail != "not found") {
			t.Errorf("without a PATH: %+v", c)
		}
	}
	t.Setenv(cache.Variable, "relative")
	if c := CheckCache(); len(c) != 1 || c[0].OK || !strings.Contains(c[0].Fix, "export POWERCUT_CACHE=") {
		t.Errorf("bad folder: %+v", c)
	}
}
