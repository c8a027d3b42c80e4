package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"powercut/guest/wire"
)

// driveState is a disk as the guest's kernel takes it.
func driveState(dev string) (wire.FoundDrive, error) {
	out := wire.FoundDrive{Device: dev}
	fua, err := os.ReadFile("/sys/block/" + filepath.Base(out.Device) + "/queue/fua")
	if err != nil {
		return out, err
	}
	out.FUA = strings.TrimSpace(string(fua)) == "1"
	out.WriteCache, err = kernelCache(out.Device)
	return out, err
}

// cacheFile is the sysfs file that says, and decides, what the kernel takes a
// drive's write cache for: "write back" or "write through" (sysfs-block,
// queue/write_cache).
func cacheFile(dev string) string {
	return "/sys/block/" + filepath.Base(dev) + "/queue/write_cache"
}

func kernelCache(dev string) (string, error) {
	b, err := os.ReadFile(cacheFile(dev))
	return strings.TrimSpace(string(b)), err
}

// switchCache changes the write cache of each disk, and what the kernel takes it for.
func switchCache(c wire.CacheSwitches) error {
	if c == (wire.CacheSwitches{}) {
		return nil
	}
	d, err := theDisks()
	if err != nil {
		return err
	}
	return d.each(func(dev string) error { return switchCacheOf(dev, c) })
}

func switchCacheOf(dev string, c wire.CacheSwitches) error {
	if c.HdparmW != "" {
		if err := hdparmW(dev, c.HdparmW == "on"); err != nil {
			return fmt.Errorf("switch the write cache of %s %s: %w", dev, c.HdparmW, err)
		}
	}
	if c.Kernel != "" {
		if err := os.WriteFile(cacheFile(dev), []byte(c.Kernel), 0); err != nil {
			return fmt.Errorf("make the kernel take the cache of %s for %s: %w", dev, c.Kernel, err)
		}
		return awaitCache(dev, c.Kernel)
	}
	return nil
}

// The command SET FEATURES and its subcommands (ATA8-ACS, 7.48), and the ioctl
// that sends a command without data (linux/hdreg.h).
const (
	setFeatures    = 0xef
	enableCache    = 0x02
	disableCache   = 0x82
	hdioDriveCmd   = 0x031f
	driveCmdLength = 4 // command, sector, feature, number of sectors
)

// hdparmW does what hdparm -W does, and waits until the kernel has asked the
// drive for its new state, which it does by itself.
func hdparmW(dev string, on bool) error {
	fd, err := unix.Open(dev, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	command := [driveCmdLength]byte{setFeatures, 0, disableCache, 0}
	want := "write through"
	if on {
		command[2], want = enableCache, "write back"
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), hdioDriveCmd, uintptr(unsafe.Pointer(&command)))
	runtime.KeepAlive(&command)
	if errno != 0 {
		return errno
	}
	return awaitCache(dev, want)
}

// awaitCache waits until the kernel takes the drive's cache for what it should.
func awaitCache(dev, want string) error {
	var got string
	var err error
	if waitUntil(func() bool { got, err = kernelCache(dev); return err == nil && got == want }) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("the kernel still takes it for %q after %v", got, deviceDeadline)
}
