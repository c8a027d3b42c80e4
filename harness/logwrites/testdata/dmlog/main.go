// Command dmlog is PID 1 of a guest that lets the kernel's dm-log-writes log what
// ext4 writes. The first half of the drive is the file system, the second half the
// log. It marks each fsync.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// half is the number of sectors of 512 bytes of either half.
const half = 32 << 11

func main() {
	if err := run(); err != nil {
		fmt.Println("dmlog failed:", err)
	} else {
		fmt.Println("dmlog done")
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	for _, m := range []struct{ fs, dir string }{{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}} {
		if err := errors.Join(os.MkdirAll(m.dir, 0o755), unix.Mount(m.fs, m.dir, m.fs, 0, "")); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := await("/dev/sda"); err != nil {
		return err
	}
	dm, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for _, d := range [][3]string{
		{"data", "linear", "/dev/sda 0"},
		{"log", "linear", fmt.Sprintf("/dev/sda %d", half)},
		{"logged", "log-writes", "/dev/dm-0 /dev/dm-1"},
	} {
		if err := create(dm, d[0], d[1], d[2]); err != nil {
			return fmt.Errorf("create %s: %w", d[0], err)
		}
	}
	if err := await("/dev/dm-2"); err != nil {
		return err
	}
	if err := workload(dm); err != nil {
		return err
	}
	unix.Sync()
	return call(dm, dmRemove, "logged", nil) // completes the log
}

// workload writes a file block by block, with an fsync and a mark after each.
func workload(dm *os.File) error {
	if err := os.MkdirAll("/mnt", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/dev/dm-2", "/mnt", "ext4", 0, "discard"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	f, err := os.Create("/mnt/file")
	if err != nil {
		return err
	}
	for op := 1; op <= 5; op++ {
		if _, err := f.Write(bytes.Repeat([]byte{'0' + byte(op)}, 4096)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := call(dm, dmMessage, "logged", append(make([]byte, 8), fmt.Sprintf("mark fsync-%d\x00", op)...)); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
	}
	if err := errors.Join(f.Truncate(4096), f.Sync(), f.Close()); err != nil {
		return err
	}
	return unix.Unmount("/mnt", 0)
}

func loadModules() error {
	order, err := os.ReadFile("/lib/modules/order")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(order)) {
		f, err := os.Open(filepath.Join("/lib/modules", name))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

func await(path string) error {
	for range 2000 {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("%s does not appear", path)
}

// The requests to device mapper (include/uapi/linux/dm-ioctl.h).
const (
	dmCreate  = 3
	dmRemove  = 4
	dmSuspend = 6
	dmLoad    = 9
	dmMessage = 14

	dmHead   = 312 // bytes of struct dm_ioctl
	dmBuffer = 1024
)

// create makes a device with one target, and starts it.
func create(dm *os.File, name, target, params string) error {
	spec := make([]byte, 40) // struct dm_target_spec
	binary.LittleEndian.PutUint64(spec[8:], half)
	copy(spec[24:], target)
	spec = append(append(spec, params...), 0)
	return errors.Join(call(dm, dmCreate, name, nil), call(dm, dmLoad, name, spec), call(dm, dmSuspend, name, nil))
}

// call sends one request about the device of that name.
func call(dm *os.File, request uintptr, name string, data []byte) error {
	b := make([]byte, dmBuffer)
	le := binary.LittleEndian
	le.PutUint32(b, 4) // version of the interface
	le.PutUint32(b[12:], dmBuffer)
	le.PutUint32(b[16:], dmHead)
	if request == dmLoad {
		le.PutUint32(b[20:], 1) // targets
	}
	copy(b[48:], name)
	copy(b[dmHead:], data)
	number := 3<<30 | uintptr(dmHead)<<16 | 0xfd<<8 | request // _IOWR
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dm.Fd(), number, uintptr(unsafe.Pointer(&b[0]))); errno != 0 {
		return errno
	}
	return nil
}
