package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"powercut/guest/ledger"
	"powercut/guest/wire"
	"powercut/guest/workload"
	"powercut/harness/disk"
	"powercut/harness/nbd"
	"powercut/harness/qemu"
)

// Files of a guest in its folder.
const (
	ConsoleFile = "console.txt"
	socketFile  = "nbd.sock"
	secondFile  = "nbd2.sock" // of a second disk
)

// connectDeadline bounds the wait for QEMU to connect to the drive.
const connectDeadline = 30 * time.Second

// Guest is a virtual machine with its drive and its agent.
type Guest struct {
	vm     *qemu.VM
	drive  Drive         // nil where the drive is not ours
	in     *bufio.Reader // of the control channel
	served chan error    // how the drive's connections ended; one value each
	disks  int           // how many there are
	cancel context.CancelFunc
}

// Drive is what stands behind a guest's disk, such as a *disk.Drive.
type Drive interface {
	nbd.Device
	Export() nbd.Export
	// Close ends it: nothing is answered any more.
	Close()
}

// start serves the drive in the folder of cfg and starts the machine; log is
// QEMU's own log of the drive, or empty. If it fails the drive is as before, and can
// be served again.
func (m *Machine) start(ctx context.Context, cfg qemu.Config, d Drive, log string) (*Guest, error) {
	back := qemu.Disk{Socket: socketFile, Log: log}
	serving, cancel := context.WithCancel(context.Background())
	g := &Guest{drive: d, served: make(chan error, 2), cancel: cancel}
	for i, disk := range m.Spec.disks(d) {
		name := socketFile
		if i > 0 {
			name, back.Second = secondFile, secondFile
		}
		l, err := nbd.Listen(filepath.Join(cfg.Dir, name))
		if err != nil {
			g.unserve()
			return nil, fmt.Errorf("serve drive: %w", err)
		}
		defer os.Remove(filepath.Join(cfg.Dir, name)) // QEMU is connected, or never will be
		g.disks++
		go func() { g.served <- serveOne(serving, l, disk) }()
	}
	cfg.ConsolePath = ConsoleFile
	cfg.Disk = m.Spec.front(back)
	var err error
	if g.vm, err = qemu.Start(ctx, cfg); err != nil {
		g.unserve()
		return nil, err
	}
	g.in = bufio.NewReaderSize(g.vm.Control(), 256<<10)
	return g, nil
}

// unserve ends the drive's connections.
func (g *Guest) unserve() {
	g.cancel()
	for range g.disks {
		<-g.served
	}
}

// serveOne serves the drive to the first client that connects.
func serveOne(ctx context.Context, l net.Listener, d Drive) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	late := time.AfterFunc(connectDeadline, func() { l.Close() })
	conn, err := l.Accept()
	late.Stop()
	l.Close()
	if err != nil {
		return fmt.Errorf("serve drive: QEMU did not connect: %w", err)
	}
	return nbd.Serve(ctx, conn, d.Export(), d)
}

// awaitGreeting waits for the agent's first message.
func awaitGreeting(ctx context.Context, vm *qemu.VM) (wire.Greeting, error) {
	var hello wire.Greeting
	stop := deadline(ctx, vm.Control())
	defer stop()
	f, err := wire.Read(vm.Control())
	if err != nil {
		return hello, fmt.Errorf("wait for the guest: %w", err)
	}
	if f.Type != wire.Hello {
		return hello, fmt.Errorf("wait for the guest: its first message is of type %d", f.Type)
	}
	return hello, f.Decode(&hello)
}

// deadline makes reads and writes of conn fail once ctx ends. The returned
// function takes that back.
func deadline(ctx context.Context, conn net.Conn) func() {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if stop() {
			_ = conn.SetDeadline(time.Time{})
		}
	}
}

// RequestError is the guest's word that it could not do what it was asked.
type RequestError struct{ wire.Failure }

func (e *RequestError) Error() string {
	return fmt.Sprintf("the guest failed to %s: %s", e.Stage, e.Failure.Error)
}

// Ask sends a request and calls each for every answer until it returns true or an
// error. A Failed answer is a *RequestError; an error of the channel is told with
// the state of the machine and the end of its console.
func (g *Guest) Ask(ctx context.Context, t wire.Type, request any, each func(wire.Frame) (done bool, err error)) error {
	stop := deadline(ctx, g.vm.Control())
	defer stop()
	if err := wire.Send(g.vm.Control(), t, request); err != nil {
		return g.vm.Failure("ask the guest", errors.Join(ctx.Err(), err))
	}
	for {
		f, err := wire.Read(g.in)
		if err != nil {
			return g.vm.Failure("wait for the guest's answer", errors.Join(ctx.Err(), err))
		}
		if f.Type == wire.Failed {
			e := &RequestError{}
			if err := f.Decode(&e.Failure); err != nil {
				return err
			}
			return e
		}
		done, err := each(f)
		if done || err != nil {
			return err
		}
	}
}

// ask sends a request that is answered with one frame of the same type.
func (g *Guest) ask(ctx context.Context, t wire.Type, request, answer any) error {
	return g.Ask(ctx, t, request, func(f wire.Frame) (bool, error) {
		if f.Type != t {
			return false, fmt.Errorf("ask the guest: answer of type %d to a request of type %d", f.Type, t)
		}
		return true, f.Decode(answer)
	})
}

// Work has a workload run to its end, its records left in the ledger in memory.
func (g *Guest) Work(ctx context.Context, w wire.Workload) error {
	return g.Ask(ctx, wire.Record, w, func(f wire.Frame) (bool, error) {
		switch f.Type {
		case wire.Mounted:
			return false, nil
		case wire.RecordDone:
			return true, nil
		}
		return false, fmt.Errorf("run workload: unexpected message of type %d", f.Type)
	})
}

