package explore

import (
	"io"
	"sync"
	"syscall"

	"powercut/harness/disk"
	"powercut/harness/nbd"
)

// drive is an honest drive whose media is changed from one state to the next. What a
// recovery writes lies on top, and goes with the state.
type drive struct {
	size int64

	mu      sync.Mutex // guards all below; a reply is sent after it is given back
	media   io.ReaderAt
	written map[int64][]byte // sectors
	read    tally            // of the state itself
	err     error            // the first failure to read the state
	closed  bool
}

func newDrive(size int64) *drive {
	d := &drive{size: size}
	d.put(zeros{})
	return d
}

// zeros is a drive that was never written.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// put changes the media. The guest must hold nothing of the one before.
func (d *drive) put(media io.ReaderAt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.media, d.written, d.read, d.err = media, map[int64][]byte{}, tally{}, nil
}

// seen says what of the state was read since it was put in. It fails where the state could
// not be read.
func (d *drive) seen() (tally, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.read, d.err
}

// Export implements machine.Drive.
func (d *drive) Export() nbd.Export {
	return nbd.Export{Size: d.size, Flush: true, FUA: true, Trim: true, WriteZeroes: true}
}

// Close implements machine.Drive.
func (d *drive) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// Submit implements nbd.Device.
func (d *drive) Submit(r *nbd.Request, reply func(error)) {
	if err, answered := d.carryOut(r); answered {
		reply(err)
	}
}

func (d *drive) carryOut(r *nbd.Request) (err error, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false
	}
	first, n := r.Offset/disk.SectorSize, int64(r.Length)/disk.SectorSize
	switch r.Command {
	case nbd.Read:
		return d.fill(r.Data, first), true
	case nbd.Write:
		data := append([]byte(nil), r.Data...)
		for i := range n {
			d.written[first+i] = data[i*disk.SectorSize:][:disk.SectorSize]
		}
	case nbd.Trim, nbd.WriteZeroes:
		for i := range n {
			d.written[first+i] = blank[:]
		}
	}
	return nil, true
}

var blank [disk.SectorSize]byte

// fill answers a read, and counts the sectors of the state that it is given.
func (d *drive) fill(p []byte, first int64) error {
	err := d.content(p, first, d.read.count)
	if err == nil {
		return nil
	}
	if d.err == nil {
		d.err = err
	}
	return syscall.EIO
}

// content reads sectors: what was written since the state was put in, and of the rest the
// state, of each of which it tells. The caller holds mu.
func (d *drive) content(p []byte, first int64, ofState func(sector int64)) error {
	if _, err := d.media.ReadAt(p, first*disk.SectorSize); err != nil && err != io.EOF {
		return err
	}
	for i := range int64(len(p)) / disk.SectorSize {
		if b, ok := d.written[first+i]; ok {
			copy(p[i*disk.SectorSize:], b)
		} else {
			ofState(first + i)
		}
	}
	return nil
}
