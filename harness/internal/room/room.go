// Package room says, before work begins, whether the host has the memory and the disk
// space that it takes.
package room

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// margin is what is to be left of memory and of a file system, in bytes.
const margin = 32 << 20

// Memory fails where the host has not so many bytes to give without swapping
// (MemAvailable, proc_meminfo(5)). Where the kernel does not say it does not fail.
func Memory(need int64) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil
	}
	free, ok := available(string(text))
	if ok && free < need+margin {
		return fmt.Errorf("the host has %d MiB of memory to give, and this takes %d MiB", free>>20, (need+margin)>>20)
	}
	return nil
}

// available finds MemAvailable, in bytes.
func available(meminfo string) (int64, bool) {
	for line := range strings.Lines(meminfo) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, true
		}
	}
	return 0, false
}

// Disk fails where the file system of a folder has not so many bytes free for an
// ordinary user.
func Disk(folder string, need int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return &os.PathError{Op: "statfs", Path: folder, Err: err}
	}
	if free := int64(s.Bavail) * s.Bsize; free < need+margin {
		return fmt.Errorf("%s has %d MiB free, and this takes %d MiB", folder, free>>20, (need+margin)>>20)
	}
	return nil
}
