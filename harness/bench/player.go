package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/nbd"
	"powercut/harness/punctual"
)

// trialLimit bounds a trial on a real drive.
const trialLimit = 2 * time.Minute

// played is what a trial on a real drive gave.
type played struct {
	times   []float64       // of the timed steps
	outside []float64       // of all requests: the part of their time outside the drive
	arrived []time.Duration // when each reached the drive
}

// playOnDrive plays a trial on a drive behind an NBD socket.
func (r *rig) playOnDrive(ctx context.Context, timing disk.Timing, t trial) (out played, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	dir, err := os.MkdirTemp(r.folder, "trial-")
	if err != nil {
		return out, fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, blockLog)
	log, err := blocklog.Create(path, selfTestSize)
	if err != nil {
		return out, err
	}
	d := disk.New(disk.Config{Base: machine.Zeros{}, Size: selfTestSize, Log: log, WriteCache: t.cache, Timing: timing})
	p := &socketPlayer{}
	out.times, err = p.serve(ctx, dir, d, t)
	d.Close()
	if err = errors.Join(err, log.Close()); err != nil {
		return out, err
	}
	return out, p.divide(path, &out)
}

// socketPlayer plays over a connection.
type socketPlayer struct {
	client *client
	buf    []byte
	last   time.Time // of the last answer
	took   []float64 // by each request
}

// serve serves the drive on a socket in dir, and plays a trial there.
func (p *socketPlayer) serve(ctx context.Context, dir string, d *disk.Drive, t trial) (times []float64, err error) {
	l, err := nbd.Listen(filepath.Join(dir, "nbd"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			punctual.Thread()
			err = nbd.Serve(ctx, conn, d.Export(), d)
		}
		served <- err
	}()
	conn, err := dialIn(dir, "nbd")
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	played := make(chan struct{})
	go func() { // a thread that is not late itself
		defer close(played)
		punctual.Thread()
		times, err = p.play(conn, t)
	}()
	<-played
	conn.Close()
	l.Close()
	return times, errors.Join(err, ctx.Err(), <-served)
}

// dialIn connects to a socket in a folder, however long the path is.
func dialIn(dir, name string) (net.Conn, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer folder.Close()
	return net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name))
}

func (p *socketPlayer) play(conn net.Conn, t trial) ([]float64, error) {
	var err error
	if p.client, err = dial(punctual.Conn(conn)); err != nil {
		return nil, err
	}
	p.buf = make([]byte, mib)
	p.last = time.Now()
	times, err := play(p, t)
	return times, errors.Join(err, p.client.leave())
}

func (p *socketPlayer) do(e *blocklog.Event) (float64, error) {
	var err error
	switch b := p.buf[:e.Length]; {
	case e.Op == blocklog.Read:
		err = p.client.read(b, e.Offset)
	case e.Op == blocklog.Flush:
		err = p.client.flush()
	case e.FUA:
		err = p.client.force(b, e.Offset)
	default:
		err = p.client.write(b, e.Offset)
	}
	now := time.Now()
	took := float64(now.Sub(p.last))
	p.last = now
	p.took = append(p.took, took)
	return took, err
}

// divide takes of each request's time the part in the drive, by the log, away.
func (p *socketPlayer) divide(path string, out *played) error {
	log, err := blocklog.Open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	for _, e := range log.Events { // one request is in flight at a time
		if e.Kind == blocklog.Arrive {
			out.arrived = append(out.arrived, e.Time)
			continue
		}
		n := len(out.arrived) - 1
		out.outside = append(out.outside, p.took[n]-float64(e.Time-out.arrived[n]))
	}
	if len(out.outside) != len(p.took) {
		return fmt.Errorf("measure timing: %d of %d requests are in the log", len(out.outside), len(p.took))
	}
	return nil
}
