package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"powercut/guest/ledger"
	"powercut/harness/machine"
	"powercut/harness/qemu"
	"powercut/harness/report"
	"powercut/images/command"
	"powercut/scenarios"
)

// imageFile is the drive, in the call's folder, where it is an image file: written
// by the guest, left as it was by the kill, and then recovered by another guest.
const imageFile = "drive.img"

// imageDeadline bounds the making and the checking of an image.
const imageDeadline = 5 * time.Minute

// onFile tells whether the drive is an image file.
func (r *run) onFile() bool { return r.scenario.Drive.Backend == scenarios.File }

// imageOf is the image file of a call.
func (r *run) imageOf(rec *recording) qemu.Image {
	d, size := r.scenario.Drive, int64(r.scenario.Filesystem.Size)
	return qemu.Image{
		Path: filepath.Join(rec.folder, imageFile), Format: string(d.Format), AIO: string(d.AIO),
		Limit: size + size/8 + 16<<20, // the tables of a qcow2 image take less
	}
}

// recordOnFile runs the workload on an image file until QEMU is killed.
func (r *run) recordOnFile(ctx context.Context, rec *recording) error {
	image := r.imageOf(rec)
	if err := qemuImg("convert", "-f", "raw", "-O", image.Format, r.base, image.Path).Run(ctx); err != nil {
		return fmt.Errorf("make image file: %w%s", err, hint(err))
	}
	ctx, cancel := context.WithTimeout(ctx, r.scenario.Timeout)
	defer cancel()
	out, err := os.Create(filepath.Join(rec.folder, ledgerFile))
	if err != nil {
		return fmt.Errorf("create ledger: %w", err)
	}
	defer out.Close()
	g, err := r.machine.ForkFile(ctx, rec.folder, image)
	if err != nil {
		return err
	}
	defer g.Close()
	begun := time.Now()
	stop := &killSwitch{stopped: make(chan struct{})}
	w := &watch{
		trigger: newTrigger(r.scenario.Cut, rec.plan.Seed).withoutEvents(), out: out, progress: r.lab.Progress,
		now: func() time.Duration { return time.Since(begun) }, world: stop,
	}
	if err := w.run(ctx, r, g, rec.plan); err != nil {
		return err
	}
	return rec.keep(r, w, stop.reason, 0)
}

// killSwitch is the world of a guest that nothing can stop but the kill.
type killSwitch struct {
	once    sync.Once
	reason  string // set by once, before stopped is closed
	stopped chan struct{}
}

func (k *killSwitch) Stop(reason string) {
	k.once.Do(func() { k.reason = reason; close(k.stopped) })
}

func (k *killSwitch) Stopped() <-chan struct{} { return k.stopped }

// judgeFile checks the image that the kill left, lets a fresh guest recover it, and
// judges what that read back. What a block log would tell is not known.
func (r *run) judgeFile(ctx context.Context, rec *recording) (*report.Call, error) {
	image := r.imageOf(rec)
	checked, err := checkImage(ctx, image)
	if err != nil {
		return nil, err
	}
	folder, err := r.recoveryFolder(rec)
	if err != nil {
		return nil, err
	}
	back, err := r.recoverIn(ctx, rec, r.readBack, func(ctx context.Context) (*machine.Guest, error) { return r.machine.ForkFile(ctx, folder, image) })
	if err != nil {
		return nil, err
	}
	c := &report.Call{
		Call: string(rec.plan.Call), Folder: filepath.Base(rec.folder), HostWait: rec.cut.HostWait, Image: checked,
		Cut:      report.Cut{Reason: rec.cut.Reason, Op: rec.cut.Started},
		Latency:  summarise(rec.history.Records, ledger.Record.Latency),
		Sync:     summarise(rec.history.Records, ledger.Record.SyncLatency),
		Seen:     report.Seen{GuestCache: rec.drive.WriteCache, GuestFUA: rec.drive.FUA},
		Recovery: back.verdict, Findings: []report.Finding{},
	}
	result, err := judgeSurvivors(c, rec, back, nil)
	if err != nil {
		return nil, err
	}
	return c, writeJSON(filepath.Join(rec.folder, verdictFile), result)
}

// checkImage looks for damage in the image's own tables, without repairing it. A
// raw image has none, and gives nil. An image that qemu-img cannot even open is a
// finding too, not a failure of the harness.
func checkImage(ctx context.Context, image qemu.Image) (*report.Image, error) {
	if image.Format != string(scenarios.QCow2) {
		return nil, nil
	}
	if _, err := os.Stat(image.Path); err != nil {
		return nil, fmt.Errorf("check image: %w", err)
	}
	out, err := qemuImg("check", "-f", image.Format, "--output", "json", image.Path).Output(ctx)
	// qemu-img(1): 0 clean, 2 corrupted, 3 leaked clusters; 1: the check failed.
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil || exit.ExitCode() < 1 || exit.ExitCode() > 3) {
		return nil, fmt.Errorf("check image: %w", err)
	}
	if exit != nil && exit.ExitCode() == 1 {
		return &report.Image{Failed: err.Error()}, nil
	}
	var found struct {
		Corruptions int `json:"corruptions"`
		Leaks       int `json:"leaks"`
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&found); err != nil {
		return nil, fmt.Errorf("check image: read the answer of qemu-img: %w", err)
	}
	return &report.Image{Errors: found.Corruptions, Leaks: found.Leaks}, nil
}

// hint says where qemu-img comes from, where it is missing.
func hint(err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return "; install the Debian package qemu-utils"
	}
	return ""
}

// qemuImg is a call of qemu-img, which is of the Debian package qemu-utils.
func qemuImg(args ...string) command.Command {
	return command.Command{Path: "qemu-img", Args: args, Timeout: imageDeadline}
}
