package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// disks are the machine's, such as /dev/sda: that of the file system, and that of its
// journal, or empty.
type disks struct{ drive, journal string }

// each calls do for one after the other.
func (d disks) each(do func(dev string) error) error {
	err := do(d.drive)
	if err == nil && d.journal != "" {
		err = do(d.journal)
	}
	return err
}

// findDisks lists the disks that are ready.
func findDisks() (list []string) {
	for _, pattern := range []string{"sd?", "vd?", "hd?", "nvme?n1"} {
		files, _ := filepath.Glob("/sys/block/" + pattern)
		for _, f := range files {
			dev := "/dev/" + filepath.Base(f)
			size, err := os.ReadFile(f + "/size")
			if err != nil || strings.TrimSpace(string(size)) == "0" {
				continue
			}
			// The node is there some time before it can be opened (ENXIO).
			if fd, err := unix.Open(dev, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
				unix.Close(fd)
				list = append(list, dev)
			}
		}
	}
	return list
}

// awaitDisks is findDisks for so many that may just have been plugged in.
func awaitDisks(n int) (list []string, err error) {
	if waitUntil(func() bool { list = findDisks(); return len(list) >= n }) {
		return list, nil
	}
	return nil, fmt.Errorf("the guest has found %d disks of %d within %v", len(list), n, deviceDeadline)
}

// theDisks tells the disks apart by what they hold. All were there when the guest had
// booted, but for one that is plugged in later and alone.
func theDisks() (disks, error) {
	list, err := awaitDisks(1)
	if err != nil {
		return disks{}, err
	}
	return tellApart(list)
}

func tellApart(list []string) (d disks, err error) {
	if len(list) == 1 {
		return disks{drive: list[0]}, nil
	}
	for _, dev := range list {
		holds, err := holdsJournal(dev)
		switch {
		case err != nil:
			return d, err
		case holds && d.journal == "":
			d.journal = dev
		case !holds && d.drive == "":
			d.drive = dev
		default:
			return d, fmt.Errorf("of the disks %s not one is that of an external journal, and another that of its file system", strings.Join(list, ", "))
		}
	}
	return d, nil
}

// theDrive is the disk of the file system.
func theDrive() (string, error) {
	d, err := theDisks()
	return d.drive, err
}

// freshDisks are the disks, with all cached blocks of them forgotten. Nothing is mounted.
func freshDisks() (disks, error) {
	list, err := awaitDisks(1)
	if err != nil {
		return disks{}, err
	}
	for _, dev := range list {
		if err := forget(dev); err != nil {
			return disks{}, err
		}
	}
	return tellApart(list)
}

// forget drops what the kernel has cached of a disk (BLKFLSBUF, linux/fs.h).
func forget(dev string) error {
	fd, err := unix.Open(dev, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dev, err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("drop cached blocks of %s: %w", dev, err)
	}
	return nil
}

// holdsJournal tells whether a disk is that of an external journal: it then begins with a
// superblock of the ext family that has the feature journal_dev, which nobody ever writes.
// Where the disk is mounted the superblock is in memory, and is not read from the drive.
func holdsJournal(dev string) (bool, error) {
	f, err := os.Open(dev)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var super [0x64]byte
	if _, err := f.ReadAt(super[:], 1024); err != nil {
		return false, errors.Join(fmt.Errorf("read the superblock of %s", dev), err)
	}
	const magic, journalDev = 0xEF53, 0x8 // s_magic, EXT3_FEATURE_INCOMPAT_JOURNAL_DEV in s_feature_incompat
	le := binary.LittleEndian
	return le.Uint16(super[0x38:]) == magic && le.Uint32(super[0x60:])&journalDev != 0, nil
}
