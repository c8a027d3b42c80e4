package qemu

import (
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
	SCSI      Bus = "scsi"
	VirtioBlk Bus = "virtio-blk"
	NVMe      Bus = "nvme"
)

// Buses lists them all.
func Buses() []Bus { return []Bus{IDE, AHCI, SCSI, VirtioBlk, NVMe} }

// maxSocketPath is the longest path of a unix socket: sun_path holds 108 bytes
// with the closing zero (unix(7)).
const maxSocketPath = 107

// Disk is a drive whose blocks come from an NBD server on a unix socket, or from a
// file.
type Disk struct {
	Socket     string // relative to the machine's folder, or absolute; at most 107 bytes
	File       string // in its place: a raw image, absolute or relative to the machine's folder
	Export     string // name of the NBD export; mostly empty
	Bus        Bus    // empty: IDE
	WriteCache bool   // whether the drive tells the guest of a volatile write cache
}

// Args attach the drive. QEMU adds no cache of its own and passes every flush
// on (cache.no-flush=off), passes trims on, and reports errors to the guest
// where a bus lets it be told to (NVMe always does).
func (d Disk) Args() []string {
	back := "driver=nbd,node-name=disk,server.type=unix,server.path=" + escape(d.Socket)
	if d.File != "" {
		back = "driver=file,node-name=disk,filename=" + escape(d.File)
	}
	if d.Export != "" {
		back += ",export=" + escape(d.Export)
	}
	back += ",discard=unmap,cache.direct=off,cache.no-flush=off"
	return append([]string{"-blockdev", back}, d.front()...)
}

// Params are none.
func (Disk) Params() []string { return nil }

// front is the guest's side of the drive, with the controller where the board
// has none.
func (d Disk) front() []string {
	opts := "drive=disk,write-cache=" + onOff(d.WriteCache)
	report := ",werror=report,rerror=report"
	model := ",model=" + d.model()
	switch d.Bus {
	case AHCI:
		return []string{"-device", "ahci,id=ahci", "-device", "ide-hd,bus=ahci.0," + opts + report + model}
	case SCSI:
		return []string{"-device", "virtio-scsi-pci,id=scsi", "-device", "scsi-hd,bus=scsi.0," + opts + report}
	case VirtioBlk:
		return []string{"-device", "virtio-blk-pci," + opts + report}
	case NVMe:
		return []string{"-device", "nvme,serial=powercut," + opts}
	default:
		return []string{"-device", "ide-hd,bus=ide.0,unit=0," + opts + report + model}
	}
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
	if d.Socket == "" && d.File == "" {
		return fmt.Errorf("attach disk: no socket given, and no file")
	}
	if len(d.Socket) > maxSocketPath {
		return fmt.Errorf("attach disk: socket path has %d bytes, the limit is %d; give it relative to the machine's folder",
			len(d.Socket), maxSocketPath)
	}
	if d.Bus != "" && !slices.Contains(Buses(), d.Bus) {
		return fmt.Errorf("attach disk: no bus %q; there are %s", d.Bus, strings.Join(names(Buses()), ", "))
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
