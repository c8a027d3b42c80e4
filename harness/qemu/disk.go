package qemu

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Bus is what a drive hangs on.
type Bus string

// The buses. IDE is the PC's own PIIX controller: one command in flight, no
// FUA. The others queue.
const (
	IDE       Bus = "ide"
	AHCI      Bus = "ahci"
	SCSI      Bus = "scsi-hd"
	VirtioBlk Bus = "virtio-blk"
	NVMe      Bus = "nvme"
)

// Buses lists them all.
func Buses() []Bus { return []Bus{IDE, AHCI, SCSI, VirtioBlk, NVMe} }

// maxSocketPath is the longest path of a unix socket: sun_path holds 108 bytes
// with the closing zero (unix(7)).
const maxSocketPath = 107

// Image is a file that holds a drive's blocks.
type Image struct {
	Path   string // relative to the machine's folder, or absolute
	Format string // "raw" or "qcow2"
	AIO    string // "threads", "native" or "io_uring"
	Limit  int64  // bytes to which the file may grow
}

// Disk is a drive whose blocks come from an NBD server on a unix socket or, where
// Image is not nil, from a file.
type Disk struct {
	Image      *Image
	Socket     string // relative to the machine's folder, or absolute; at most 107 bytes
	Export     string // name of the NBD export; mostly empty
	Bus        Bus    // empty: IDE
	WriteCache bool   // whether the drive tells the guest of a volatile write cache
	Direct     bool   // cache.direct: bypass the host's page cache, if there is one
	NoFlush    bool   // cache.no-flush: drop the guest's flushes
	// Log is a file, which exists, into which QEMU's block driver blklogwrites logs
	// every write on its way to the drive, in the format of dm-log-writes. Relative
	// to the machine's folder, or absolute; empty: none.
	Log string
	// Second is the socket of another drive on the same bus that is otherwise like this
	// one; empty: none. Not with an image, a log or NVMe.
	Second string
}

// Args attach the drive. QEMU adds no cache of its own, passes flushes on unless
// NoFlush is set, passes trims on, and reports errors to the guest where a bus
// lets it be told to (NVMe always does).
func (d Disk) Args() []string {
	if d.Image != nil {
		return append(d.backFile(), d.front()...)
	}
	name := "disk"
	if d.Log != "" {
		name = "logged"
	}
	back := d.served(name, d.Socket)
	if d.Export != "" {
		back += ",export=" + escape(d.Export)
	}
	behaviour := ",discard=unmap" + d.cache()
	args := []string{"-blockdev", back + behaviour}
	if d.Log != "" {
		args = append(args, "-blockdev", "driver=blklogwrites,node-name=disk,file=logged,log.driver=file,log.filename="+escape(d.Log)+behaviour)
	}
	if d.Second != "" {
		args = append(args, "-blockdev", d.served("second", d.Second)+behaviour)
	}
	return append(args, d.front()...)
}

// served is the node of what an NBD server offers on a socket.
func (Disk) served(name, socket string) string {
	return "driver=nbd,node-name=" + name + ",server.type=unix,server.path=" + escape(socket)
}

// cache are the back end's part of a cache mode.
func (d Disk) cache() string {
	return ",cache.direct=" + onOff(d.Direct) + ",cache.no-flush=" + onOff(d.NoFlush)
}

// backFile are the nodes of an image file: one for the file, and one for its
// format on top. Each has cache options of its own.
func (d Disk) backFile() []string {
	file := "driver=file,node-name=file,filename=" + escape(d.Image.Path) + ",aio=" + d.Image.AIO + ",discard=unmap" + d.cache()
	format := "driver=" + d.Image.Format + ",node-name=disk,file=file,discard=unmap" + d.cache()
	return []string{"-blockdev", file, "-blockdev", format}
}

// Params are none.
func (Disk) Params() []string { return nil }

// front is the guest's side of the drive, with the controller where the board
// has none.
func (d Disk) front() (args []string) {
	switch d.Bus {
	case AHCI:
		args = []string{"-device", "ahci,id=ahci"}
	case SCSI:
		args = []string{"-device", "virtio-scsi-pci,id=scsi"}
	case NVMe:
		return nil // plugged in later: see plugDisk
	}
	args = append(args, "-device", d.device("disk", 0))
	if d.Second != "" {
		args = append(args, "-device", d.device("second", 1))
	}
	return args
}

