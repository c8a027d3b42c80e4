package blocklog

import (
	"errors"
	"fmt"
	"io"
)

// Damage says where a log stops making sense. The events before it are sound.
type Damage struct {
	Event int   // position of the event that cannot be read
	Byte  int64 // where it begins in the log, uncompressed
	What  error
}

func (d *Damage) Error() string {
	return fmt.Sprintf("block log is damaged at event %d, byte %d: %v", d.Event, d.Byte, d.What)
}

// Unwrap gives the reason, and ErrDamaged.
func (d *Damage) Unwrap() []error { return []error{d.What, ErrDamaged} }

// Salvage reads the log at path, in either of its forms as Open does, up to its end or its first damage, whichever
// comes first; damage is nil where there is none. A file that ends inside an event
// counts as damaged there. It fails where the file cannot be read or its header
// says nothing.
func Salvage(path string) (l *Log, damage *Damage, err error) {
	f, err := openFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open block log: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		l, err = Load(f, info.Size())
	}
	if err != nil && !errors.As(err, &damage) {
		f.Close()
		return nil, nil, fmt.Errorf("open block log %s: %w", f.Name(), err)
	}
	if l.Truncated {
		missing := fmt.Errorf("the file ends %d bytes into it: %w", l.bytes-l.end, io.ErrUnexpectedEOF)
		damage = &Damage{Event: len(l.Events), Byte: l.end, What: missing}
	}
	l.close = f
	return l, damage, nil
}
