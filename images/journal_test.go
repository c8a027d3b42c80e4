package images

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// journalled are formats with an external journal.
var journalled = map[string]Format{
	"ext4":             {Type: "ext4", Size: 64 << 20, Journal: 16 << 20},
	"ext3":             {Type: "ext3", Size: 64 << 20, Journal: 4 << 20},
	"small blocks":     {Type: "ext4", Size: 64 << 20, Journal: 8 << 20, Options: []string{"-b", "1024"}},
	"without checksum": {Type: "ext4", Size: 64 << 20, Journal: 16 << 20, Options: []string{"-O", "^metadata_csum,^64bit"}},
}

// halves splits an image into its disks.
func halves(t *testing.T, f Format, path string) (fs, journal string) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	part := func(name string, from, size int64) string {
		out := filepath.Join(t.TempDir(), name)
		b := make([]byte, size)
		if _, err := in.ReadAt(b, from); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if err := os.WriteFile(out, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if info, err := in.Stat(); err != nil || info.Size() != f.Size+f.Journal {
		t.Fatalf("the image has %d bytes, %v", info.Size(), err)
	}
	return part("fs.img", 0, f.Size), part("journal.img", f.Size, f.Journal)
}

// TestExternalJournal: e2fsck is content with both disks, and each knows the other.
func TestExternalJournal(t *testing.T) {
	needMkfs(t)
	for name, f := range journalled {
		t.Run(name, func(t *testing.T) {
			fs, journal := halves(t, f, makeDisk(t, f))
			e2fs(t, "e2fsck", "-fn", "-j", journal, fs)
			out := e2fs(t, "dumpe2fs", "-h", journal)
			for _, want := range []string{"journal_dev", "Journal users:            " + diskUUID} {
				if !strings.Contains(out, want) {
					t.Errorf("the journal's disk lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestExternalJournalAsMke2fs: the two disks are, to the byte, those that mke2fs -J device=
// makes of a block device, but for its number, for how often it wrote, and for copies of
// the superblock.
func TestExternalJournalAsMke2fs(t *testing.T) {
	needMkfs(t)
	t.Setenv("E2FSPROGS_FAKE_TIME", diskTime)
	t.Setenv("SOURCE_DATE_EPOCH", diskTime)
	for name, f := range journalled {
		t.Run(name, func(t *testing.T) {
			fs, journal := halves(t, f, makeDisk(t, f))
			theirs, own := filepath.Join(t.TempDir(), "fs"), filepath.Join(t.TempDir(), "journal")
			if err := createSized(theirs, f.Size); err != nil {
				t.Fatal(err)
			}
			if err := createSized(own, f.Journal); err != nil {
				t.Fatal(err)
			}
			block := "4096"
			if len(f.Options) > 0 && f.Options[0] == "-b" {
				block = f.Options[1]
			}
			e2fs(t, "mkfs.ext4", "-t", f.Type, "-q", "-F", "-b", block, "-O", "journal_dev", "-U", journalUUID, "-L", diskLabel, "-E", "hash_seed="+diskHashSeed, own)
			loop, err := exec.Command("losetup", "-f", "--show", own).Output()
			if err != nil {
				t.Skipf("no loop device: %v", err)
			}
			dev := strings.TrimSpace(string(loop))
			defer func() {
				if out, err := exec.Command("losetup", "-d", dev).CombinedOutput(); err != nil {
					t.Errorf("losetup -d %s: %v %s", dev, err, out)
				}
			}()
			plain := f
			plain.Journal = 0
			args, err := plain.arguments()
			if err != nil {
				t.Fatal(err)
			}
			e2fs(t, "mkfs."+f.Type, append(args, "-J", "device="+dev, theirs)...)
			e2fs(t, "debugfs", "-w", "-R", "ssv journal_dev 0", theirs)
			for _, pair := range [][2]string{{fs, theirs}, {journal, own}} {
				if d := firstDifference(t, pair[0], pair[1]); d != "" {
					t.Errorf("%s: %s", filepath.Base(pair[1]), d)
				}
			}
		})
	}
}

// firstDifference says where two files differ.
func firstDifference(t *testing.T, a, b string) string {
	t.Helper()
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] && !isCopy(x[i&^1023:]) && !counting(i-1024) {
			return fmt.Sprintf("byte %#x is %#x, and %#x in that of mke2fs", i, x[i], y[i])
		}
	}
	if len(x) != len(y) {
		return fmt.Sprintf("%d bytes, and %d in that of mke2fs", len(x), len(y))
	}
	return ""
}

// counting tells whether a byte of a superblock is in s_kbytes_written, or in s_checksum,
// which changes with it.
func counting(at int) bool { return at >= 0x178 && at < 0x180 || at >= 0x3FC && at < 0x400 }

// isCopy tells whether a KiB is a copy of a superblock: s_magic and s_block_group_nr.
func isCopy(b []byte) bool { return b[0x38] == 0x53 && b[0x39] == 0xEF && b[0x5A] != 0 }
