package logwrites

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const driveSize = 64 << 10

// memory is a log in memory.
type memory struct{ bytes []byte }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if need := off + int64(len(p)); need > int64(len(m.bytes)) {
		m.Truncate(need)
	}
	return copy(m.bytes[off:], p), nil
}

func (m *memory) Truncate(size int64) error {
	m.bytes = append(m.bytes, make([]byte, max(size-int64(len(m.bytes)), 0))...)[:size]
	return nil
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func check(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// written is a log of what add adds.
func written(t fataler, sector int, add func(w *Writer)) []byte {
	t.Helper()
	m := &memory{}
	w, err := NewWriter(m, sector)
	check(t, err)
	add(w)
	check(t, w.Close())
	return m.bytes
}

// read returns a log's entries and how they ended.
func read(log []byte, drive int64) ([]Entry, error) {
	r, err := NewReader(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		return nil, err
	}
	r.Drive = drive
	var out []Entry
	for {
		e, err := r.Next()
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
}

// sample is a log with one entry of each kind.
func sample(t fataler) []byte {
	return written(t, 512, func(w *Writer) {
		check(t, w.Write(1024, bytes.Repeat([]byte{1}, 1024), 0))
		check(t, w.Flush())
		check(t, w.Mark("ack op 1"))
		check(t, w.Write(0, bytes.Repeat([]byte{2}, 512), FUA|Metadata))
		check(t, w.Discard(2048, 4096, 0))
		check(t, w.Zeroes(512, 512, 0))
	})
}

func TestSample(t *testing.T) {
	got, err := read(sample(t), driveSize)
	want := []Entry{
		{Number: 0, At: 512, Offset: 1024, Length: 1024, DataAt: 1024},
		{Number: 1, At: 2048, Flags: Flush},
		{Number: 2, At: 2560, Flags: Mark, Text: "ack op 1"},
		{Number: 3, At: 3072, Flags: FUA | Metadata, Length: 512, DataAt: 3584},
		{Number: 4, At: 4096, Flags: Discard, Offset: 2048, Length: 4096},
		{Number: 5, At: 4608, Offset: 512, Length: 512, DataAt: 5120},
	}
	if d := cmp.Diff(want, got); d != "" || err != io.EOF {
		t.Errorf("ended with %v; entries (-want +got):\n%s", err, d)
	}
}

// TestGolden: the bytes are those of the format, field by field.
func TestGolden(t *testing.T) {
	got := written(t, 4096, func(w *Writer) {
		check(t, w.Write(8192, bytes.Repeat([]byte{7}, 4096), FUA))
		check(t, w.Mark("m"))
	})
	want := make([]byte, 4*4096)
	copy(want, "rhswfsj\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00")
	copy(want[4096:], "\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00")
	copy(want[8192:], bytes.Repeat([]byte{7}, 4096))
	copy(want[3*4096+16:], "\x08\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00m")
	if !bytes.Equal(got, want) {
		t.Errorf("the log differs from byte %d on", len(want)-len(bytes.TrimLeft(want, string(got))))
	}
}

func TestFlagsString(t *testing.T) {
	for f, want := range map[Flags]string{0: "NONE", Flush: "FLUSH", FUA | Metadata: "FUA|METADATA", Mark | 64: "MARK|UNKNOWN 0x40"} {
		if got := f.String(); got != want {
			t.Errorf("%d is %q, want %q", uint64(f), got, want)
		}
	}
}

// TestLongMark: a mark's text is cut where a zero must still follow it.
func TestLongMark(t *testing.T) {
	got, err := read(written(t, 512, func(w *Writer) { check(t, w.Mark(strings.Repeat("x", 1000))) }), 0)
	if err != io.EOF || len(got) != 1 || len(got[0].Text) != 512-32-1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestWriterRefuses(t *testing.T) {
	w, err := NewWriter(&memory{}, 512)
	check(t, err)
	for name, err := range map[string]error{
		"offset": w.Write(1, make([]byte, 512), 0), "length": w.Write(0, make([]byte, 511), 0),
		"nothing": w.Write(0, nil, 0), "negative": w.Discard(-512, 512, 0),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for _, sector := range []int{0, 256, 513, 16 << 20} {
		if _, err := NewWriter(&memory{}, sector); err == nil {
			t.Errorf("sectors of %d bytes were taken", sector)
		}
	}
}

// put changes a little-endian number of a log.
func put(at int, v uint64) func([]byte) []byte {
	return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
}

// TestDamage: what no writer can have written ends the log, exactly there.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		entry  int
		at     int64
		what   string
	}{
		{"unknown flag", put(2048+16, 1|32), 1, 2048, "flags 0x21"},
		{"an entry that was never written", func(b []byte) []byte { clear(b[2048:2560]); return b }, 1, 2048, "nothing was written"},
		{"rubbish after an entry", put(2048+100, 0xff), 1, 2048, "byte 100 of its sector"},
		{"rubbish after a mark", put(2560+40, 9), 2, 2560, "byte 40 of its sector"},
		{"mark too long", put(2560+24, 481), 2, 2560, "481 bytes"},
		{"mark with sectors", put(2560+8, 1), 2, 2560, "a mark with sectors 0+1"},
		{"mark that is a flush too", put(2560+16, 9), 2, 2560, "FLUSH|MARK"},
		{"data length beyond the data", put(3072+24, 513), 3, 3072, "513 bytes, in 512"},
		{"beyond the drive", put(3072, driveSize/512), 3, 3072, "beyond the drive of 65536"},
		{"beyond any drive", put(3072, 1<<60), 3, 3072, "beyond any drive"},
		{"sectors without end", put(3072+8, 1<<63), 3, 3072, "beyond any drive"},
		{"discard of nothing", put(4096+8, 0), 4, 4096, "a discard of nothing"},
		{"cut off in data", func(b []byte) []byte { return b[:5600] }, 5, 4608, "file ends at byte 5600"},
		{"cut off in an entry", func(b []byte) []byte { return b[:4700] }, 5, 4608, "with 5 of 6 entries"},
		{"more entries than there are", put(16, 7), 6, 5632, "with 6 of 7 entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(c.change(sample(t)), driveSize)
			var d *Damage
			if !errors.As(err, &d) || d.Entry != c.entry || d.Byte != c.at || !strings.Contains(d.What, c.what) || len(got) != c.entry {
				t.Errorf("%d entries, then %v; want %d, byte %d, %q", len(got), err, c.entry, c.at, c.what)
			}
		})
	}
}

func TestNotALog(t *testing.T) {
	for name, log := range map[string][]byte{
		"empty": nil, "short": sample(t)[:20], "zeros": make([]byte, 4096), "text": bytes.Repeat([]byte("log"), 100),
		"version": put(8, 2)(sample(t)), "no sector size": put(24, 0)(sample(t)), "odd sector size": put(24, 520)(sample(t)),
		"large sectors": put(24, 16<<20)(sample(t)),
	} {
		if _, err := read(log, 0); !errors.Is(err, ErrNotLog) {
			t.Errorf("%s: error is %v, want ErrNotLog", name, err)
		}
	}
}

// TestShort: a log that ends early gives a prefix of its entries and then, unless it
// is whole, the damage.
func TestShort(t *testing.T) {
	whole := sample(t)
	want, _ := read(whole, driveSize)
	for n := 512; n < len(whole); n++ {
		got, err := read(whole[:n], driveSize)
		var d *Damage
		if !errors.As(err, &d) || d.Entry != len(got) || d.Byte != want[len(got)].At {
			t.Fatalf("%d bytes: %d entries, then %v", n, len(got), err)
		}
		if diff := cmp.Diff(want[:len(got)], got, cmp.Transformer("all", func(e []Entry) []Entry { return append([]Entry{}, e...) })); diff != "" {
			t.Fatalf("%d bytes (-want +got):\n%s", n, diff)
		}
	}
}

// TestRoundTrip: what is written is what is read, for any sector size.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sector := 512 << rapid.IntRange(0, 4).Draw(t, "sector")
		var want []Entry
		var data [][]byte
		log := written(t, sector, func(w *Writer) {
			for range rapid.IntRange(0, 20).Draw(t, "entries") {
				e := Entry{Offset: int64(sector) * rapid.Int64Range(0, 1<<40).Draw(t, "at"), Length: int64(sector) * rapid.Int64Range(1, 4).Draw(t, "length")}
				var p []byte
				switch rapid.IntRange(0, 4).Draw(t, "kind") {
				case 0:
					e = Entry{Flags: Flush}
					check(t, w.Flush())
				case 1:
					e = Entry{Flags: Mark, Text: rapid.StringN(0, 40, 100).Draw(t, "text")}
					check(t, w.Mark(e.Text))
				case 2:
					e.Flags = Discard
					check(t, w.Discard(e.Offset, e.Length, 0))
				case 3:
					p = make([]byte, e.Length)
					check(t, w.Zeroes(e.Offset, e.Length, 0))
				default:
					e.Flags = rapid.SampledFrom([]Flags{0, FUA, Metadata, FUA | Metadata}).Draw(t, "flags")
					p = bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, int(e.Length))
					check(t, w.Write(e.Offset, p, e.Flags))
				}
				want, data = append(want, e), append(data, p)
			}
		})
		got, err := read(log, 0)
		if err != io.EOF || len(got) != len(want) {
			t.Fatalf("%d entries, then %v; want %d", len(got), err, len(want))
		}
		for i, e := range got {
			if p := log[e.DataAt:][:len(data[i])]; e.DataAt != 0 && !bytes.Equal(p, data[i]) || (e.DataAt == 0) != (data[i] == nil) {
				t.Fatalf("entry %d has other data", i)
			}
			e.Number, e.At, e.DataAt = 0, 0, 0
			if e != want[i] {
				t.Fatalf("entry %d is %+v, want %+v", i, e, want[i])
			}
		}
	})
}

