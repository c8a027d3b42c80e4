package logwrites

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
)

// imported is the block log of a log, and what was said of it.
func imported(t fataler, log []byte, drive int64) (*blocklog.Log, *Imported, error) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		return nil, nil, err
	}
	r.Drive = drive
	dir, err := os.MkdirTemp("", "import")
	check(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "log")
	w, err := blocklog.Create(path, drive)
	check(t, err)
	found, damage := Import(w, r)
	check(t, w.Close())
	l, err := blocklog.Open(path)
	check(t, err)
	return l, found, damage
}

func TestImport(t *testing.T) {
	log := written(t, 512, func(w *Writer) {
		check(t, w.Write(0, make([]byte, 512), 0))
		check(t, w.Mark("one"))
		check(t, w.Discard(512, 512, FUA))
		check(t, w.entry(1024, 512, Flush|FUA, "")) // a flush with data
		w.at += 512
	})
	l, found, err := imported(t, append(log, "rubbish"...), driveSize)
	check(t, err)
	defer l.Close()
	request := func(n uint64, op blocklog.Op, fua bool, offset, length int64) []blocklog.Event {
		e := blocklog.Event{Kind: blocklog.Arrive, Request: n, Op: op, FUA: fua, Offset: offset, Length: length}
		reply := e
		reply.Kind = blocklog.Reply
		return []blocklog.Event{e, reply}
	}
	var want []blocklog.Event
	want = append(want, request(1, blocklog.Write, false, 0, 512)...)
	want = append(want, request(2, blocklog.Trim, true, 512, 512)...)
	want = append(want, request(3, blocklog.Flush, false, 0, 0)...)
	want = append(want, request(4, blocklog.Write, true, 1024, 512)...)
	if d := cmp.Diff(want, l.Events, cmpopts.IgnoreFields(blocklog.Event{}, "DataAt")); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	said := &Imported{SectorSize: 512, Entries: 4, Requests: 4, Marks: []Position{{"one", 2}}, Unread: 7}
	if d := cmp.Diff(said, found); d != "" {
		t.Errorf("it says (-want +got):\n%s", d)
	}
}

// TestLargeWrite: a write that is too long for one request becomes several.
func TestLargeWrite(t *testing.T) {
	l, _, err := imported(t, written(t, 512, func(w *Writer) { check(t, w.Zeroes(512, 2*blocklog.MaxPayload+512, 0)) }), 1<<30)
	check(t, err)
	defer l.Close()
	if len(l.Events) != 6 || l.Events[4].Offset != 512+2*blocklog.MaxPayload || l.Events[4].Length != 512 {
		t.Errorf("events %+v", l.Events)
	}
}

// TestImportDamage: what lies before the damage is imported, and the damage told.
func TestImportDamage(t *testing.T) {
	log := sample(t)
	clear(log[3072:3584])
	l, found, err := imported(t, log, driveSize)
	var d *Damage
	if !errors.As(err, &d) || d.Entry != 3 || d.Byte != 3072 || found.Damage != d.Error() || found.Entries != 3 {
		t.Fatalf("%v, %+v", err, found)
	}
	defer l.Close()
	if len(l.Events) != 4 {
		t.Errorf("%d events, want those of a write and a flush", len(l.Events))
	}
}

// TestThereAndBack: a log that was exported and imported again leaves what it left,
// at each of its marks, at the cut and at its end.
func TestThereAndBack(t *testing.T) {
	steps := rapid.SliceOfN(rapid.SampledFrom([]string{"w03", "w12", "W24", "z01", "d57", "f", "f", "w44>", "w67>", "<", ")", "a", "b"}), 1, 40)
	rapid.Check(t, func(t *rapid.T) {
		l, records := play(t, steps.Draw(t, "steps")...)
		defer l.Close()
		cut := len(l.Events)
		marks := Marks(l.Events, records)
		again, found, err := imported(t, exported(t, l, cut, marks), l.Size)
		check(t, err)
		defer again.Close()
		places := append(marks, Position{CutMark, cut})
		for i, m := range places {
			if found.Marks[i].Text != m.Text {
				t.Fatalf("mark %d is %q, want %q", i, found.Marks[i].Text, m.Text)
			}
			// At a mark everything before it was durable, whether or not the log has a
			// flush there: what is volatile was not yet logged.
			if got, want := left(t, again, found.Marks[i].Position, crash.Keep), left(t, l, m.Position, crash.Lose); !bytes.Equal(got, want) {
				t.Fatalf("at %q: %s, want %s", m.Text, text(got), text(want))
			}
			if got, want := left(t, again, found.Marks[i].Position, crash.Lose), left(t, l, m.Position, crash.Lose); !bytes.Equal(got, want) {
				t.Fatalf("at %q, volatile lost: %s, want %s", m.Text, text(got), text(want))
			}
		}
		if got, want := left(t, again, len(again.Events), crash.Keep), left(t, l, cut, crash.Keep); !bytes.Equal(got, want) {
			t.Fatalf("at the end: %s, want %s", text(got), text(want))
		}
	})
}

// FuzzImport: whatever is imported is a sound block log, which leaves what a plain
// replay of the entries leaves.
func FuzzImport(f *testing.F) {
	f.Add(sample(f))
	f.Add(sample(f)[:4000])
	l, records := play(f, "w03", "a", "b", "W12", "f", "d45", "z67")
	f.Add(exported(f, l, len(l.Events), Marks(l.Events, records)))
	l.Close()
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > 1<<20 {
			return
		}
		l, found, err := imported(t, log, sectors*512)
		if l == nil {
			if !errors.Is(err, ErrNotLog) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		defer l.Close()
		want := bytes.Clone(base)
		entries, _ := read(log, sectors*512)
		for _, e := range entries {
			apply(want, log, e)
		}
		if got := left(t, l, len(l.Events), crash.Keep); !bytes.Equal(got, want) || found.Entries != len(entries) {
			t.Fatalf("%d of %d entries leave %s, want %s", found.Entries, len(entries), text(got), text(want))
		}
	})
}
