package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"powercut/guest/wire"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// A guest that takes longer for the recovery of one state hangs: more than checkLimit, and for
// each byte of the file what it takes at slowest.
const (
	checkLimit = 60 * time.Second
	slowest    = 2 << 20 // bytes a second
)

// limit bounds one request to the guest.
func (c *checker) limit() time.Duration {
	return checkLimit + time.Duration(c.subject.Call.Plan.ReadLimit()/slowest)*time.Second
}

// outcome is what recovery made of a state: all that a verdict depends on beside the
// history.
type outcome struct {
	recovery verdict.Recovery
	tree     *promise.Found // of a workload of ops, of which there is no file; nil for others
	treeKey  uint64         // names it
	exists   bool
	size     int64 // of the file
	rounding int64 // see verdict.Survivors
	file     file
	key      uint64 // names all of that
	// needed holds the sectors of the state that the outcome depends on, of those that the
	// log changes, ascending: what recovery and read-back looked at, but for the plain blocks
	// of the file.
	needed []crash.Row
	hash   uint64 // of these in the state that was checked
	plain  []plain
	// second is what the file system's own checker says against the recovered state, and
	// only against that: it looks at more than recovery does.
	second string
	others map[uint64]*outcome // with other bytes in plain blocks: see exploration.fit
	blind  string              // why needed is all that was read, where it is
	// Time of the guest for each phase, and from the state's being put in to the
	// answer.
	times phases
}

// phases are where the time of checks went.
type phases struct {
	Fsck  time.Duration
	Mount time.Duration
	Read  time.Duration
	Total time.Duration // of the harness's clock, all else included
}

func (p *phases) add(o phases) {
	p.Fsck += o.Fsck
	p.Mount += o.Mount
	p.Read += o.Read
	p.Total += o.Total
}

// checker is a forked guest that recovers one state after another.
type checker struct {
	subject  *Subject
	folder   string // for the guest; emptied with each fork
	builder  *crash.Builder
	changed  func(offset, length int64) []crash.Row // see crash.Hasher
	journal  journal
	contents *contents
	trees    *trees
	fsck     *fsck // nil: nobody is asked for a second opinion

	drive *drive
	guest *machine.Guest
	said  int64 // bytes of the console that belong to states before
	forks int
}

// close ends the guest.
func (c *checker) close() error {
	if c.guest == nil {
		return nil
	}
	err := c.guest.Close()
	c.guest = nil
	return err
}

// renew replaces the guest by a fresh fork.
func (c *checker) renew(ctx context.Context) error {
	if err := c.close(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(c.folder), os.MkdirAll(c.folder, 0o700)); err != nil {
		return fmt.Errorf("make folder of a checker: %w", err)
	}
	c.drive = newDrive(c.subject.Call.Log.Size)
	g, err := c.subject.Machine.Fork(ctx, c.folder, c.drive)
	if err != nil {
		return err
	}
	c.guest, c.said = g, 0
	c.forks++
	return nil
}

