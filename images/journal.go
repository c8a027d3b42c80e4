package images

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// journalUUID names the disk of an external journal.
const journalUUID = "70c0e2a4-6f1d-4d0b-9d5c-0d15c0ffee03"

// Places in the superblock of a journal (include/linux/jbd2.h, journal_superblock_s), big
// endian: the users of an external one are the UUIDs of their file systems.
const (
	journalMagic   = "\xC0\x3B\x39\x98"
	journalUsers   = 0x40 // s_nr_users
	journalUserIDs = 0x100
)

// addJournal makes the disk of an external journal, and appends it to the disk at path,
// which holds a file system without a journal, and makes that one its user.
//
// mke2fs -J device= would do that with a block device and nothing else
// (ext2fs_add_journal_device of lib/ext2fs/mkjournal.c): it notes the UUID of each in the
// superblock of the other, and gives the file system the feature has_journal. Here debugfs
// does the file system's half, and its result is the same to the byte, but for the copies
// of the superblock, which it leaves alone.
func (f Format) addJournal(ctx context.Context, mkfs, path string) error {
	kind, err := familyOf(f.Type)
	if err != nil {
		return err
	}
	super, err := readSuper(path)
	if err != nil {
		return err
	}
	own := path + ".journal"
	defer os.Remove(own)
	if err := createSized(own, f.Journal); err != nil {
		return err
	}
	args := []string{"-t", f.Type, "-q", "-F", "-b", strconv.FormatInt(super.block, 10), "-O", "journal_dev", "-U", journalUUID, "-L", diskLabel, "-E", "hash_seed=" + diskHashSeed, own}
	if err := runFixed(ctx, mkfs, args...); err != nil {
		return err
	}
	if err := super.useJournal(own); err != nil {
		return err
	}
	debugfs, err := kind.findTool("debugfs")
	if err != nil {
		return err
	}
	for _, request := range []string{"feature has_journal", "ssv journal_uuid " + journalUUID} {
		if err := runFixed(ctx, debugfs, "-w", "-R", request, path); err != nil {
			return err
		}
	}
	return appendFile(path, f.Size, own)
}

// checkExternal demands that the file system knows its external journal, and has no other:
// debugfs ends with success whatever becomes of a request.
func checkExternal(disk io.ReaderAt) error {
	var found [20]byte // s_journal_uuid and s_journal_inum
	if _, err := disk.ReadAt(found[:], 1024+0xD0); err != nil {
		return fmt.Errorf("read superblock: %w", err)
	}
	want, err := hex.DecodeString(strings.ReplaceAll(journalUUID, "-", "") + "00000000")
	if err == nil && string(found[:]) != string(want) {
		err = fmt.Errorf("the file system has the journal %x, inode %x, and was to have %s", found[:16], found[16:], journalUUID)
	}
	return err
}

// superOf is what an external journal and its file system must know of that one.
type superOf struct {
	block int64  // size of a block, bytes
	uuid  []byte // s_uuid
}

// readSuper reads the superblock of the file system on the disk at path.
func readSuper(path string) (s superOf, err error) {
	disk, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer disk.Close() //nolint:errcheck // read only
	var super [1024]byte
	if _, err := disk.ReadAt(super[:], 1024); err != nil {
		return s, fmt.Errorf("read superblock: %w", err)
	}
	return superOf{block: 1024 << super[0x18], uuid: super[0x68:][:16]}, nil
}

// useJournal makes the file system the one user of the new journal at path. The journal's
// superblock stands in the block behind that of its disk (ext2fs_journal_sb_start).
func (s superOf) useJournal(path string) error {
	disk, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	at := max(s.block, 2048)
	magic := make([]byte, 4)
	_, err = disk.ReadAt(magic, at)
	if err == nil && string(magic) != journalMagic {
		err = errors.New("mkfs made no journal there: check the options")
	}
	if err == nil {
		_, err = disk.WriteAt([]byte{0, 0, 0, 1}, at+journalUsers)
	}
	if err == nil {
		_, err = disk.WriteAt(s.uuid, at+journalUserIDs)
	}
	if err = errors.Join(err, disk.Close()); err != nil {
		return fmt.Errorf("note the journal's user: %w", err)
	}
	return nil
}

// appendFile copies a file, but for its zeros, to a place at the end of another.
func appendFile(path string, at int64, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only
	out, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := out.Truncate(at + info.Size()); err != nil {
		return err
	}
	buf, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && !bytes.Equal(buf[:n], zeros[:n]) {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", filepath.Base(from), err)
		}
	}
}
