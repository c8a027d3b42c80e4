package nbd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the longest path that fits the address of a unix socket
// beside its terminating zero; see unix(7).
const maxSocketPath = 107

// Listen creates a unix socket at path, which must not exist yet, with mode
// 0600. Closing the listener removes the socket. Between its creation and the
// change of its mode only the folder guards it, so that is to be private
// (mode 0700), and the caller makes it so.
//
// The path may be longer than the 107 bytes that a socket's address can hold,
// if its last element is not. Clients then need a shorter name for it: one
// relative to their working folder, or /proc/self/fd/N/name.
func Listen(path string) (net.Listener, error) {
	l, err := bind(path)
	if err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w (the file is there already; remove it if no server uses it)", err)
		}
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it knows the name that was bound, which need not last
	absolute, err := filepath.Abs(path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close(), os.Remove(path))
	}
	return &listener{UnixListener: l, path: absolute}, nil
}

// bind listens at path under a name that fits.
func bind(path string) (*net.UnixListener, error) {
	if strings.HasPrefix(path, "@") {
		path = "./" + path // else it would not be a file
	}
	if len(path) <= maxSocketPath {
		return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	}
	folder, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	defer unix.Close(folder)
	name := fmt.Sprintf("/proc/self/fd/%d/%s", folder, filepath.Base(path))
	if len(name) > maxSocketPath {
		return nil, fmt.Errorf("file name %s is too long: %w", filepath.Base(path), unix.ENAMETOOLONG)
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
}

// listener removes its socket when it is closed.
type listener struct {
	*net.UnixListener
	path  string // absolute
	close sync.Once
	err   error // of the first Close
}

// Close stops listening and removes the socket. Only the first call counts.
func (l *listener) Close() error {
	l.close.Do(func() {
		rm := os.Remove(l.path)
		if errors.Is(rm, fs.ErrNotExist) {
			rm = nil // its folder was removed before
		}
		l.err = errors.Join(l.UnixListener.Close(), rm)
	})
	return l.err
}
