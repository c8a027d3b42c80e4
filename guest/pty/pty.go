// Package pty opens pseudoterminals (pty(7)): in a guest for the shell of a session,
// and in tests for a program that wants a terminal.
package pty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open returns the two ends of a new pseudoterminal: what is written to one is read
// from the other, as typed at terminal, or as printed there by a program.
func Open() (master, terminal *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open pseudoterminal: %w", err)
	}
	if terminal, err = other(master); err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("open pseudoterminal: %w", err)
	}
	return master, terminal, nil
}

func other(master *os.File) (*os.File, error) {
	raw, err := master.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n uint32
	var failed error
	err = raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			n, failed = unix.IoctlGetUint32(int(fd), unix.TIOCGPTN)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
}

// Resize sets the size of a terminal, in characters. Either end may be given.
func Resize(f *os.File, rows, columns uint16) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("set the size of a terminal: %w", err)
	}
	return nil
}
