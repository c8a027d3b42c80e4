package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"powercut/guest/buildid"
	"powercut/guest/ledger"
)

// deviceDeadline bounds the wait for a device to appear after its driver was loaded.
const deviceDeadline = 30 * time.Second

// systemMounts is what a guest needs before anything else, in order.
var systemMounts = []struct{ source, target, kind string }{
	{"devtmpfs", "/dev", "devtmpfs"},
	{"proc", "/proc", "proc"},
	{"sysfs", "/sys", "sysfs"},
	{"tmpfs", "/tmp", "tmpfs"},
}

func mountSystem() error {
	for _, m := range systemMounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", m.target, err)
		}
		err := unix.Mount(m.source, m.target, m.kind, 0, "")
		if err != nil && !errors.Is(err, unix.EBUSY) { // the kernel may have mounted /dev itself
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

// loadModules loads the modules of dir in the order that its file "order" gives.
// It returns their names and the build IDs of what the kernel then has.
func loadModules(dir string) (map[string]string, error) {
	list, err := os.ReadFile(filepath.Join(dir, "order"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // a kernel with everything built in
	}
	if err != nil {
		return nil, fmt.Errorf("read module order: %w", err)
	}
	loaded := map[string]string{}
	for file := range strings.FieldsSeq(string(list)) {
		if err := loadModule(filepath.Join(dir, file)); err != nil {
			return nil, fmt.Errorf("load module %s: %w", file, err)
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(file, ".ko"), "-") // NN-NAME.ko
		loaded[name] = buildid.Loaded(name)
	}
	return loaded, nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) {
		return nil // already there, or for hardware that this machine lacks (crc32c_intel, say)
	}
	return err
}

// openPort opens the virtio-serial port of that name, for blocking reads and
// writes: one reader and one writer, never polled.
func openPort(name string) (*os.File, error) {
	var dev string
	find := func() bool {
		files, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == name {
				dev = "/dev/" + filepath.Base(filepath.Dir(f))
				_, err := os.Stat(dev)
				return err == nil
			}
		}
		return false
	}
	if !waitUntil(find) {
		return nil, fmt.Errorf("find virtio-serial port %q: none within %v; does the kernel have CONFIG_VIRTIO_PCI and CONFIG_VIRTIO_CONSOLE?", name, deviceDeadline)
	}
	fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dev, err)
	}
	return os.NewFile(uintptr(fd), dev), nil
}

// waitUntil polls a condition of the hardware, which nothing announces, until it
// holds or the deadline has passed.
func waitUntil(ok func() bool) bool {
	for end := time.Now().Add(deviceDeadline); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// mapLedger maps the reserved piece of physical memory.
func mapLedger() (ledger.Region, error) {
	fd, err := unix.Open("/dev/mem", unix.O_RDWR|unix.O_CLOEXEC|unix.O_SYNC, 0)
	if err != nil {
		return ledger.Region{}, fmt.Errorf("open /dev/mem: %w", err)
	}
	defer unix.Close(fd)
	if err := reserved(); err != nil {
		return ledger.Region{}, err
	}
	mem, err := unix.Mmap(fd, ledger.Base, ledger.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return ledger.Region{}, fmt.Errorf("map /dev/mem: %w", err)
	}
	r, err := ledger.Map(mem)
	if err != nil {
		return ledger.Region{}, err
	}
	r.Clear()
	return r, nil
}

// reserved makes sure that the kernel has left the ledger's memory alone, as the
// memmap parameter asks: one that ignored it would have its memory overwritten.
func reserved() error {
	iomem, err := os.ReadFile("/proc/iomem")
	if err != nil {
		return fmt.Errorf("read /proc/iomem: %w", err)
	}
	for line := range strings.Lines(string(iomem)) {
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			continue
		}
		if from <= ledger.Base && to >= ledger.Base+ledger.Size-1 && strings.Contains(strings.ToLower(line), "reserved") {
			return nil
		}
	}
	return fmt.Errorf("kernel did not reserve the memory at %#x", ledger.Base)
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
