package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"powercut/harness/qemu"
)

// forkTries bounds how often a fork is tried. Another process may take what it
// needs from the cache at any time; that this happens twice in a row is hardly
// to be met.
const forkTries = 3

// Fork starts a guest from the template, with that drive, in the folder dir. What
// is damaged, or was pruned from the cache since Prepare, is made anew. If it
// fails it closes the drive.
func (m *Machine) Fork(ctx context.Context, dir string, d Drive) (*Guest, error) {
	return m.ForkLogged(ctx, dir, d, "")
}

// ForkLogged is Fork, with a log that QEMU keeps of the drive's writes (see
// qemu.Disk.Log) in that file in dir, which is emptied; "": none.
func (m *Machine) ForkLogged(ctx context.Context, dir string, d Drive, log string) (*Guest, error) {
	g, err := m.try(ctx, func() (*Guest, error) { return m.fork(ctx, dir, d, log) })
	if err != nil {
		d.Close()
	}
	return g, err
}

// try forks until that succeeds, or it is no use.
func (m *Machine) try(ctx context.Context, fork func() (*Guest, error)) (g *Guest, err error) {
	for range forkTries {
		if g, err = fork(); err == nil {
			return g, nil
		}
		again, removal := m.forkAgain(ctx, err)
		if err = errors.Join(err, removal); !again {
			break
		}
	}
	return nil, err
}

// forkAgain says whether a fork that failed with err may succeed if what it was
// made from is made anew.
func (m *Machine) forkAgain(ctx context.Context, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, nil
	}
	if errors.Is(err, qemu.ErrTemplateDamaged) {
		err := m.cache.Remove(ctx, templateKind, m.key)
		return err == nil, err
	}
	return m.cache.Check(initramfsKind, m.initramfsKey) != nil || m.cache.Check(templateKind, m.key) != nil, nil
}

func (m *Machine) fork(ctx context.Context, dir string, d Drive, log string) (*Guest, error) {
	cfg, err := m.forkConfig(ctx, dir)
	if err != nil {
		return nil, err
	}
	if log != "" {
		if err := os.WriteFile(filepath.Join(dir, log), nil, 0o644); err != nil {
			return nil, fmt.Errorf("create QEMU's log: %w", err)
		}
	}
	return m.start(ctx, cfg, d, log)
}

// forkConfig is the configuration of a fork in the folder dir.
func (m *Machine) forkConfig(ctx context.Context, dir string) (qemu.Config, error) {
	if _, err := m.openInitramfs(ctx); err != nil {
		return qemu.Config{}, err
	}
	template, err := m.cache.Entry(ctx, templateKind, m.key, m.bootTemplate)
	if err != nil {
		return qemu.Config{}, fmt.Errorf("make template: %w", err)
	}
	cfg := m.config(dir)
	cfg.Template = filepath.Join(template, savedFolder)
	return cfg, nil
}
