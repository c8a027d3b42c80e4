package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"powercut/harness/disk"
)

// DriveSize is that of the emulated drive in bytes: of the file system's disk, and behind
// it that of an external journal, if there is one.
func (f Filesystem) DriveSize() int64 { return int64(f.Size + f.ExternalJournal) }

// checkJournal refuses with an external journal what its disk cannot have.
func (s Scenario) checkJournal(d *decoder) error {
	if s.Filesystem.ExternalJournal == 0 {
		return nil
	}
	at := d.at("filesystem.external-journal")
	switch {
	case s.Filesystem.Type != Ext3 && s.Filesystem.Type != Ext4:
		return at.errorf("filesystem.external-journal: %s has none; allowed with it: ext3, ext4", s.Filesystem.Type)
	case s.Filesystem.ExternalJournal%diskUnit != 0:
		return at.errorf("filesystem.external-journal: %s is not a multiple of %s", s.Filesystem.ExternalJournal, diskUnit)
	case s.Drive.Backend != NBD:
		return at.errorf("filesystem.external-journal: its disk is an emulated one; allowed with it: drive.backend nbd")
	case s.Drive.Bus == NVMe:
		return at.errorf("filesystem.external-journal: a guest is given one nvme drive; allowed with it: drive.bus ide, ahci, scsi-hd, virtio-blk")
	case s.Drive.Timing.Profile.Kind() != Untimed:
		return at.errorf("filesystem.external-journal: drive.timing is that of one disk, and there are two; allowed with it: none")
	}
	if s.Cut.Position == 2 || s.Cut.Position == 3 { // see Cut.Position
		return d.at("cut.position").errorf("cut.position: before 4 is QEMU's own look at the two disks of filesystem.external-journal, without which no guest starts; allowed: from 4")
	}
	if err := s.checkJournalOptions(d); err != nil {
		return err
	}
	for i, f := range s.Drive.Faults {
		if one := []disk.FaultKind{disk.BoundedCache, disk.Destaging, disk.FlushLate, disk.Stalling}; slices.Contains(one, f.Kind) {
			return d.at(fmt.Sprintf("drive.faults.%d", i)).errorf("drive.faults: %q is about one disk, and filesystem.external-journal adds a second; leave one of them out", f)
		}
	}
	return nil
}

// checkJournalOptions keeps mkfs and mount from placing the journal.
func (s Scenario) checkJournalOptions(d *decoder) error {
	for i, word := range s.Filesystem.Mkfs {
		if strings.HasPrefix(word, "-J") || strings.Contains(word, "has_journal") || strings.Contains(word, "journal_dev") {
			return d.at(fmt.Sprintf("filesystem.mkfs.%d", i)).errorf("filesystem.mkfs: %q is about a journal, which filesystem.external-journal places; leave one of them out", word)
		}
	}
	for _, f := range [][2]string{{"filesystem.mount", s.Filesystem.Mount}, {"filesystem.recovery-mount", s.Filesystem.Recovery}} {
		if strings.Contains(f[1], "journal_dev=") || strings.Contains(f[1], "journal_path=") {
			return d.at(f[0]).errorf("%s: where the journal is, the guest finds out; leave journal_dev and journal_path out", f[0])
		}
	}
	return nil
}
