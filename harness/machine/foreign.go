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

// ForkFile starts a guest from the template, in the folder dir, on an image file
// that holds a drive of the spec's size. Nothing is recorded, and Drive of the
// guest is nil. What is damaged, or was pruned from the cache since Prepare, is
// made anew.
func (m *Machine) ForkFile(ctx context.Context, dir string, image qemu.Image) (*Guest, error) {
	return m.try(ctx, func() (*Guest, error) { return m.forkOn(ctx, dir, qemu.Disk{Image: &image}) })
}

// forkOn forks a guest on a back end that is not ours, given by back.
func (m *Machine) forkOn(ctx context.Context, dir string, back qemu.Disk) (*Guest, error) {
	cfg, err := m.forkConfig(ctx, dir)
	if err != nil {
		return nil, err
	}
	cfg.ConsolePath = ConsoleFile
	cfg.Disk = m.Spec.front(back)
	vm, err := qemu.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g := &Guest{vm: vm, cancel: func() {}} // there is no connection of ours to wait for
	g.in = bufio.NewReaderSize(vm.Control(), 256<<10)
	return g, nil
}

// front is a drive with that back end, as the spec's guests see it.
func (s Spec) front(back qemu.Disk) *qemu.Disk {
	back.Bus, back.WriteCache, back.Direct, back.NoFlush = s.Bus, s.WriteCache, s.Direct, s.NoFlush
	return &back
}
