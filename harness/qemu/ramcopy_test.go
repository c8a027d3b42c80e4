package qemu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// drawRAM makes small memory with a random scatter of pages, some of them
// written with zeroes.
func drawRAM(t *rapid.T) *ram {
	const pages = 1024 // 4 MiB
	mem, err := newRAM(pages * pageSize)
	if err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 12).Draw(t, "runs") {
		first := rapid.IntRange(0, pages-1).Draw(t, "first page")
		length := rapid.IntRange(1, min(600, pages-first)).Draw(t, "pages")
		value := rapid.ByteRange(0, 3).Draw(t, "value")
		for i := range length {
			mem.bytes[(first+i)*pageSize+rapid.IntRange(0, pageSize-1).Draw(t, "at")] = value
		}
	}
	return mem
}

// Whatever the memory holds comes back, no zero page is stored, and the
// extents are as the manifest demands.
func TestRAMRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), ramName)
	rapid.Check(t, func(t *rapid.T) {
		mem := drawRAM(t)
		defer mem.close()
		extents, err := saveRAM(t.Context(), mem, path)
		if err != nil {
			t.Fatal(err)
		}
		size := int64(len(mem.bytes))
		if err := (manifest{Memory: size, Extents: extents}).checkExtents(); err != nil {
			t.Fatal(err)
		}
		for _, e := range extents {
			for page := e.Offset; page < e.Offset+e.Length; page += pageSize {
				if bytes.Equal(mem.bytes[page:page+pageSize], zeroPage) {
					t.Fatalf("zero page at %d stored", page)
				}
			}
		}
		copied, err := newRAM(size)
		if err != nil {
			t.Fatal(err)
		}
		defer copied.close()
		if err := loadRAM(t.Context(), path, extents, copied); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(mem.bytes, copied.bytes) {
			t.Fatal("the copy differs")
		}
	})
}

// One changed byte anywhere in what is stored is found.
func TestRAMDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), ramName)
	rapid.Check(t, func(t *rapid.T) {
		mem := drawRAM(t)
		defer mem.close()
		mem.bytes[0] = 1 // so that there is something to damage
		extents, err := saveRAM(t.Context(), mem, path)
		if err != nil {
			t.Fatal(err)
		}
		e := rapid.SampledFrom(extents).Draw(t, "extent")
		at := e.Offset + rapid.Int64Range(0, e.Length-1).Draw(t, "offset")
		flip := rapid.ByteRange(1, 255).Draw(t, "flip")
		if rapid.Bool().Draw(t, "cut off") {
			err = os.Truncate(path, at)
		} else {
			err = overwrite(path, at, mem.bytes[at]^flip)
		}
		if err != nil {
			t.Fatal(err)
		}
		copied, err := newRAM(int64(len(mem.bytes)))
		if err != nil {
			t.Fatal(err)
		}
		defer copied.close()
		if err := loadRAM(t.Context(), path, extents, copied); !errors.Is(err, ErrTemplateDamaged) {
			t.Fatalf("got %v", err)
		}
	})
}

// overwrite puts one byte into a file.
func overwrite(path string, at int64, value byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{value}, at)
	return errors.Join(err, f.Close())
}

func TestCheckExtents(t *testing.T) {
	const memory = 8 << 20
	tests := map[string]struct {
		extents []extent
		good    bool
	}{
		"none":          {nil, true},
		"touching":      {[]extent{{Length: 4096}, {Offset: 4096, Length: 4096}}, true},
		"up to the end": {[]extent{{Offset: memory - 4096, Length: 4096}}, true},
		"beyond":        {[]extent{{Offset: memory - 4096, Length: 8192}}, false},
		"far beyond":    {[]extent{{Offset: 1<<63 - 1, Length: 4096}}, false},
		"overlapping":   {[]extent{{Length: 8192}, {Offset: 4096, Length: 4096}}, false},
		"backwards":     {[]extent{{Offset: 8192, Length: 4096}, {Length: 4096}}, false},
		"negative":      {[]extent{{Offset: -4096, Length: 4096}}, false},
		"empty":         {[]extent{{Offset: 4096}}, false},
		"too long":      {[]extent{{Length: maxExtent + 1}}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := manifest{Memory: memory, Extents: tt.extents}.checkExtents()
			if (err == nil) != tt.good || err != nil && !errors.Is(err, ErrTemplateDamaged) {
				t.Errorf("got %v", err)
			}
		})
	}
}
