package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"powercut/guest/wire"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/promise"
	"powercut/harness/qemu"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// recovery is what a fresh guest made of a crash state.
type recovery struct {
	verdict   verdict.Recovery
	survivors verdict.Survivors // meaningful where verdict.Class is Recovered; the content is in the run folder
	found     promise.Found     // in place of survivors, of a workload of ops
}

// crashState applies the scenario's policy to the recording.
func (r *run) crashState(rec *recording) (*crash.Image, error) {
	return crash.Build(rec.base, rec.log, rec.cut.Position, crash.Policy(r.scenario.AtCut), rec.plan.Seed)
}

// recover lets a fresh guest check and mount the crash state and read the file
// back. What goes wrong inside the guest is a verdict; only what goes wrong
// outside of it is an error.
func (r *run) recover(ctx context.Context, rec *recording, state *crash.Image) (*recovery, error) {
	return r.recoverWith(ctx, rec, state, r.readBack)
}

// reader asks a guest for the recovery of its disk, and reads what there is to judge.
type reader func(ctx context.Context, g *machine.Guest, rec *recording) (*recovery, error)

// recoverWith is recover with another thing to read.
func (r *run) recoverWith(ctx context.Context, rec *recording, state *crash.Image, read reader) (*recovery, error) {
	folder, err := r.recoveryFolder(rec)
	if err != nil {
		return nil, err
	}
	log, err := blocklog.Create(filepath.Join(folder, logFile), state.Media.Size())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d := r.honest(state, log)
	back, err := r.recoverIn(ctx, rec, read, func(ctx context.Context) (*machine.Guest, error) { return r.machine.Fork(ctx, folder, d) })
	if _, _, broken := d.Cut(); broken != nil {
		return nil, broken
	}
	return back, err
}

// honest is a drive without faults that holds a crash state.
func (r *run) honest(state *crash.Image, log *blocklog.Writer) *disk.Drive {
	return disk.New(disk.Config{Base: state.Media, Size: state.Media.Size(), Log: log, WriteCache: r.scenario.Drive.Volatile()})
}

// recoveryFolder makes the folder of a call's recovery.
func (r *run) recoveryFolder(rec *recording) (string, error) {
	folder := filepath.Join(rec.folder, recoveryFolder)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	r.lab.Progress.Stage(fmt.Sprintf("%s: recovering", rec.plan.Call), 0)
	return folder, nil
}

// recoverIn lets the guest that fork starts recover its disk.
func (r *run) recoverIn(ctx context.Context, rec *recording, read reader, fork func(context.Context) (*machine.Guest, error)) (*recovery, error) {
	limited, cancel := context.WithTimeout(ctx, r.scenario.Timeout)
	defer cancel()
	g, err := fork(limited)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	back, err := read(limited, g, rec)
	if err := errors.Join(ctx.Err(), g.Kill()); err != nil {
		return nil, err
	}
	if err != nil {
		back.verdict, err = Explain(limited, Console{Path: g.ConsolePath()}, r.scenario.Timeout, err)
		return back, err
	}
	return back, nil
}

