package room

import (
	"math"
	"testing"
)

func TestRoom(t *testing.T) {
	if err := Memory(0); err != nil {
		t.Errorf("no memory is too much: %v", err)
	}
	if err := Memory(1 << 60); err == nil {
		t.Error("an exbibyte of memory is to be had")
	}
	if err := Disk(t.TempDir(), 0); err != nil {
		t.Errorf("no space is too much: %v", err)
	}
	if err := Disk(t.TempDir(), math.MaxInt64-margin); err == nil {
		t.Error("there is space for eight exbibytes")
	}
	if err := Disk("/nowhere", 0); err == nil {
		t.Error("there is space in a folder that is not there")
	}
}

func TestAvailable(t *testing.T) {
	if n, ok := available("MemTotal:       100 kB\nMemAvailable:    42 kB\n"); !ok || n != 42<<10 {
		t.Errorf("got %d, %v", n, ok)
	}
	if _, ok := available("MemTotal: 100 kB\n"); ok {
		t.Error("an old kernel's MemAvailable was found")
	}
}
