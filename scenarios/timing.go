package scenarios

import (
	"fmt"
	"time"
)

// Profile names a set of values for Timing.
type Profile string

// The profiles.
const (
	NoTiming Profile = "none"     // the drive answers at once
	IDE7200  Profile = "ide-7200" // a desktop IDE disk of 2003
)

// Timing is a drive's mechanics: how long a request takes until the media holds
// it. A seek over a distance of d of the drive's n tracks takes
//
//	SeekMin + (SeekMax-SeekMin)·√((d-1)/n)
//
// and nothing where d is 0. After the seek the drive waits for the sector to come
// round, and transfers at the rate at which sectors pass.
type Timing struct {
	Profile         Profile       `yaml:"profile" required:"true" doc:"gives the fields that are not named here"`
	RPM             int           `yaml:"rpm" min:"60" max:"1000000" doc:"revolutions per minute"`
	SectorsPerTrack int           `yaml:"sectors-per-track" min:"1" max:"1000000" doc:"sectors of 512 bytes that pass in one revolution"`
	SeekMin         time.Duration `yaml:"seek-min" min:"0s" max:"1s" doc:"a seek to the next track"`
	SeekMax         time.Duration `yaml:"seek-max" min:"0s" max:"1s" doc:"a seek over the whole drive"`
	BusRate         Rate          `yaml:"bus-rate" min:"1kB/s" max:"100GB/s" doc:"between the drive's cache and the guest"`
	Overhead        time.Duration `yaml:"overhead" min:"0s" max:"100ms" doc:"of each request, before anything moves"`
}

// Timing returns the profile's values.
func (p Profile) Timing() Timing {
	switch p {
	case IDE7200:
		return Timing{
			Profile:         IDE7200,
			RPM:             7200,
			SectorsPerTrack: 900,
			SeekMin:         800 * time.Microsecond,
			SeekMax:         15 * time.Millisecond,
			BusRate:         66e6,
			Overhead:        50 * time.Microsecond,
		}
	default:
		return Timing{Profile: NoTiming}
	}
}

// Revolution is the time of one turn of the disk, 0 where there is no timing.
func (t Timing) Revolution() time.Duration {
	if t.RPM == 0 {
		return 0
	}
	return time.Minute / time.Duration(t.RPM)
}

// String names the profile, and the changes to it: "ide-7200 (rpm 5400)".
func (t Timing) String() string {
	base := t.Profile.Timing()
	text := string(t.Profile)
	changes := ""
	note := func(name string, is, was any) {
		if is != was {
			changes += fmt.Sprintf(", %s %v", name, is)
		}
	}
	note("rpm", t.RPM, base.RPM)
	note("sectors-per-track", t.SectorsPerTrack, base.SectorsPerTrack)
	note("seek-min", t.SeekMin, base.SeekMin)
	note("seek-max", t.SeekMax, base.SeekMax)
	note("bus-rate", t.BusRate, base.BusRate)
	note("overhead", t.Overhead, base.Overhead)
	if changes == "" {
		return text
	}
	return text + " (" + changes[2:] + ")"
}