// Recover asks the guest to check and mount the drive and to send the plan's file
// back, which is written to content. What goes wrong in the guest is in told; content then
// got what came before.
func (g *Guest) Recover(ctx context.Context, m wire.Mount, p workload.Plan, content io.Writer) (told wire.Survivor, err error) {
	came := int64(0)
	ask := wire.Recovery{Mount: m, Path: p.Path, Limit: p.ReadLimit()}
	err = g.Ask(ctx, wire.Recover, ask, func(f wire.Frame) (bool, error) {
		switch f.Type {
		case wire.Content:
			came += int64(len(f.Payload))
			if _, err := content.Write(f.Payload); err != nil {
				return false, fmt.Errorf("keep the recovered file: %w", err)
			}
			return false, nil
		case wire.Recovered:
			return true, f.Decode(&told)
		}
		return false, fmt.Errorf("recover: unexpected message of type %d", f.Type)
	})
	if want := min(told.Size, ask.Limit); err == nil && told.Stage == "" && came != want {
		err = fmt.Errorf("recover: %d bytes of the file arrived, want %d", came, want)
	}
	return told, err
}

// uncached has the guest's kernel take the drive for one without a write cache, and send it
// no flushes: where states are recovered one after the other no power is cut.
var uncached = wire.CacheSwitches{Kernel: "write through"}

// Digest asks the guest to check and mount the drive, and for digests of the file's
// blocks, of that many bytes. What goes wrong in the guest is in told; digests are then
// those of what came before. The guest sends the drive no flushes.
func (g *Guest) Digest(ctx context.Context, m wire.Mount, p workload.Plan, block int64) (told wire.Survivor, digests []uint64, err error) {
	ask := wire.Recovery{Mount: m, Path: p.Path, Limit: p.ReadLimit(), Block: block, Watch: true, Cache: uncached}
	err = g.Ask(ctx, wire.Recover, ask, func(f wire.Frame) (bool, error) {
		switch f.Type {
		case wire.Digests:
			digests = append(digests, f.Numbers()...)
			return false, nil
		case wire.Recovered:
			return true, f.Decode(&told)
		}
		return false, fmt.Errorf("recover: unexpected message of type %d", f.Type)
	})
	if want := (min(told.Size, ask.Limit) + block - 1) / block; err == nil && told.Stage == "" && int64(len(digests)) != want {
		err = fmt.Errorf("recover: digests of %d blocks of the file arrived, want %d", len(digests), want)
	}
	return told, digests, err
}

// Blocks asks the guest to mount the drive, which it has recovered, once more and for
// the content of some blocks of the file: as many pieces as there are blocks, ascending.
func (g *Guest) Blocks(ctx context.Context, m wire.Mount, p workload.Plan, block int64, blocks []int64) (content [][]byte, err error) {
	ask := wire.Recovery{Mount: m, Path: p.Path, Limit: p.ReadLimit(), Block: block, Blocks: blocks, Cache: uncached}
	var told wire.Survivor
	err = g.Ask(ctx, wire.Recover, ask, func(f wire.Frame) (bool, error) {
		switch f.Type {
		case wire.Content:
			content = append(content, f.Payload)
			return false, nil
		case wire.Recovered:
			return true, f.Decode(&told)
		}
		return false, fmt.Errorf("read blocks: unexpected message of type %d", f.Type)
	})
	switch {
	case err != nil:
	case told.Stage != "":
		err = fmt.Errorf("read blocks: a drive that was recovered fails the second time, to %s: %s", told.Stage, told.Error)
	case len(content) != len(blocks):
		err = fmt.Errorf("read blocks: %d of %d came", len(content), len(blocks))
	}
	return content, err
}

// Echo measures a round trip over the control channel.
func (g *Guest) Echo(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	var answer string
	err := g.ask(ctx, wire.Echo, "echo", &answer)
	return time.Since(begun), err
}

// Ledger is the guest's ledger in memory. It outlives the guest until Close.
func (g *Guest) Ledger() (ledger.Region, error) {
	mem := g.vm.Memory()
	if len(mem) < ledger.Base+ledger.Size {
		return ledger.Region{}, fmt.Errorf("map ledger: the guest has %d bytes of memory, the ledger ends at %d", len(mem), ledger.Base+ledger.Size)
	}
	return ledger.Map(mem[ledger.Base : ledger.Base+ledger.Size])
}

// Drive is the guest's drive; nil where that is no *disk.Drive.
func (g *Guest) Drive() *disk.Drive {
	d, _ := g.drive.(*disk.Drive)
	return d
}

// Waited is how long the guest's QEMU has waited for a processor of this machine: see
// qemu.VM.Waited.
func (g *Guest) Waited() (time.Duration, error) { return g.vm.Waited() }

// Failure tells of err with the state of the machine and the end of its console.
func (g *Guest) Failure(op string, err error) error { return g.vm.Failure(op, err) }

// ConsolePath is the file that holds the guest's console.
func (g *Guest) ConsolePath() string { return g.vm.ConsolePath() }

// Kill cuts the guest's power. When it returns the guest is dead, its drive at
// rest, and neither ledger nor log change any more.
func (g *Guest) Kill() error {
	err := g.vm.Kill()
	if g.drive != nil {
		g.drive.Close()
	}
	return err
}

// Close kills the guest and frees everything that belongs to it, but for the log
// of its drive.
func (g *Guest) Close() error {
	err := g.Kill()
	g.unserve()
	return errors.Join(err, g.vm.Close())
}
