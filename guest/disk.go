package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/guest/wire"
	"powercut/guest/workload"
)

// mountPoint is where the file system under test is mounted.
const mountPoint = "/mnt"

// awaitDrive waits for so many disks: SCSI disks are probed in the background. What they
// hold is not known yet, so that the first of them stands for all.
func (a *agent) awaitDrive(disks int) error {
	list, err := awaitDisks(disks)
	if err != nil {
		return &stageError{"find the drive", err}
	}
	out, err := driveState(list[0])
	if err != nil {
		return &stageError{"find the drive", err}
	}
	return wire.Send(a.port, wire.AwaitDrive, out)
}

// record mounts the disk and runs a workload on it.
func (a *agent) record(w wire.Workload) error {
	if w.Repeated {
		a.hurry()
		if a.hasLedger {
			a.ledger.Clear()
		}
	}
	if err := switchCache(w.Cache); err != nil {
		return &stageError{"switch the write cache", err}
	}
	if err := switchQueue(w.Queue); err != nil {
		return &stageError{"set up the request queue", err}
	}
	if err := mount(w.Mount); err != nil {
		return &stageError{"mount", err}
	}
	dev, err := theDrive()
	if err != nil {
		return &stageError{"find the drive", err}
	}
	state, err := driveState(dev)
	if err == nil {
		err = wire.Send(a.port, wire.Mounted, state)
	}
	if err != nil {
		return err
	}
	var j interface {
		Start(uint64)
		Publish(ledger.Record)
	} = a.ledger
	s := &serialLedger{port: a}
	if w.Serial || !a.hasLedger {
		j = s
	}
	if err := w.Load.Prepare(mountPoint); err != nil {
		return &stageError{"workload", err}
	}
	stop := func() {}
	begun := time.Now()
	settle := func() error {
		err := flushDrive()
		stop = w.Load.Begin(mountPoint)
		return err
	}
	switch world := (ops.World{Dir: mountPoint, Remount: remounter(w.Mount)}); len(w.Ops) {
	case 0:
		err = w.Plan.Run(mountPoint, j, settle)
	case 1:
		err = w.Ops[0].Run(world, j, settle)
	default:
		err = ops.RunTogether(w.Ops, world, j, settle)
	}
	stop()
	elapsed := time.Since(begun)
	if err = errors.Join(err, s.err); err != nil {
		return &stageError{"workload", err}
	}
	if w.Repeated {
		if err := unix.Unmount(mountPoint, 0); err != nil {
			return &stageError{"unmount", err}
		}
	}
	out := wire.Outcome{Records: s.records, Elapsed: int64(elapsed)}
	if j != s {
		out.Records = a.ledger.Published()
	}
	return wire.Send(a.port, wire.RecordDone, out)
}

// serialLedger sends records over the control channel: slower, and what is still
// in the channel when the guest dies is lost.
type serialLedger struct {
	port    *agent
	records uint64
	err     error // the first that occurred
}

func (s *serialLedger) Start(op uint64) {
	s.keep(wire.Send(s.port.port, wire.Begun, wire.Start{Op: op}))
}

func (s *serialLedger) Publish(r ledger.Record) {
	s.records++
	s.keep(wire.Send(s.port.port, wire.Ack, wire.Acked{Record: r}))
}

func (s *serialLedger) keep(err error) {
	if s.err == nil {
		s.err = err
	}
}

// recover checks and mounts the disk, and sends the file's content.
func (a *agent) recover(r wire.Recovery) error {
	a.hurry()
	if r.Cache != a.cache {
		if err := switchCache(r.Cache); err != nil {
			return &stageError{"switch the write cache", err}
		}
		a.cache = r.Cache
	}
	var out wire.Survivor
	stage, err := a.readBack(r, &out)
	if err != nil {
		out.Stage, out.Error = stage, err.Error()
	}
	return wire.Send(a.port, wire.Recovered, out)
}

// hurry makes the kernel's waits for readers of what it frees (RCU grace periods) short,
// once: mount and unmount wait for several, of some milliseconds each, and a recovery
// says nothing about them (rcu_expedited, Documentation/RCU/checklist.rst).
func (a *agent) hurry() {
	if !a.hurried {
		a.hurried = true
		_ = os.WriteFile("/sys/kernel/rcu_expedited", []byte("1"), 0) // slower without
	}
}

