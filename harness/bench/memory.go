package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"powercut/harness/disk"
)

// The bound of the harness's memory: memoryBase + memoryShare × bytes written.
const (
	memoryBase  = 64 << 20
	memoryShare = 1.5
)

// driveSize is the size of the drive that is written to, in bytes: smaller than
// what is written, so that much is overwritten.
const driveSize = 384 << 20

// freeReserve is left free on the file system of the block log, in bytes.
const freeReserve = 512 << 20

// writeLimit bounds one measurement, from the start of the child to its end.
const writeLimit = 10 * time.Minute

// pattern is a sequence of writes.
type pattern struct {
	name, text string
	bytes      int64 // in all
	lengths    []int // of writes, each as likely; multiples of a sector
	drive      int64 // size of the drive, in bytes
	judge      bool  // do all that a run does with the log
}

// memory measures the peak memory of a harness that serves and records a drive
// and then builds a crash state of the log: once with writes as file systems send
// them, and once with single sectors, which cost most per byte.
func (r *rig) memory(ctx context.Context) ([]Figure, error) {
	var out []Figure
	for _, p := range []pattern{
		{name: MixedFigure, text: "harness memory, writes of ½ to 256 KiB", bytes: r.effort.mixed, lengths: mixedLengths(), drive: driveSize},
		{name: SmallFigure, text: "harness memory, writes of one sector", bytes: r.effort.small, lengths: []int{disk.SectorSize}, drive: driveSize},
	} {
		f, err := r.memoryOf(ctx, p)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// mixedLengths are those of writes as file systems send them.
func mixedLengths() []int { return []int{512, 4 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10} }

func (r *rig) memoryOf(ctx context.Context, p pattern) (Figure, error) {
	var err error
	if p.bytes, err = affordable(r.folder, p.bytes); err != nil {
		return Figure{}, err
	}
	peak, err := r.peak(ctx, p)
	if err != nil {
		return Figure{}, err
	}
	const mib = 1 << 20
	most := float64(max(peak.Recording, peak.Building))
	part := func(name string, bytes int64) Part {
		return Part{Name: name, Value: float64(bytes) / mib, Unit: MiB, Samples: 1}
	}
	return Figure{
		Name: p.name, Text: p.text, Unit: MiB, Value: most / mib,
		Parts: []Part{
			part("written", p.bytes), part("while recording", peak.Recording), part("with a crash state", peak.Building),
			{Name: "peak per byte written", Value: most / float64(p.bytes), Unit: Times, Samples: 1},
		},
	}.atMost((memoryBase + memoryShare*float64(p.bytes)) / mib), nil
}

// affordable cuts bytes down to what the file system of dir has room for: a log
// takes up to 1.4 times what is written.
func affordable(dir string, bytes int64) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("find free space: %w", err)
	}
	room := (int64(s.Bavail)*s.Bsize - freeReserve) * 2 / 3
	if room < 1<<20 {
		return 0, fmt.Errorf("measure memory: less than %d MiB are free in %s; free some space there", freeReserve>>20, dir)
	}
	return min(bytes, room), nil
}

// peak runs the harness's part in a child and is its client.
func (r *rig) peak(ctx context.Context, p pattern) (_ peaks, err error) {
	dir, err := os.MkdirTemp(r.folder, "memory-")
	if err != nil {
		return peaks{}, fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	near, far, err := socketPair()
	if err != nil {
		return peaks{}, err
	}
	defer near.Close()
	var out bytes.Buffer
	cmd := exec.Command(r.options.Binary, "bench", "--serve", dir, "--serve-size", strconv.FormatInt(p.drive, 10),
		"--serve-judge="+strconv.FormatBool(p.judge))
	cmd.ExtraFiles = []*os.File{far} // descriptor ServeDescriptor
	cmd.Stdout = &out
	c, err := startChild(cmd)
	far.Close() // the child has its own; ours would hide its death
	if err != nil {
		return peaks{}, err
	}
	defer func() { err = errors.Join(err, c.kill()) }()
	if err := r.writeAll(ctx, near, p); err != nil {
		return peaks{}, c.explain(err)
	}
	if err := c.wait(ctx, writeLimit); err != nil {
		return peaks{}, err
	}
	var found peaks
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return peaks{}, fmt.Errorf("read the child's answer: %w", err)
	}
	return found, nil
}

// writeAll writes the pattern at random places, with a flush now and then. The
// same pattern gives the same writes.
func (r *rig) writeAll(ctx context.Context, conn net.Conn, p pattern) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(writeLimit)); err != nil {
		return fmt.Errorf("write to the drive: %w", err)
	}
	c, err := dial(conn)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	r.options.Progress.Stage(p.text, int(p.bytes>>20))
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 512<<10)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for n, done := 0, int64(0); done < p.bytes; n++ {
		length := p.lengths[random.IntN(len(p.lengths))]
		from := random.IntN(len(data) - length + 1)
		at := random.Int64N((c.size-int64(length))/disk.SectorSize+1) * disk.SectorSize
		if err := c.write(data[from:from+length], at); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if n%64 == 63 {
			if err := c.flush(); err != nil {
				return errors.Join(ctx.Err(), err)
			}
		}
		done += int64(length)
		r.options.Progress.Set(int(done >> 20))
	}
	return errors.Join(ctx.Err(), c.leave())
}

// LongRunFigure is the figure of PartMemory.
const LongRunFigure = "memory-long-run"

// longRunBound is the most memory that a long run may take, in bytes: a bound that does
// not grow with what is written.
const longRunBound = 300 << 20

// longRunDrive is the size of the drive of a long run, in bytes.
const longRunDrive = 8 << 30

// longRun measures the peak memory of a harness that records a drive of 8 GiB, and then
// opens the log, builds a crash state, makes a trace, compresses the log and reads that.
func (r *rig) longRun(ctx context.Context, written int64) ([]Figure, error) {
	p := pattern{
		name: LongRunFigure, text: "harness memory, a long run on a drive of 8 GiB",
		bytes: written, lengths: mixedLengths(), drive: longRunDrive, judge: true,
	}
	room, err := affordable(r.folder, p.bytes)
	if err != nil {
		return nil, err
	}
	f := Figure{Name: p.name, Text: p.text, Unit: MiB, Parts: []Part{}}.atMost(longRunBound >> 20)
	if room < p.bytes {
		f.Held, f.Skipped = false, fmt.Sprintf("%d MiB would have to be free in %s", p.bytes>>20*3/2+freeReserve>>20, r.folder)
		return []Figure{f}, nil
	}
	peak, err := r.peak(ctx, p)
	if err != nil {
		return nil, err
	}
	part := func(name string, value float64, unit string) Part {
		return Part{Name: name, Value: value, Unit: unit, Samples: 1}
	}
	f.Value = float64(peak.Judging) / (1 << 20)
	f.Parts = []Part{
		part("written", float64(p.bytes)/(1<<20), MiB), part("requests", float64(peak.Requests), Count),
		part("while recording", float64(peak.Recording)/(1<<20), MiB), part("with a crash state", float64(peak.Building)/(1<<20), MiB),
		part("log, compressed", float64(peak.Compressed)/(1<<20), MiB),
	}
	return []Figure{f.atMost(longRunBound >> 20)}, nil
}
