package machine

import (
	"powercut/harness/nbd"
)

// unit is a part of a drive that the guest sees as a disk of its own. What is asked of it
// is asked of that part of the drive, a flush too: it is for no other disk.
type unit struct {
	Drive
	offset, size int64
}

// Export implements Drive.
func (u unit) Export() nbd.Export {
	e := u.Drive.Export()
	e.Size = u.size
	return e
}

// Submit implements nbd.Device.
func (u unit) Submit(r *nbd.Request, reply func(error)) {
	r.Offset += u.offset
	if r.Command == nbd.Flush {
		r.Length = int(u.size)
	}
	u.Drive.Submit(r, reply)
}

// extent is a unit's place on the drive, in bytes.
type extent struct{ offset, size int64 }

// units are the disks that the drive of the spec's guests is divided into.
func (s Spec) units() []extent {
	list := []extent{{0, s.DriveSize}}
	if s.Second > 0 {
		list = append(list, extent{s.DriveSize, s.Second})
	}
	return list
}

// disks are the drive as the disks of the spec's guests.
func (s Spec) disks(d Drive) []Drive {
	units := s.units()
	if len(units) == 1 {
		return []Drive{d}
	}
	var list []Drive
	for _, u := range units {
		list = append(list, unit{d, u.offset, u.size})
	}
	return list
}