// check recovers a state and reads the file back. What goes wrong in the guest is an
// outcome; the guest is then replaced before the next state.
func (c *checker) check(ctx context.Context, s crash.State) (*outcome, error) {
	if c.guest == nil {
		if err := c.renew(ctx); err != nil {
			return nil, err
		}
	}
	image, err := c.builder.Build(s)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	c.drive.put(image.Media)
	o, digests, watched, err := c.recover(ctx)
	read, broken := c.drive.seen()
	if broken != nil {
		return nil, fmt.Errorf("read crash state %q: %w", s, broken)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := c.note(o, digests, watched, read, image.Media); err != nil {
		return nil, err
	}
	if c.fsck != nil && o.recovery.Class == verdict.Recovered {
		if o.second, err = c.fsck.examine(ctx, c.folder, c.drive.recovered(), c.drive.size); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	if err := c.learn(ctx, o, digests); err != nil {
		return nil, errors.Join(err, c.close())
	}
	o.finish()
	o.times.Total = time.Since(begun)
	if o.recovery.Class != verdict.Recovered || o.tree != nil && o.tree.Warned() {
		return o, c.close()
	}
	return o, nil
}

// recover asks the guest. The digests are those of the file's blocks; what it saw of its
// recovery is nil where it did not get that far.
func (c *checker) recover(ctx context.Context) (*outcome, []uint64, *wire.Watched, error) {
	limited, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	console := campaign.Console{Path: filepath.Join(c.folder, machine.ConsoleFile), From: c.said}
	if c.subject.Call.IsOps() {
		o, err := c.inspect(ctx, limited, console)
		return o, nil, nil, err
	}
	told, digests, err := c.guest.Digest(limited, c.subject.Mount, c.subject.Call.Plan, blockSize)
	if err != nil {
		v, err := c.explain(ctx, limited, console, err)
		return &outcome{recovery: v}, nil, nil, err
	}
	o := &outcome{recovery: verdict.Recovery{Class: verdict.Recovered}}
	if told.Stage != "" || c.spoke() {
		o.recovery = campaign.JudgeRecovery(told, console)
	}
	if o.recovery.Class != verdict.Recovered {
		digests = nil
	} else {
		o.exists, o.size = told.Exists, told.Size
		if c.subject.Mount.Check {
			o.rounding = told.BlockSize
		}
	}
	o.times = phasesOf(told)
	return o, digests, told.Watched, nil
}

// inspect asks the guest for the whole tree. Within limited it is to answer.
func (c *checker) inspect(ctx, limited context.Context, console campaign.Console) (*outcome, error) {
	v, found, told, err := campaign.InspectTree(limited, c.guest, c.subject.Mount, console)
	c.spoke()
	if err != nil {
		v, err = c.explain(ctx, limited, console, err)
	}
	o := &outcome{recovery: v, times: phasesOf(told)}
	if v.Class == verdict.Recovered {
		c.trees.keep(o, &found)
	}
	return o, err
}

// explain is campaign.Explain, of a guest that had until limited; where ctx is done nobody asks.
func (c *checker) explain(ctx, limited context.Context, console campaign.Console, err error) (verdict.Recovery, error) {
	if ctx.Err() != nil {
		return verdict.Recovery{}, ctx.Err()
	}
	return campaign.Explain(limited, console, c.limit(), err)
}

// phasesOf is the time of the guest.
func phasesOf(told wire.Survivor) phases {
	return phases{Fsck: time.Duration(told.FsckTime), Mount: time.Duration(told.MountTime), Read: time.Duration(told.ReadTime)}
}

// spoke tells whether the guest's kernel has said anything since it was asked last.
func (c *checker) spoke() bool {
	info, err := os.Stat(filepath.Join(c.folder, machine.ConsoleFile))
	if err != nil || info.Size() == c.said {
		return false
	}
	c.said = info.Size()
	return true
}

// size is how much of the outcome's file was read, in bytes.
func (c *checker) size(o *outcome) int64 { return min(o.size, c.subject.Call.Plan.ReadLimit()) }

// note fills in what the outcome depends on, of what was read.
func (c *checker) note(o *outcome, digests []uint64, w *wire.Watched, read tally, media io.ReaderAt) error {
	if err := c.forget(o, digests, w, read, media); err != nil {
		return err
	}
	for from, to := range read.rows() {
		for _, r := range c.changed(from*disk.SectorSize, (to-from)*disk.SectorSize) {
			if n := len(o.needed); n > 0 && o.needed[n-1].To == r.From {
				o.needed[n-1].To = r.To
			} else {
				o.needed = append(o.needed, r)
			}
		}
	}
	return nil
}

// atOnce is how many blocks a guest is asked for at once.
const atOnce = 1 << 14

// learn says what the file holds, and gets the content of those blocks that nobody knows
// yet. The guest has just recovered the state.
func (c *checker) learn(ctx context.Context, o *outcome, digests []uint64) error {
	file, unknown := c.contents.file(digests, c.size(o))
	for blocks := range slices.Chunk(unknown, atOnce) {
		if err := c.fetch(ctx, blocks); err != nil {
			return err
		}
	}
	if len(unknown) > 0 {
		if _, again := c.contents.file(digests, c.size(o)); len(again) > 0 {
			return fmt.Errorf("read the recovered file: block %d is not the same the second time", again[0])
		}
	}
	o.file = file
	return nil
}

// fetch gets the content of some blocks of the file.
func (c *checker) fetch(ctx context.Context, blocks []int64) error {
	limited, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	content, err := c.guest.Blocks(limited, c.subject.Mount, c.subject.Call.Plan, blockSize, blocks)
	if err != nil {
		return err
	}
	for _, b := range content {
		c.contents.add(b)
	}
	return nil
}

// survivors turns an outcome into what a verdict is made of.
func (o *outcome) survivors(c *contents) verdict.Survivors {
	s := verdict.Survivors{Exists: o.exists, Size: o.size, Rounding: o.rounding}
	if o.exists {
		s.Data = c.view(o.file)
	}
	return s
}
