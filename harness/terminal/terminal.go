// Package terminal lends the user's terminal to a program that wants each key as it is
// typed, and gives it back as it was.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"powercut/guest/wire"
)

// HangUp is the key that ends a session whatever the program does: Ctrl-].
const HangUp = 0x1d

// Terminal is one in raw mode: keys come as they are typed, and none of them is a
// signal. Close it.
type Terminal struct {
	file    *os.File
	before  *term.State
	sizes   chan wire.Size
	signals chan os.Signal
	ctx     context.Context
	stop    context.CancelFunc
}

// Is tells whether a file is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Open puts a terminal into raw mode until Close, or the end of ctx.
func Open(ctx context.Context, f *os.File) (*Terminal, error) {
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	t := &Terminal{file: f, before: before, sizes: make(chan wire.Size), signals: make(chan os.Signal, 1)}
	t.ctx, t.stop = context.WithCancel(ctx)
	signal.Notify(t.signals, unix.SIGWINCH)
	go t.watch()
	return t, nil
}

// Close gives the terminal back.
func (t *Terminal) Close() error {
	t.stop()
	signal.Stop(t.signals)
	if err := term.Restore(int(t.file.Fd()), t.before); err != nil {
		return fmt.Errorf("restore terminal: %w", err)
	}
	return nil
}

// Size is the terminal's size; 24 × 80 where it does not know.
func (t *Terminal) Size() wire.Size {
	columns, rows, err := term.GetSize(int(t.file.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return wire.Size{Rows: 24, Columns: 80}
	}
	return wire.Size{Rows: uint16(rows), Columns: uint16(columns)}
}

// Resized tells of each new size.
func (t *Terminal) Resized() <-chan wire.Size { return t.sizes }

func (t *Terminal) watch() {
	for {
		select {
		case <-t.signals:
			select {
			case t.sizes <- t.Size():
			case <-t.ctx.Done():
				return
			}
		case <-t.ctx.Done():
			return
		}
	}
}

// pollEvery bounds how long a read goes on after the terminal was closed, in
// milliseconds.
const pollEvery = 100

// Read waits for keys. It ends with io.EOF at HangUp, where the terminal is gone, and
// after Close.
func (t *Terminal) Read(p []byte) (int, error) {
	for t.ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(t.file.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, pollEvery)
		if errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n, err = t.file.Read(p); err != nil {
			return 0, io.EOF
		}
		for i, key := range p[:n] {
			if key == HangUp {
				return i, io.EOF
			}
		}
		return n, nil
	}
	return 0, io.EOF
}
