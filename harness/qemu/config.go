package qemu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Defaults and ranges of a Config.
const (
	DefaultBinary  = "qemu-system-x86_64"
	DefaultMemory  = 192 << 20
	DefaultTimeout = 30 * time.Second

	DefaultConsoleLimit = 64 << 20

	minMemory = 64 << 20
	maxMemory = 3 << 30 // one piece below the PCI hole of this machine
	pageSize  = 4096
)

// Config describes a virtual machine.
type Config struct {
	// Binary is QEMU, looked up in PATH. Default DefaultBinary.
	Binary string
	// Accel executes the guest. Default TCG.
	Accel Accel
	// CPUModel is a QEMU CPU model. Default qemu64.
	CPUModel string
	// Memory is the guest's RAM in bytes, whole pages. Default DefaultMemory.
	Memory int64
	// Dir is QEMU's working folder. Kernel, Initramfs, ConsolePath and the
	// disk's socket start there if they are relative. Required.
	Dir string
	// Kernel is an ELF vmlinux or a bzImage. Required.
	Kernel string
	// Initramfs is a cpio archive. Required.
	Initramfs string
	// Cmdline is added to the kernel's command line after what the parts ask
	// for (see each Device's Params).
	Cmdline []string
	// Reserve is guest memory the kernel must leave alone; none if its Size
	// is 0.
	Reserve Reserve
	// Disk is the drive; nil for none. Its server must be listening already.
	Disk *Disk
	// Devices are further parts.
	Devices []Device
	// ConsolePath is the file that QEMU writes the serial console to. Default
	// "console".
	ConsolePath string
	// ConsoleLimit is how large that file may grow, in bytes. What a guest
	// writes beyond is lost. Default DefaultConsoleLimit. With an image file it is
	// the image's Limit, if that is greater: the kernel knows one limit for all
	// files of a process (RLIMIT_FSIZE, setrlimit(2)).
	ConsoleLimit int64
	// Template is a folder made by Save, to be forked instead of booting; if
	// relative, to the harness's own working folder.
	// The rest of the Config must be as it was then, but for Dir, ConsolePath
	// and the disk's back end (socket or image, and its part of the cache mode).
	// Empty: boot.
	Template string
	// Timeout bounds the start of QEMU, each QMP command, and a restore.
	// Default DefaultTimeout.
	Timeout time.Duration
}

// withDefaults fills in what was left out and checks the rest.
func (c Config) withDefaults() (Config, error) {
	c.Binary = or(c.Binary, DefaultBinary)
	c.Accel = or(c.Accel, TCG)
	c.Memory = or(c.Memory, DefaultMemory)
	c.ConsolePath = or(c.ConsolePath, "console")
	c.ConsoleLimit = or(c.ConsoleLimit, DefaultConsoleLimit)
	c.Timeout = or(c.Timeout, DefaultTimeout)
	return c, errors.Join(c.checkMachine(), c.checkFiles())
}

// or is value, or fallback if value is zero.
func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func (c Config) checkMachine() error {
	if c.Accel != TCG && c.Accel != KVM {
		return fmt.Errorf("configure machine: accelerator %q is neither %s nor %s", c.Accel, TCG, KVM)
	}
	if c.Memory < minMemory || c.Memory > maxMemory || c.Memory%pageSize != 0 {
		return fmt.Errorf("configure machine: memory of %d bytes is not a multiple of %d between %d and %d",
			c.Memory, pageSize, minMemory, maxMemory)
	}
	if r := c.Reserve; r.Base < 0 || r.Size < 0 || r.Base%pageSize != 0 || r.Size%pageSize != 0 || r.Base > c.Memory-r.Size {
		return fmt.Errorf("configure machine: reserved range %#x+%#x is not made of whole pages inside the memory of %#x bytes",
			r.Base, r.Size, c.Memory)
	}
	if c.Disk != nil {
		return c.Disk.check()
	}
	return nil
}

func (c Config) checkFiles() error {
	if c.Dir == "" {
		return errors.New("configure machine: no working folder given")
	}
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("configure machine: working folder %s is no folder: %w", c.Dir, or(err, error(syscall.ENOTDIR)))
	}
	for what, path := range map[string]string{"kernel": c.Kernel, "initramfs": c.Initramfs} {
		if path == "" {
			return fmt.Errorf("configure machine: no %s given", what)
		}
		if _, err := os.Stat(absolute(c.Dir, path)); err != nil {
			return fmt.Errorf("configure machine: %s: %w", what, err)
		}
	}
	return nil
}

// fileLimit is how large a file of QEMU's may grow.
func (c Config) fileLimit() int64 {
	if c.Disk != nil && c.Disk.Image != nil {
		return max(c.ConsoleLimit, c.Disk.Image.Limit)
	}
	return c.ConsoleLimit
}

// consoleFile is where the harness finds the console.
func (c Config) consoleFile() string { return absolute(c.Dir, c.ConsolePath) }

// templateFile is the path of a file of the template to fork.
func (c Config) templateFile(name string) string { return filepath.Join(c.Template, name) }

// Positions of what QEMU inherits.
const (
	memoryFile = iota
	monitorFile
	controlFile
	incomingFile
)

// args is the command line.
func (c Config) args() []string {
	parts := []Device{
		Machine{},
		CPU{Accel: c.Accel, Model: c.CPUModel},
		Memory{Size: c.Memory, FD: inherited(memoryFile)},
		Kernel{Image: c.Kernel, Initramfs: c.Initramfs},
		Console{Path: c.ConsolePath},
		monitorPort{fd: inherited(monitorFile)},
		ControlPort{FD: inherited(controlFile)},
	}
	if c.Reserve.Size > 0 {
		parts = append(parts, c.Reserve)
	}
	if c.Disk != nil {
		parts = append(parts, *c.Disk)
	}
	if c.Template != "" {
		parts = append(parts, Raw{Arguments: []string{"-incoming", "defer"}})
	}
	return compose(append(parts, c.Devices...), c.Cmdline)
}

// identity is the command line without what may differ between a template and
// its forks. Equal identities mean that the device state of one fits the other.
func (c Config) identity() []string {
	c.Template = ""
	c.ConsolePath = ""
	c.Kernel, c.Initramfs = "", ""
	if c.Disk != nil {
		disk := *c.Disk
		disk.Socket, disk.Export, disk.Log, disk.Image = "", "", "", nil
		disk.Direct, disk.NoFlush = false, false // of the back end: no part of the device state
		if disk.Second != "" {
			disk.Second = "second"
		}
		c.Disk = &disk
	}
	return c.args()
}
