package machine

import (
	"bufio"
	"context"

	"powercut/harness/qemu"
)

// ForkForeign starts a guest from the template, in the folder dir, on a drive that
// another NBD server offers on a unix socket: its path is absolute, or relative to
// dir, of at most 107 bytes. The drive has the size of the spec's, and flushes. It
// is there to compare the recording drive with another one: nothing is recorded,
// and Drive of the guest is nil.
func (m *Machine) ForkForeign(ctx context.Context, dir, socket string) (*Guest, error) {
	return m.forkOn(ctx, dir, qemu.Disk{Socket: socket})
}

// ForkFile does the same on a raw image, whose path is absolute or relative to dir.
func (m *Machine) ForkFile(ctx context.Context, dir, image string) (*Guest, error) {
	return m.forkOn(ctx, dir, qemu.Disk{File: image})
}

func (m *Machine) forkOn(ctx context.Context, dir string, d qemu.Disk) (*Guest, error) {
	cfg, err := m.forkConfig(ctx, dir)
	if err != nil {
		return nil, err
	}
	cfg.ConsolePath = ConsoleFile
	d.Bus, d.WriteCache = m.Spec.Bus, m.Spec.WriteCache
	cfg.Disk = &d
	vm, err := qemu.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g := &Guest{vm: vm, served: make(chan error, 1), cancel: func() {}}
	g.served <- nil // there is no connection of ours to wait for
	g.in = bufio.NewReaderSize(vm.Control(), 256<<10)
	return g, nil
}
