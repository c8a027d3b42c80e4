package qemu

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Device is a part of a virtual machine. It knows which arguments QEMU needs
// for it and which parameters the guest's kernel does.
type Device interface {
	// Args are the arguments for QEMU, in order.
	Args() []string
	// Params are the words for the kernel command line; none for most parts.
	Params() []string
}

// compose gives QEMU's arguments for parts, in order, the kernel command line
// last, made of the parts' parameters and then of extra.
func compose(parts []Device, extra []string) []string {
	var args, params []string
	for _, p := range parts {
		args = append(args, p.Args()...)
		params = append(params, p.Params()...)
	}
	params = append(params, extra...)
	return append(args, "-append", strings.Join(params, " "))
}

// Machine is the board, stripped of what a sync test does not need: every
// device less is time saved at boot and at a fork.
type Machine struct{}

// Args describes a PC with nothing on it. A guest that reboots (as a panicking
// one does) ends QEMU instead.
func (Machine) Args() []string {
	return []string{
		"-M", "pc,hpet=off,graphics=off,usb=off,vmport=off,memory-backend=ram",
		"-nodefaults", "-no-user-config", "-no-reboot",
		"-display", "none", "-nic", "none",
	}
}

// Params keep the boot short and the addresses the same from boot to boot, take
// the timer on trust (on a busy host the kernel may count too few ticks, and
// panic: "IO-APIC + timer doesn't work!"), and
// turn a panic into a reboot at once, thus into QEMU's end. The console gets
// warnings and what is graver (KERN_WARNING is level 4, and quiet alone leaves
// it out): a WARN() in a file system must not go unseen.
func (Machine) Params() []string {
	return []string{"quiet", "loglevel=5", "panic=-1", "nokaslr", "mitigations=off", "nopti", "no_timer_check"}
}

// Accel is how QEMU executes the guest's instructions.
type Accel string

// The accelerators. TCG translates and works everywhere; KVM needs /dev/kvm,
// and must be tried before it is trusted ([Probe]).
const (
	TCG Accel = "tcg"
	KVM Accel = "kvm"
)

// CPU is one processor.
type CPU struct {
	Accel Accel
	Model string // a QEMU CPU model; empty: qemu64
}

// Args name the accelerator, the model and the number, which is one.
func (c CPU) Args() []string {
	model := c.Model
	if model == "" {
		model = "qemu64"
	}
	return []string{"-accel", string(c.Accel), "-cpu", model, "-smp", "1"}
}

// Params are none.
func (CPU) Params() []string { return nil }

// Memory is the guest's RAM, shared with whoever else maps the descriptor.
type Memory struct {
	Size int64 // bytes
	FD   int   // number of the inherited descriptor
}

// Args back the board's memory ("ram") with the descriptor. A path below
// /proc/self keeps it a memory-backend-file, whose block may stay out of a
// migration stream (x-ignore-shared).
func (m Memory) Args() []string {
	return []string{
		"-object", fmt.Sprintf("memory-backend-file,id=ram,size=%d,mem-path=/proc/self/fd/%d,share=on", m.Size, m.FD),
		"-m", fmt.Sprintf("%dB", m.Size),
	}
}

// Params are none.
func (Memory) Params() []string { return nil }

// Reserve keeps a range of guest-physical memory out of the kernel's hands.
type Reserve struct {
	Base, Size int64 // bytes, both whole pages
}

// Args are none.
func (Reserve) Args() []string { return nil }

// Params mark the range as reserved (memmap=nn$ss in the kernel's
// admin-guide/kernel-parameters).
func (r Reserve) Params() []string {
	return []string{fmt.Sprintf("memmap=%dK$0x%X", r.Size>>10, r.Base)}
}

// Kernel is what QEMU boots directly, without a boot loader.
type Kernel struct {
	Image     string // an ELF vmlinux (booted by PVH, fastest) or a bzImage
	Initramfs string // a cpio archive
}

// Args name both files.
func (k Kernel) Args() []string {
	return []string{"-kernel", k.Image, "-initrd", k.Initramfs}
}

// Params are none.
func (Kernel) Params() []string { return nil }

// Console is the first serial port, written by QEMU into a file.
type Console struct {
	Path string // created, or emptied if it is there; relative to the machine's folder
}

// Args attach the file to the port.
func (c Console) Args() []string {
	return []string{"-chardev", "file,id=console,path=" + escape(c.Path), "-serial", "chardev:console"}
}

// Params make the port the kernel's console.
func (Console) Params() []string { return []string{"console=ttyS0"} }

// monitorPort is QMP on an inherited descriptor.
type monitorPort struct{ fd int }

func (m monitorPort) Args() []string {
	return []string{
		"-chardev", fmt.Sprintf("socket,id=qmp,fd=%d", m.fd),
		"-mon", "chardev=qmp,mode=control",
	}
}

func (monitorPort) Params() []string { return nil }

// ControlPortName is the name under which the guest finds the control channel
// in /sys/class/virtio-ports/*/name.
const ControlPortName = "powercut"

// ControlPort is a virtio-serial port on an inherited descriptor.
type ControlPort struct {
	FD int // number of the inherited descriptor, a connected stream socket
}

// Args add the bus and the port.
func (c ControlPort) Args() []string {
	return []string{
		"-chardev", fmt.Sprintf("socket,id=control,fd=%d", c.FD),
		"-device", "virtio-serial-pci,id=serial",
		"-device", "virtserialport,bus=serial.0,chardev=control,name=" + ControlPortName,
	}
}

// Params are none.
func (ControlPort) Params() []string { return nil }

// Raw is whatever else a machine needs, said in QEMU's and the kernel's words.
type Raw struct {
	Arguments  []string
	Parameters []string
}

// Args are r.Arguments.
func (r Raw) Args() []string { return r.Arguments }

// Params are r.Parameters.
func (r Raw) Params() []string { return r.Parameters }

// escape doubles the commas of a value: QEMU splits options at single ones.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }

// onOff is a boolean in QEMU's words.
func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// absolute makes path absolute against dir.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// inherited is the number under which a child sees the i-th of exec.Cmd's
// ExtraFiles: the first three are the standard streams.
func inherited(i int) int { return 3 + i }

// fdURI names an inherited descriptor to QEMU's migration code.
func fdURI(fd int) string { return "fd:" + strconv.Itoa(fd) }
