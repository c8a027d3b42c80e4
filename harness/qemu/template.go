package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/digitalocean/go-qemu/qmp"
	"golang.org/x/sync/errgroup"
)

// errMigration says that QEMU itself gave a migration up.
var errMigration = errors.New("migration failed")

// saveLimit bounds Save as a whole.
const saveLimit = 2 * time.Minute

// Save makes a template of vm in dir, which must exist: the guest is stopped,
// its device state and its memory are written, and QEMU ends. What remains of
// vm is to be closed. The guest should be idle, and nothing in flight on the
// control port or at the drive. A template whose Save failed has no manifest
// and cannot be forked; build it in a folder of its own and rename that.
//
// A template depends on all of the Config but its paths, and on the drive's
// size, which is not checked here.
func Save(ctx context.Context, vm *VM, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	return vm.Failure("save template", vm.save(ctx, dir))
}

func (vm *VM) save(ctx context.Context, dir string) error {
	if err := vm.monitor.Execute(ctx, "stop", nil, nil); err != nil {
		return err
	}
	state, err := vm.saveState(ctx, filepath.Join(dir, stateName))
	if err != nil {
		return err
	}
	if err := vm.quit(ctx); err != nil {
		return err
	}
	extents, err := saveRAM(ctx, vm.ram, filepath.Join(dir, ramName))
	if err != nil {
		return err
	}
	m := manifest{
		Format:  manifestFormat,
		QEMU:    vm.monitor.Version().String(),
		Machine: vm.cfg.identity(),
		State:   state,
		Memory:  vm.cfg.Memory,
		Extents: extents,
	}
	return m.write(dir)
}

// quit ends QEMU in an orderly way. Its last reply may be cut off by its end.
func (vm *VM) quit(ctx context.Context) error {
	_ = vm.monitor.Execute(ctx, "quit", nil, nil)
	select {
	case <-vm.proc.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("await qemu's end: %w", ctx.Err())
	}
}

// saveState migrates the devices into the file at path, through a pipe: that
// works with every QEMU and leaves it to us to count and hash.
func (vm *VM) saveState(ctx context.Context, path string) (extent, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return extent{}, fmt.Errorf("make pipe: %w", err)
	}
	defer r.Close()
	err = vm.monitor.ExecuteWithFile(ctx, "getfd", map[string]any{"fdname": "state"}, nil, w)
	w.Close() // QEMU has its own
	if err != nil {
		return extent{}, err
	}
	var state extent
	var g errgroup.Group
	g.Go(func() error {
		_ = r.SetReadDeadline(remaining(ctx, saveLimit))
		var err error
		if state, err = drain(r, path); err != nil {
			r.Close() // else QEMU would wait for room in the pipe
		}
		return err
	})
	failure := vm.migrate(ctx, "migrate", "fd:state")
	if failure != nil {
		_ = r.SetReadDeadline(time.Unix(1, 0))
	}
	if err := g.Wait(); err != nil && !timedOut(err) {
		return extent{}, err // and the migration failed over it
	}
	return state, failure
}

// drain copies r to its end into a new file at path.
func drain(r io.Reader, path string) (extent, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return extent{}, fmt.Errorf("save device state: %w", err)
	}
	h := xxhash.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, maxState+1))
	if err == nil && n > maxState {
		err = fmt.Errorf("more than %d bytes", maxState)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return extent{}, fmt.Errorf("save device state: %w", err)
	}
	return extent{Length: n, Sum: sum(h.Sum64())}, nil
}

// migrate runs a migration command to its end. Memory shared with us stays out
// of the stream: it is in our hands anyway.
func (vm *VM) migrate(ctx context.Context, command, uri string) error {
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	caps := map[string]any{"capabilities": []capability{{"x-ignore-shared", true}, {"events", true}}}
	if err := vm.monitor.Execute(ctx, "migrate-set-capabilities", caps, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := vm.monitor.Events(ctx)
	if err != nil {
		return err
	}
	if err := vm.monitor.Execute(ctx, command, map[string]any{"uri": uri}, nil); err != nil {
		return err
	}
	return vm.awaitMigration(ctx, events)
}

// awaitMigration reads events until the migration has come to an end.
func (vm *VM) awaitMigration(ctx context.Context, events <-chan qmp.Event) error {
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return fmt.Errorf("await migration: %w", errors.Join(ctx.Err(), vm.monitor.reason()))
			}
			if e.Event != "MIGRATION" {
				continue
			}
			switch status, _ := e.Data["status"].(string); status {
			case "completed":
				return nil
			case "failed", "cancelled":
				return vm.migrationError(ctx, status)
			}
		case <-ctx.Done():
			return fmt.Errorf("await migration: %w", ctx.Err())
		}
	}
}

// migrationError asks QEMU why the migration failed.
func (vm *VM) migrationError(ctx context.Context, status string) error {
	var info struct {
		Reason string `json:"error-desc"`
	}
	_ = vm.monitor.Execute(ctx, "query-migrate", nil, &info) // without it, the status alone must do
	return fmt.Errorf("%w (%s): %s", errMigration, status, or(info.Reason, "qemu gives no reason"))
}

// fork starts a machine from a template. The memory is copied while QEMU
// starts, which it does without looking at the memory.
func fork(ctx context.Context, cfg Config) (*VM, error) {
	m, err := readManifest(cfg)
	if err != nil {
		return nil, fmt.Errorf("fork template: %w", err)
	}
	state, err := m.readState(cfg)
	if err != nil {
		return nil, fmt.Errorf("fork template: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("fork template: make pipe: %w", err)
	}
	defer w.Close()
	vm, err := launch(ctx, cfg, r)
	r.Close() // QEMU has its own
	if err != nil {
		return nil, err
	}
	if err := vm.restore(ctx, m, state, w); err != nil {
		return nil, vm.giveUp("fork template", err)
	}
	return vm, nil
}

// restore fills the memory, connects, feeds the device state through w and
// lets the guest run on.
func (vm *VM) restore(ctx context.Context, m manifest, state []byte, w *os.File) error {
	var g errgroup.Group
	g.Go(func() error { return loadRAM(ctx, vm.cfg.templateFile(ramName), m.Extents, vm.ram) })
	err := vm.monitor.ConnectContext(ctx)
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	if v := vm.monitor.Version().String(); v != m.QEMU {
		return damaged("it was made by QEMU %s, this is %s", m.QEMU, v)
	}
	g.Go(func() error {
		defer w.Close() // QEMU reads to the end
		_ = w.SetWriteDeadline(remaining(ctx, vm.cfg.Timeout))
		if _, err := w.Write(state); err != nil {
			return fmt.Errorf("feed device state: %w", err)
		}
		return nil
	})
	err = vm.migrate(ctx, "migrate-incoming", fdURI(inherited(incomingFile)))
	if err != nil {
		_ = w.SetWriteDeadline(time.Unix(1, 0))
	}
	if err := errors.Join(err, g.Wait()); err != nil {
		return vm.refusal(err)
	}
	if err := vm.monitor.Execute(ctx, "cont", nil, nil); err != nil {
		return err
	}
	return vm.plugDisk(ctx)
}

// refusal makes a damaged template of err if QEMU gave up over the device state,
// or ended by itself, which is how it mostly says that a state does not fit.
func (vm *VM) refusal(err error) error {
	ended := hungUp(err) && waitFor(vm.proc.done, exitGrace) && vm.proc.cmd.ProcessState.Exited()
	if ended || errors.Is(err, errMigration) {
		return damaged("qemu does not take its device state: %w", err)
	}
	return err
}
