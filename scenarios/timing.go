package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Profile names a set of values for Timing.
type Profile string

// The profiles. What each of their values comes from is in Profile.Sources.
const (
	NoTiming    Profile = "none"         // the drive answers at once
	IDE7200     Profile = "ide-7200"     // a desktop IDE disk of 2003
	IDE5400     Profile = "ide-5400"     // a desktop IDE disk of 1999
	Laptop5400  Profile = "laptop-5400"  // a laptop's SATA disk of 2013
	SSDSATA     Profile = "ssd-sata"     // a SATA solid-state drive of 2015
	SSDConsumer Profile = "ssd-consumer" // a fast NVMe drive for consumers, whose FUA is slower than its flush
	SSDServer   Profile = "nvme"         // an NVMe drive for servers, whose buffer outlives a power cut and so need not be flushed
)

// Profiles lists them all.
func Profiles() []Profile {
	return []Profile{NoTiming, IDE7200, IDE5400, Laptop5400, SSDSATA, SSDConsumer, SSDServer}
}

// DriveKind is what a drive's timing comes from.
type DriveKind string

// The kinds. Each has fields of Timing of its own; those that name no kind in their
// tags belong to both.
const (
	Untimed    DriveKind = ""
	Rotating   DriveKind = "rotating"
	SolidState DriveKind = "solid-state"
)

// Timing is how long a drive takes.
//
// On a rotating drive a seek over d of the drive's n tracks takes
//
//	SeekMin + (SeekMax-SeekMin)·√((d-1)/n)
//
// and nothing where d is 0. After the seek the drive waits for the sector to come
// round, and transfers at the rate at which sectors pass.
//
// On a solid-state drive reads and programs go to pages, of which consecutive ones
// lie on different channels.
//
// On both a write that the cache takes costs the overhead and the bus, unless the
// buffer is full.
type Timing struct {
	Profile         Profile       `yaml:"profile" required:"true" doc:"gives the fields that are not named here"`
	BusRate         Rate          `yaml:"bus-rate" min:"1kB/s" max:"100GB/s" doc:"between the drive's buffer and the guest"`
	Overhead        time.Duration `yaml:"overhead" min:"0s" max:"100ms" doc:"of each request, before anything else"`
	Buffer          Size          `yaml:"buffer" min:"4KiB" max:"64GiB" doc:"what the write cache holds; a write that finds it full waits for the media"`
	RPM             int           `yaml:"rpm" kind:"rotating" min:"60" max:"1000000" doc:"revolutions per minute"`
	SectorsPerTrack int           `yaml:"sectors-per-track" kind:"rotating" min:"1" max:"1000000" doc:"sectors of 512 bytes that pass in one revolution"`
	SeekMin         time.Duration `yaml:"seek-min" kind:"rotating" min:"0s" max:"1s" doc:"a seek to the next track"`
	SeekMax         time.Duration `yaml:"seek-max" kind:"rotating" min:"0s" max:"1s" doc:"a seek over the whole drive"`
	Channels        int           `yaml:"channels" kind:"solid-state" min:"1" max:"1024" doc:"pages that are read or programmed at the same time"`
	Page            Size          `yaml:"page" kind:"solid-state" min:"512" max:"16MiB" doc:"what a channel reads or programs at once"`
	Read            time.Duration `yaml:"read" kind:"solid-state" min:"0s" max:"1s" doc:"to read a page"`
	Program         time.Duration `yaml:"program" kind:"solid-state" min:"0s" max:"1s" doc:"to program a page, where a write finds the buffer full"`
	Flush           time.Duration `yaml:"flush" kind:"solid-state" min:"0s" max:"1s" doc:"of a flush that finds anything in the cache"`
	FlushPage       time.Duration `yaml:"flush-page" kind:"solid-state" min:"0s" max:"1s" doc:"of a flush, for each page that a channel has to program"`
	FUA             time.Duration `yaml:"fua" kind:"solid-state" min:"0s" max:"10s" doc:"what a write costs that is to be on the media when it is answered, beyond one that the cache takes"`
}

// Revolution is the time of one turn of the disk, 0 where there is none.
func (t Timing) Revolution() time.Duration {
	if t.RPM == 0 {
		return 0
	}
	return time.Minute / time.Duration(t.RPM)
}

// timingFields are the fields that mean something for drives of a kind, the profile
// first.
func timingFields(kind DriveKind) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Timing]()), func(f reflect.StructField) bool {
		of := DriveKind(f.Tag.Get("kind"))
		return f.Name != "Profile" && (kind == Untimed || of != Untimed && of != kind)
	})
}

// String names the profile, and the changes to it: "ide-7200 (rpm 5400)".
func (t Timing) String() string {
	is, was := reflect.ValueOf(t), reflect.ValueOf(t.Profile.Timing())
	var changes []string
	for _, f := range timingFields(t.Profile.Kind()) {
		if v := is.FieldByIndex(f.Index); !v.Equal(was.FieldByIndex(f.Index)) {
			changes = append(changes, fmt.Sprintf("%s %v", fieldName(f), v))
		}
	}
	if len(changes) == 0 {
		return string(t.Profile)
	}
	return fmt.Sprintf("%s (%s)", t.Profile, strings.Join(changes, ", "))
}

// encode writes a profile by its name and anything else field by field, without
// those that mean nothing for its kind of drive.
func (t Timing) encode() any {
	if t == t.Profile.Timing() {
		return plain(t.Profile)
	}
	var out yaml.MapSlice
	for _, f := range timingFields(t.Profile.Kind()) {
		out = append(out, yaml.MapItem{Key: fieldName(f), Value: encode(reflect.ValueOf(t).FieldByIndex(f.Index))})
	}
	return out
}

// checkField says what is wrong with naming a field over the profile.
func (t Timing) checkField(f field, path string) error {
	meant := timingFields(t.Profile.Kind())
	if slices.ContainsFunc(meant, func(sf reflect.StructField) bool { return fieldName(sf) == f.name }) {
		return nil
	}
	sf, _ := fieldOf(reflect.TypeFor[Timing](), f.name)
	var with []string
	for _, p := range Profiles() {
		if of := DriveKind(sf.Tag.Get("kind")); p.Kind() != Untimed && (of == Untimed || of == p.Kind()) {
			with = append(with, string(p))
		}
	}
	return f.place.errorf("%s.%s: means nothing with the profile %s; allowed with: %s", path, f.name, t.Profile, strings.Join(with, ", "))
}

// check holds the values against each other.
func (t Timing) check(d *decoder, path string) error {
	if t.SeekMax < t.SeekMin {
		return d.at(path+".seek-max").errorf("%s.seek-max: %s is less than seek-min, which is %s",
			path, formatDuration(t.SeekMax), formatDuration(t.SeekMin))
	}
	if t.Page%512 != 0 {
		return d.at(path+".page").errorf("%s.page: %s is not a multiple of a sector, which is 512 bytes", path, t.Page)
	}
	return nil
}
