package scenarios

import (
	"fmt"
	"slices"

	"powercut/harness/disk"
)

// CacheMode is a cache mode of QEMU: what stands between the guest and a drive
// with a volatile cache of its own (qemu-block-drivers(7), and the table of
// cache.writeback, cache.direct and cache.no-flush under -drive in qemu(1)).
type CacheMode string

// The cache modes.
const (
	Writeback    CacheMode = "writeback"    // the guest is told of a write cache and flushes it
	Uncached     CacheMode = "none"         // the same; QEMU bypasses the host's page cache
	Writethrough CacheMode = "writethrough" // the guest is told of none; QEMU marks each write FUA
	Directsync   CacheMode = "directsync"   // the same; QEMU bypasses the host's page cache
	Unsafe       CacheMode = "unsafe"       // the guest is told of a write cache; QEMU drops its flushes
)

// GuestCache tells whether the guest is told of a write cache, so that it sends
// flushes. Where it is not, QEMU marks each of its writes FUA.
func (m CacheMode) GuestCache() bool { return m != Writethrough && m != Directsync }

// Direct tells whether QEMU bypasses the host's page cache.
func (m CacheMode) Direct() bool { return m == Uncached || m == Directsync }

// NoFlush tells whether QEMU drops the guest's flushes.
func (m CacheMode) NoFlush() bool { return m == Unsafe }

// GuestCache is what the guest's kernel is made to take the drive's cache for, in
// the words of sysfs (queue/write_cache).
type GuestCache string

// The states of queue/write_cache.
const (
	GuestWriteThrough GuestCache = "write through" // it sends neither flush nor FUA
	GuestWriteBack    GuestCache = "write back"
)

// Switch is on or off, or empty where it is left alone.
type Switch string

// The positions of a Switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// Volatile tells whether the emulated drive holds writes back until they are
// flushed: without a cache mode that is what write-cache says; with one the drive
// has a volatile cache, and write-cache is what the guest is told.
func (d Drive) Volatile() bool { return d.WriteCache || d.Cache != "" }

// DropsFUA tells whether QEMU keeps from the drive the FUA of a guest that relies on
// it: its NVMe controller has none of it (7.2, hw/nvme/ctrl.c: no write looks at
// NVME_RW_FUA). The guest then takes for durable what is not; but for a drive that is
// said to ignore FUA, or flushes, anyway.
func (d Drive) DropsFUA() bool {
	said := slices.ContainsFunc(d.Faults, func(f Fault) bool { return f.Kind == disk.FUAIgnored || f.Kind == disk.CacheUnadvertised })
	return d.Bus == NVMe && d.WriteCache && !d.Cache.NoFlush() && !said
}

// checkDrive demands that the switches of cache and bus do not contradict.
func (s Scenario) checkDrive(d *decoder) error {
	v := s.Drive
	if v.Cache != "" && v.WriteCache != v.Cache.GuestCache() {
		return d.at("drive.write-cache").errorf("drive.write-cache: %s contradicts cache: %s, which tells the guest of %s; leave write-cache out, or choose among the modes %s",
			formatSwitch(v.WriteCache), v.Cache, cacheWord(v.Cache.GuestCache()), modesThat(v.WriteCache))
	}
	if s.Guest.HdparmW != "" && v.Bus != IDE && v.Bus != AHCI {
		return d.at("guest.hdparm-w").errorf("guest.hdparm-w: is an ATA command, and the bus %s has none; allowed with the buses %s and %s", v.Bus, IDE, AHCI)
	}
	return s.checkBackend(d)
}

func cacheWord(on bool) string {
	if on {
		return "a write cache"
	}
	return "no write cache"
}

// modesThat lists the cache modes by what they tell the guest.
func modesThat(guestCache bool) string {
	modes := slices.DeleteFunc([]CacheMode{Writeback, Uncached, Writethrough, Directsync, Unsafe},
		func(m CacheMode) bool { return m.GuestCache() != guestCache })
	text := string(modes[0])
	for i, m := range modes[1:] {
		sep := ", "
		if i == len(modes)-2 {
			sep = " and "
		}
		text += fmt.Sprint(sep, m)
	}
	return text
}