// readBack asks for the recovery, and keeps the recovered file in the run folder.
func (r *run) readBack(ctx context.Context, g *machine.Guest, rec *recording) (back *recovery, err error) {
	back = &recovery{}
	path := filepath.Join(rec.folder, survivorsFile)
	file, err := os.Create(path)
	if err != nil {
		return back, fmt.Errorf("keep survivors: %w", err)
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil || back.verdict.Class != verdict.Recovered || !back.survivors.Exists {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	told, err := g.Recover(ctx, r.recoveryMount(), rec.plan, file)
	back.survivors = verdict.Survivors{Exists: told.Exists, Size: told.Size}
	if r.recoveryMount().Check {
		back.survivors.Rounding = told.BlockSize
	}
	if err == nil {
		back.verdict = JudgeRecovery(told, Console{Path: g.ConsolePath()})
	}
	return back, err
}

// stages are the verdicts on a recovery that failed, by the guest's name of the
// stage at which it did.
var stages = map[string]verdict.RecoveryClass{
	"fsck": verdict.FsckFailed, "mount": verdict.MountFailed, "read": verdict.ReadFailed, "unmount": verdict.MountFailed,
}

// Console is what a guest's kernel has said, from a place in a file on.
type Console struct {
	Path string
	From int64 // bytes
}

// JudgeRecovery turns the guest's report and its console into a verdict.
func JudgeRecovery(told wire.Survivor, console Console) verdict.Recovery {
	trouble := console.trouble()
	v := verdict.Recovery{Class: verdict.Recovered}
	if told.Stage != "" {
		v.Class, v.Detail = stages[told.Stage], told.Error
		if told.Fsck != "" && told.Stage == "fsck" {
			v.Detail += ": " + lastLine(told.Fsck)
		}
	}
	if text, ok := oopsIn(trouble); ok {
		v.Class, v.Detail = verdict.Oops, text
	}
	if v.Class != verdict.Recovered {
		v.Console = qemu.Tail(console.Path, consoleLines)
	} else if len(trouble) > 0 {
		v.Detail = "the kernel said: " + trouble[0].Text
	}
	return v
}

// consoleLines is how much of a console a verdict carries.
const consoleLines = 20

// Explain turns the failure of a guest that recovers, within limited, into a verdict
// where it is the guest's: a kernel that oopsed, or that never answered. Anything else
// is an error of the harness, and stays one.
func Explain(limited context.Context, console Console, limit time.Duration, err error) (verdict.Recovery, error) {
	v := verdict.Recovery{Console: qemu.Tail(console.Path, consoleLines)}
	if text, ok := oopsIn(console.trouble()); ok {
		v.Class, v.Detail = verdict.Oops, text
		return v, nil
	}
	if errors.Is(limited.Err(), context.DeadlineExceeded) {
		v.Class, v.Detail = verdict.Hang, fmt.Sprintf("recovery did not end within %v", limit)
		return v, nil
	}
	return verdict.Recovery{}, err
}

// Text is what the kernel has said so far; empty where that cannot be read.
func (c Console) Text() string {
	b, err := os.ReadFile(c.Path)
	if err != nil {
		return ""
	}
	return string(b[min(c.From, int64(len(b))):])
}

// trouble finds what a kernel complained of on its console. A console that cannot be
// read has no trouble to tell.
func (c Console) trouble() []qemu.Finding {
	return qemu.Classify([]byte(c.Text()))
}

// Complaint is the first line on which the kernel tells of a bug of its own, or of
// damage to its file system; empty: none.
func (c Console) Complaint() string {
	for _, f := range c.trouble() {
		if f.Kind == qemu.Oops || f.Kind == qemu.Panic || complains(f) {
			return f.Text
		}
	}
	return ""
}

// complains tells whether a kernel finds its file system damaged, or warns.
func complains(f qemu.Finding) bool {
	return f.Kind == qemu.FSError && !otherPack.MatchString(f.Text) || strings.HasPrefix(f.Text, "WARNING: ")
}

// otherPack is what f2fs says of the checkpoint pack that the cut came into: there are two,
// and it takes the other one (get_checkpoint_version, fs/f2fs/checkpoint.c). Of two such it
// does not mount.
var otherPack = regexp.MustCompile(`^F2FS-fs \([^)]*\): invalid crc(?:_offset: \d+| value)$`)

// oopsIn is the first line on which a kernel tells that it hit a bug of its own.
func oopsIn(trouble []qemu.Finding) (text string, ok bool) {
	for _, f := range trouble {
		if f.Kind == qemu.Oops || f.Kind == qemu.Panic {
			return f.Text, true
		}
	}
	return "", false
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// needsCheck tells whether a file system is checked before it is mounted: one without a
// journal, and JFS, whose driver leaves the replay of the journal to its checker.
func needsCheck(fs scenarios.Filesystem) bool {
	return fs.Type == scenarios.Ext2 || fs.Type == scenarios.JFS || strings.Contains(strings.Join(fs.Mkfs, " "), "^has_journal")
}

// checker is the type of file system whose checker is needed; empty: none.
func checker(fs scenarios.Filesystem) string {
	if !needsCheck(fs) {
		return ""
	}
	if fs.Type == scenarios.JFS {
		return string(fs.Type)
	}
	return string(scenarios.Ext4) // one checker for its whole family
}
