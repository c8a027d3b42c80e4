package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/nbd"
	"powercut/harness/trace"
)

// ServeDescriptor is the descriptor on which the child of a memory measurement
// finds its NBD client.
const ServeDescriptor = 3

// peaks is what the child answers: its peak resident memory in bytes, when the client
// had left; when a crash state of the log had been built; and, where that was asked
// for, when the log had also been read as a trace, compressed, and read again.
type peaks struct {
	Recording int64 `json:"recording"`
	Building  int64 `json:"building"`
	Judging   int64 `json:"judging,omitempty"`
	Requests  int   `json:"requests"`
	// Plain and Compressed are the sizes of the log, where it was compressed.
	Plain      int64 `json:"plain,omitempty"`
	Compressed int64 `json:"compressed,omitempty"`
}

// Serve is the child's part of a memory measurement, alone in its process: it
// records a drive of that size, with its block log in dir, for the client at
// ServeDescriptor until that leaves; builds the crash state of a cut at the end;
// with judge, does what else a run does with a log; and writes to out, as JSON, the
// peaks of its memory.
func Serve(ctx context.Context, dir string, size int64, judge bool, out io.Writer) error {
	conn, err := inherited(ServeDescriptor)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, blockLog)
	if err := serveDrive(ctx, conn, path, size); err != nil {
		return err
	}
	var p peaks
	if p.Recording, err = peakMemory(); err != nil {
		return err
	}
	if err := p.build(path, judge); err != nil {
		return err
	}
	if judge {
		if err := p.judge(path); err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(p)
}

// build reads the log at path, builds a crash state, and with read makes a trace.
func (p *peaks) build(path string, read bool) error {
	log, err := blocklog.Open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	p.Requests = len(log.Events) / 2
	if _, err := crash.Build(machine.Zeros{}, log, len(log.Events), crash.Random, 1); err != nil {
		return err
	}
	if p.Building, err = peakMemory(); err != nil || !read {
		return err
	}
	_, err = trace.Read(trace.Input{Events: log.Events, Payload: log, Plan: overwrite(1000), Base: machine.Zeros{}, CacheAdvertised: true})
	return err
}

// judge compresses the log at path and reads it again.
func (p *peaks) judge(path string) error {
	sizes, err := blocklog.Compress(path)
	if err != nil {
		return err
	}
	p.Plain, p.Compressed = sizes.Plain, sizes.Compressed
	log, err := blocklog.Open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	p.Judging, err = peakMemory()
	return err
}

// serveDrive records a drive until its client has left.
func serveDrive(ctx context.Context, conn net.Conn, path string, size int64) (err error) {
	log, err := blocklog.Create(path, size)
	if err != nil {
		conn.Close()
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	d := disk.New(disk.Config{Base: machine.Zeros{}, Size: size, Log: log, WriteCache: true})
	defer d.Close()
	if err := nbd.Serve(ctx, conn, d.Export(), d); err != nil {
		return err
	}
	_, _, err = d.Cut()
	return err
}

// socketPair is a connection with one end for us and one to be inherited.
func socketPair() (near net.Conn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	far = os.NewFile(uintptr(fds[1]), "child's end")
	if near, err = connection(os.NewFile(uintptr(fds[0]), "our end")); err != nil {
		far.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// inherited is the connection that a parent passed on.
func inherited(descriptor uintptr) (net.Conn, error) {
	unix.CloseOnExec(int(descriptor))
	return connection(os.NewFile(descriptor, "parent"))
}

// connection makes a connection of a socket, whose file it takes.
func connection(f *os.File) (net.Conn, error) {
	defer f.Close() // FileConn has a duplicate
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("take connection: %w", err)
	}
	return conn, nil
}

// peakMemory is the most memory that this process has had resident, in bytes
// (VmHWM, proc(5)).
func peakMemory() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read peak memory: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) == 3 && fields[0] == "VmHWM:" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("read peak memory: /proc/self/status has no VmHWM")
}
