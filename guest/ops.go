package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
	"powercut/guest/ledger"
	"powercut/guest/ops"
	"powercut/guest/wire"
)

// remounter is what changes the mount options of a file system that was mounted as m.
func remounter(m wire.Mount) func(options string) error {
	return func(options string) error {
		flags, data := mountFlags(options)
		dev, err := theDrive()
		if err != nil {
			return err
		}
		return unix.Mount(dev, mountPoint, m.Type, flags|unix.MS_REMOUNT, data)
	}
}

// inspect checks and mounts the disk, sends its whole tree, and tries whether it
// still works, unless it is mounted to be read alone.
func (a *agent) inspect(m wire.Mount) error {
	var out wire.Inspection
	stage, err := visit(m, &out.Survivor, func() (err error) {
		if out.Tree, err = a.sendTree(mountPoint); err != nil {
			return err
		}
		if flags, _ := mountFlags(m.Options); flags&unix.MS_RDONLY == 0 {
			out.Work = append(inspect.Remove(mountPoint, &out.Tree), inspect.Work(mountPoint)...)
		}
		return nil
	})
	if err != nil {
		out.Stage, out.Error = stage, err.Error()
	}
	return wire.Send(a.port, wire.Inspected, out)
}

// sendTree sends the bytes of all files below dir.
func (a *agent) sendTree(dir string) (inspect.Tree, error) {
	data := bufio.NewWriterSize(contentWriter{a.port}, 256<<10)
	t, err := inspect.Walk(dir, data)
	return *t, errors.Join(err, data.Flush())
}

// contentWriter sends what is written to it, a frame for each write.
type contentWriter struct{ port io.Writer }

func (w contentWriter) Write(b []byte) (int, error) {
	return len(b), wire.Write(w.port, wire.Frame{Type: wire.Content, Payload: b})
}

// notes is a journal of errnos.
type notes []int32

func (*notes) Start(uint64) {}

func (n *notes) Publish(r ledger.Record) {
	if r.Op > 0 {
		*n = append(*n, r.Errno)
	}
}

// rehearse carries out many plans and tells what they left on the disk.
func (a *agent) rehearse(r wire.Rehearsal) error {
	done := make([]notes, len(r.Plans))
	dir := func(i int) string { return filepath.Join(mountPoint, fmt.Sprintf("w%d", i)) }
	err := withMount(r.Mount, func() error {
		for i, p := range r.Plans {
			if err := os.Mkdir(dir(i), 0o755); err != nil {
				return err
			}
			if err := p.Run(ops.World{Dir: dir(i)}, &done[i], func() error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return &stageError{"rehearse", err}
	}
	err = withMount(r.Mount, func() error {
		for i := range r.Plans {
			var out wire.Performance
			var err error
			out.Errnos = done[i]
			if out.Tree, err = a.sendTree(dir(i)); err != nil {
				return err
			}
			out.Work = inspect.Remove(dir(i), &out.Tree)
			if err := wire.Send(a.port, wire.Rehearsed, out); err != nil {
				return err
			}
			if err := os.Remove(dir(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return &stageError{"read what was rehearsed", err}
	}
	return wire.Send(a.port, wire.RecordDone, wire.Outcome{})
}

// withMount calls do while the file system is mounted.
func withMount(m wire.Mount, do func() error) error {
	if err := mount(m); err != nil {
		return err
	}
	err := do()
	if unmounted := unix.Unmount(mountPoint, 0); err == nil && unmounted != nil {
		err = fmt.Errorf("unmount: %w", unmounted)
	}
	return err
}
