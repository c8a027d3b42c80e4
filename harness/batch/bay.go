package batch

import (
	"sync"

	"powercut/harness/disk"
	"powercut/harness/nbd"
)

// bay is a guest's drive, which is changed for another between two requests.
type bay struct {
	mu    sync.Mutex // guards drive
	drive *disk.Drive
}

// put changes the drive; the one before is closed. The guest must hold nothing of it.
func (b *bay) put(d *disk.Drive) {
	old := b.current()
	b.mu.Lock()
	b.drive = d
	b.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

func (b *bay) current() *disk.Drive {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drive
}

// Submit implements nbd.Device.
func (b *bay) Submit(r *nbd.Request, reply func(error)) { b.current().Submit(r, reply) }

// Export implements machine.Drive.
func (b *bay) Export() nbd.Export { return b.current().Export() }

// Close implements machine.Drive.
func (b *bay) Close() { b.current().Close() }