// FuzzReader: no bytes make the reader fail in another way than it says, and what it
// takes is what the writer makes.
func FuzzReader(f *testing.F) {
	f.Add(sample(f))
	f.Add(sample(f)[:3000])
	f.Add(written(f, 4096, func(w *Writer) { check(f, w.Mark("fsync")) }))
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > 1<<20 {
			return
		}
		got, err := read(log, driveSize)
		var d *Damage
		if err != io.EOF && !errors.As(err, &d) && !errors.Is(err, ErrNotLog) {
			t.Fatalf("error is %v", err)
		}
		if d != nil && (d.Entry != len(got) || d.Byte > int64(max(len(log), MaxSectorSize))) {
			t.Fatalf("%d entries, then %v", len(got), d)
		}
		for _, e := range got {
			again := rewrite(t, log, e)
			from := log[e.At:][:len(again)]
			copy(again[24:32], from[24:32]) // a data length, which only the kernel's DAX logs have
			if e.Flags&Mark == 0 && !bytes.Equal(from, again) {
				t.Fatalf("entry %+v is written as other bytes", e)
			}
		}
	})
}

// rewrite is an entry and its data as the writer has them.
func rewrite(t fataler, log []byte, e Entry) []byte {
	sector := int64(binary.LittleEndian.Uint32(log[24:]))
	m := &memory{}
	w, err := NewWriter(m, int(sector))
	check(t, err)
	check(t, w.entry(e.Offset, e.Length, e.Flags, e.Text))
	if e.DataAt != 0 {
		_, err = m.WriteAt(log[e.DataAt:][:e.Length], w.at)
		check(t, err)
	}
	return m.bytes[sector:]
}

// TestHoles: zeros take no room.
func TestHoles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check(t, err)
	defer f.Close()
	w, err := NewWriter(f, 512)
	check(t, err)
	check(t, w.Zeroes(0, 1<<30, 0))
	check(t, w.Close())
	info, err := f.Stat()
	check(t, err)
	if info.Size() != 1<<30+1024 {
		t.Errorf("the log has %d bytes", info.Size())
	}
}