// readBack reads the file of r.
func (a *agent) readBack(r wire.Recovery, out *wire.Survivor) (stage string, err error) {
	if r.Watch {
		a.watch.begin(r.Mount.Type)
		defer func() { out.Watched = a.watch.end() }()
	}
	return visit(r.Mount, out, func() error { return a.sendFile(filepath.Join(mountPoint, r.Path), r, out) })
}

// visit checks and mounts the disk, lets read look at it, and unmounts it; out says
// how long that took.
func visit(m wire.Mount, out *wire.Survivor, read func() error) (stage string, err error) {
	if m.Check {
		begun := time.Now()
		out.Fsck, err = fsck(m.Type)
		out.FsckTime = int64(time.Since(begun))
		if err != nil {
			return "fsck", err
		}
	}
	begun := time.Now()
	if err := mount(m); err != nil {
		return "mount", err
	}
	out.MountTime = int64(time.Since(begun))
	var fs unix.Statfs_t
	if err := unix.Statfs(mountPoint, &fs); err != nil {
		return "read", fmt.Errorf("statfs: %w", err)
	}
	out.BlockSize = fs.Bsize
	begun = time.Now()
	err = read()
	out.ReadTime = int64(time.Since(begun))
	if err != nil {
		return "read", err
	}
	if err := unix.Unmount(mountPoint, 0); err != nil {
		return "unmount", fmt.Errorf("unmount: %w", err)
	}
	return "", nil
}

func (a *agent) sendFile(path string, r wire.Recovery, out *wire.Survivor) error {
	// Without O_NOATIME the file system had a time of access to write, and a journal to commit.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOATIME, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if r.Watch {
		a.watch.locate(f)
	}
	out.Exists = true
	info, err := f.Stat()
	if err != nil {
		return err
	}
	out.Size = info.Size()
	var n int64
	switch {
	case len(r.Blocks) > 0:
		return a.sendBlocks(f, r)
	case r.Block > 0:
		n, err = a.sendDigests(io.LimitReader(&eager{File: f}, r.Limit), r.Block)
	default:
		n, err = sendContent(a.port, io.LimitReader(f, r.Limit))
	}
	if err == nil && n != min(out.Size, r.Limit) {
		err = fmt.Errorf("read %s: it ends after %d bytes, its size is %d", filepath.Base(path), n, out.Size)
	}
	return err
}

// readSize is how much of a file is read at a time where it is digested, in bytes:
// the largest readahead of a block device, by default.
const readSize = 128 << 10

// ahead is how much of a file the kernel is asked to read before it is wanted, in bytes:
// about the largest request of a drive. Its own readahead makes requests of 128 KiB.
const ahead = 1 << 20

// eager is a file that is read from its beginning on, and ahead.
type eager struct {
	*os.File
	at, asked int64
}

// Read implements io.Reader.
func (e *eager) Read(p []byte) (int, error) {
	for e.asked < e.at+int64(len(p))+ahead {
		_ = unix.Fadvise(int(e.Fd()), e.asked, ahead, unix.FADV_WILLNEED) // slower without
		e.asked += ahead
	}
	n, err := e.File.Read(p)
	e.at += int64(n)
	return n, err
}

// sendDigests sends the digests of r's blocks, and returns the bytes read.
func (a *agent) sendDigests(r io.Reader, block int64) (n int64, err error) {
	if block < 1 || block > readSize {
		return 0, fmt.Errorf("digest blocks of %d bytes: at most %d are possible", block, readSize)
	}
	buf := make([]byte, readSize/block*block)
	var out []byte
	for {
		k, err := io.ReadFull(r, buf)
		n += int64(k)
		for b := buf[:k]; len(b) > 0; b = b[min(block, int64(len(b))):] {
			out = binary.LittleEndian.AppendUint64(out, workload.Digest(b[:min(block, int64(len(b)))]))
		}
		ended := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !ended {
			return n, err
		}
		if len(out) > 0 && (ended || len(out)+readSize > wire.MaxPayload) {
			if err := wire.Write(a.port, wire.Frame{Type: wire.Digests, Payload: out}); err != nil {
				return n, err
			}
			out = out[:0]
		}
		if ended {
			return n, nil
		}
	}
}

