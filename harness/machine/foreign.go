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
	cfg, err := m.forkConfig(ctx, dir)
	if err != nil {
		return nil, err
	}
	cfg.ConsolePath = ConsoleFile
	cfg.Disk = &qemu.Disk{Socket: socket, Bus: m.Spec.Bus, WriteCache: m.Spec.WriteCache, Direct: m.Spec.Direct, NoFlush: m.Spec.NoFlush}
	vm, err := qemu.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g := &Guest{vm: vm, served: make(chan error, 1), cancel: func() {}}
	g.served <- nil // there is no connection of ours to wait for
	g.in = bufio.NewReaderSize(vm.Control(), 256<<10)
	return g, nil
}
