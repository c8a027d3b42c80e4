package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"powercut/harness/nbd"
)

// nbdkitSocket is the name of nbdkit's socket in the folder of its guest.
const nbdkitSocket = "nbdkit.sock"

// loadLimit bounds the upload of the formatted disk to nbdkit.
const loadLimit = time.Minute

// nbdkit is a running `nbdkit memory`.
type nbdkit struct {
	child    *child
	listener net.Listener // nbdkit accepts from it; ours to close, which removes the socket
}

// startNbdkit starts nbdkit with a disk in memory that holds a copy of the image at
// base, on a socket in dir. The socket is made here and passed on while it listens
// (nbdkit-service(1), socket activation), so nothing has to be waited for. The shell
// is there because nbdkit wants to be told its own process id.
func startNbdkit(ctx context.Context, program, dir, base string) (_ *nbdkit, err error) {
	image, err := os.Open(base)
	if err != nil {
		return nil, fmt.Errorf("open formatted disk: %w", err)
	}
	defer image.Close()
	info, err := image.Stat()
	if err != nil {
		return nil, fmt.Errorf("open formatted disk: %w", err)
	}
	n := &nbdkit{}
	if n.listener, err = nbd.Listen(filepath.Join(dir, nbdkitSocket)); err != nil {
		return nil, err
	}
	if err = n.start(program, info.Size()); err == nil {
		err = n.load(ctx, dir, image)
	}
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *nbdkit) start(program string, size int64) error {
	socket, err := n.listener.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return fmt.Errorf("start nbdkit: %w", err)
	}
	defer socket.Close() // nbdkit has its own
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"`, "sh",
		program, "-f", "memory", "size="+strconv.FormatInt(size, 10))
	cmd.ExtraFiles = []*os.File{socket} // descriptor 3, the first of the protocol
	n.child, err = startChild(cmd)
	return err
}

// load copies the image to the server in dir. A connection to a server that has
// ended would stay open, since the socket is ours: so its end is watched.
func (n *nbdkit) load(ctx context.Context, dir string, image *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-n.child.done:
			end(errors.New("load disk: nbdkit has ended"))
		case <-ctx.Done():
		}
	}()
	return n.child.explain(load(ctx, dir, image))
}

// load copies the image to the server in dir.
func load(ctx context.Context, dir string, image *os.File) error {
	conn, err := dialIn(dir, nbdkitSocket)
	if err != nil {
		return fmt.Errorf("load disk: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	err = upload(conn, image)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// upload copies the image to the server at the other end of conn.
func upload(conn net.Conn, image *os.File) error {
	c, err := dial(conn)
	if err != nil {
		return err
	}
	if !c.flushes {
		return errors.New("load disk: nbdkit takes no flushes, so the comparison would not be fair")
	}
	if err := c.upload(image); err != nil {
		return err
	}
	return c.leave()
}

func (n *nbdkit) close() (err error) {
	if n.child != nil {
		err = n.child.kill()
	}
	return errors.Join(err, n.listener.Close())
}