// sendBlocks sends the content of some blocks of a file, each for itself; of one
// that begins behind the file's end nothing.
func (a *agent) sendBlocks(f *os.File, r wire.Recovery) error {
	for _, n := range r.Blocks {
		if _, err := sendContent(a.port, io.NewSectionReader(f, n*r.Block, r.Block)); err != nil {
			return err
		}
	}
	return nil
}

// mount drops what the kernel has cached of the device (a forked guest may have
// seen another disk) and mounts it, with its journal where that is on another disk.
func mount(m wire.Mount) error {
	d, err := freshDisks()
	if err != nil {
		return err
	}
	dev := d.drive
	if err := os.MkdirAll(mountPoint, 0o755); err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	if m.Type == "btrfs" {
		if err := forgetBtrfs(); err != nil {
			return err
		}
	}
	flags, data := mountFlags(m.Options)
	if d.journal != "" {
		data = strings.TrimPrefix(data+",journal_path="+d.journal, ",")
	}
	if err := unix.Mount(dev, mountPoint, m.Type, flags, data); err != nil {
		return fmt.Errorf("mount -t %s -o %q %s: %w", m.Type, m.Options, dev, err)
	}
	return nil
}

// forgetDevices is the ioctl BTRFS_IOC_FORGET_DEV (linux/btrfs.h): its argument, a
// struct of 4096 bytes, names a device, or with an empty name all that are not mounted.
const forgetDevices = 0x50009405

// forgetBtrfs makes the btrfs driver forget the devices that it has seen: what it
// remembers of a drive is another drive's, once the harness has changed the media.
func forgetBtrfs() error {
	f, err := os.Open("/dev/btrfs-control")
	if err != nil {
		return fmt.Errorf("make btrfs forget devices: %w", err)
	}
	defer f.Close()
	var all [4096]byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), forgetDevices, uintptr(unsafe.Pointer(&all))); errno != 0 {
		return fmt.Errorf("make btrfs forget devices: %w", errno)
	}
	return nil
}

// flushDrive empties the write cache of each disk, whatever the mount options say of
// barriers, so that a workload starts from what is on the media: fsync(2) of a
// block device sends a flush.
func flushDrive() error {
	d, err := theDisks()
	if err != nil {
		return err
	}
	return d.each(func(dev string) error {
		f, err := os.Open(dev)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// flagOptions are the options of mount(8) that mount(2) takes as flags.
var flagOptions = map[string]uintptr{
	"ro": unix.MS_RDONLY, "sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME, "lazytime": unix.MS_LAZYTIME,
	"nodev": unix.MS_NODEV, "nosuid": unix.MS_NOSUID, "noexec": unix.MS_NOEXEC,
	"rw": 0, "defaults": 0,
}

// mountFlags splits options as mount -o takes them into flags and the rest, which
// is for the file system.
func mountFlags(options string) (flags uintptr, data string) {
	var rest []string
	for o := range strings.SplitSeq(options, ",") {
		if f, ok := flagOptions[o]; ok {
			flags |= f
		} else if o != "" {
			rest = append(rest, o)
		}
	}
	return flags, strings.Join(rest, ",")
}

// checkers are the commands that check file systems as at boot, but never stop to ask;
// that of the ext family has no name here.
var checkers = map[string][]string{
	"":    {"/sbin/e2fsck", "-f", "-y"},
	"jfs": {"/sbin/jfs_fsck", "-a"},
}

// fsck runs the checker for a type of file system. Its exit codes 1 and 2 mean that
// errors were corrected (fsck(8)).
func fsck(kind string) (output string, err error) {
	d, err := freshDisks()
	if err != nil {
		return "", err
	}
	command, ok := checkers[kind]
	if !ok {
		command = checkers[""]
	}
	out, err := exec.Command(command[0], append(slices.Clip(command[1:]), d.drive)...).CombinedOutput()
	out = bytes.TrimSpace(out)
	if n := len(out); n > 4096 {
		out = out[n-4096:]
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode()&^3 == 0 && exit.ExitCode() > 0 {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return string(out), err
}

// measure publishes ledger records of no op and answers how long they took.
func (a *agent) measure(m wire.Measurement) error {
	if !a.hasLedger {
		return &stageError{"measure", errors.New("this guest has no ledger in memory")}
	}
	begun := time.Now()
	for range m.Rounds {
		a.ledger.Publish(ledger.Record{Synced: true})
	}
	m.Elapsed = int64(time.Since(begun))
	return wire.Send(a.port, wire.Measure, m)
}