// device is the drive as the guest sees it, at a place of the bus; of IDE it is a channel.
func (d Disk) device(node string, place int) string {
	opts := "drive=" + node + ",write-cache=" + onOff(d.WriteCache) + ",werror=report,rerror=report"
	switch d.Bus {
	case AHCI:
		return fmt.Sprintf("ide-hd,bus=ahci.%d,%s,model=%s", place, opts, d.model())
	case SCSI:
		if place > 0 {
			opts = fmt.Sprintf("scsi-id=%d,%s", place, opts)
		}
		return "scsi-hd,bus=scsi.0,dpofua=on," + opts
	case VirtioBlk:
		return "virtio-blk-pci," + opts
	}
	return fmt.Sprintf("ide-hd,bus=ide.%d,unit=0,%s,model=%s", place, opts, d.model())
}

// plugged tells whether the drive's device is plugged into a running machine.
// QEMU (7.2, hw/nvme/ctrl.c) cannot save a machine with an NVMe controller, so
// that a template has none, and a fork is given one.
func (d Disk) plugged() bool { return d.Bus == NVMe }

// plugDisk gives the running machine its drive, where that is not there from the
// start. The guest's kernel finds it by PCI hotplug, a moment later.
func (vm *VM) plugDisk(ctx context.Context) error {
	d := vm.cfg.Disk
	if d == nil || !d.plugged() {
		return nil
	}
	device := map[string]any{"driver": "nvme", "serial": "powercut", "drive": "disk", "write-cache": onOff(d.WriteCache)}
	return vm.monitor.Execute(ctx, "device_add", device, nil)
}

// model is the name that an IDE drive gives of itself. Its 31st character
// decides whether a forked guest's drive has its write cache on: when QEMU (7.2,
// hw/ide/core.c, ide_drive_post_load) restores a drive it looks for the bit "write
// cache enabled" (bit 5 of word 85 of the identify data) in byte 85 instead, which
// holds this character. A capital letter lacks the bit, a small one has it.
func (d Disk) model() string {
	if d.WriteCache {
		return "POWERCUT emulated drive write cache on"
	}
	return "POWERCUT emulated drive write Cache off"
}

// check says what is wrong with the drive, if anything.
func (d Disk) check() error {
	if d.Second != "" && (d.Image != nil || d.Log != "" || d.Bus == NVMe) {
		return fmt.Errorf("attach disk: a second drive goes with neither an image, nor a log, nor %s", NVMe)
	}
	if d.Image != nil {
		return d.Image.check()
	}
	if d.Socket == "" {
		return fmt.Errorf("attach disk: no socket given")
	}
	if n := max(len(d.Socket), len(d.Second)); n > maxSocketPath {
		return fmt.Errorf("attach disk: socket path has %d bytes, the limit is %d; give it relative to the machine's folder", n, maxSocketPath)
	}
	if d.Bus != "" && !slices.Contains(Buses(), d.Bus) {
		return fmt.Errorf("attach disk: no bus %q; there are %s", d.Bus, strings.Join(names(Buses()), ", "))
	}
	return nil
}

// check says what is wrong with the image's description.
func (i Image) check() error {
	switch {
	case i.Limit <= 0:
		return fmt.Errorf("attach disk: no limit given for the image file")
	case i.Path == "":
		return fmt.Errorf("attach disk: no image file given")
	case i.Format != "raw" && i.Format != "qcow2":
		return fmt.Errorf("attach disk: no image format %q; there are raw and qcow2", i.Format)
	case i.AIO != "threads" && i.AIO != "native" && i.AIO != "io_uring":
		return fmt.Errorf("attach disk: no aio %q; there are threads, native and io_uring", i.AIO)
	}
	return nil
}

// names turns buses into plain strings.
func names(buses []Bus) []string {
	var out []string
	for _, b := range buses {
		out = append(out, string(b))
	}
	return out
}
