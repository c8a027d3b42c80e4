package logwrites

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
	"powercut/harness/crash"
)

// sectors is the size of the drive of these tests.
const sectors = 8

var base = bytes.Repeat([]byte{'.'}, sectors*512)

// script writes a block log. A step is a request: "w35" writes its number to sectors
// 3 to 5, "W35" does so with FUA, "N35" with a FUA that a fault ignores, "T35" through
// a cache that is off, "z35" writes zeroes, "Z35" with FUA, "d35" trims; "f" flushes,
// "F" flushes without effect. A step is answered at once, but with ">" behind it by
// a later "<" (the oldest open one) or ")" (the newest one), with "-" never, and with
// "!" by an error. "D" lets the drive write back the oldest write that was answered
// and is not known to be durable. "a" publishes the record of an op, "b" begins one.
type script struct {
	t       fataler
	w       *blocklog.Writer
	open    []blocklog.Event
	cached  []blocklog.Event // answered, and not durable by themselves
	request uint64
	started uint64
	acked   uint64
}

// play makes the log of steps, with the ledger's records.
func play(t fataler, steps ...string) (*blocklog.Log, []ledger.Record) {
	t.Helper()
	dir, err := os.MkdirTemp("", "export")
	check(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "log")
	s := &script{t: t}
	s.w, err = blocklog.Create(path, sectors*512)
	check(t, err)
	for _, step := range steps {
		s.step(step)
	}
	check(t, s.w.Close())
	l, err := blocklog.Open(path)
	check(t, err)
	var records []ledger.Record
	for op := range s.acked {
		records = append(records, ledger.Record{Op: op, Synced: true})
	}
	return l, records
}

func (s *script) step(step string) {
	switch step[0] {
	case 'a':
		s.acked++
	case 'b':
		s.started++
	case 'D':
		if len(s.cached) > 0 {
			e := s.cached[0]
			s.cached = s.cached[1:]
			s.log(blocklog.Event{Kind: blocklog.Destage, Request: e.Request, Op: e.Op}, nil)
		}
	case '<', ')':
		if len(s.open) == 0 {
			return
		}
		i := 0
		if step[0] == ')' {
			i = len(s.open) - 1
		}
		s.answer(s.open[i], 0)
		s.open = slices.Delete(s.open, i, i+1)
	default:
		s.ask(step)
	}
}

func (s *script) ask(step string) {
	s.request++
	e := blocklog.Event{Kind: blocklog.Arrive, Request: s.request, Op: blocklog.Flush, NoEffect: step[0] == 'F'}
	var payload []byte
	if step[0] != 'f' && step[0] != 'F' {
		from, to := int64(step[1]-'0'), int64(step[2]-'0')
		e.Offset, e.Length = from*512, (to-from+1)*512
		e.Op = map[byte]blocklog.Op{'z': blocklog.Zeroes, 'Z': blocklog.Zeroes, 'd': blocklog.Trim}[step[0]]
		e.FUA, e.Through, e.NoEffect = strings.Contains("WNZ", step[:1]), step[0] == 'T', step[0] == 'N'
		if e.Op == 0 {
			e.Op, payload = blocklog.Write, bytes.Repeat([]byte{'0' + byte(s.request)}, int(e.Length))
		}
	}
	e = s.log(e, payload)
	switch step[len(step)-1] {
	case '-':
	case '>':
		s.open = append(s.open, e)
	case '!':
		s.answer(e, 5)
	default:
		s.answer(e, 0)
	}
}

func (s *script) answer(e blocklog.Event, errno int32) {
	e.Kind, e.Errno = blocklog.Reply, errno
	s.log(e, nil)
	if errno == 0 && e.Op != blocklog.Flush && !e.Durable() {
		s.cached = append(s.cached, e)
	}
}

func (s *script) log(e blocklog.Event, payload []byte) blocklog.Event {
	e.Started, e.Acked = s.started, s.acked
	check(s.t, s.w.Append(&e, payload))
	return e
}

// exported is the export of a log.
func exported(t fataler, l *blocklog.Log, cut int, marks []Position) []byte {
	t.Helper()
	return written(t, 512, func(w *Writer) { check(t, Export(w, l, cut, marks, CutMark)) })
}

// replay applies entries to the base image up to one of them, itself included.
func replay(t fataler, log []byte, last func(Entry) bool) []byte {
	t.Helper()
	image := bytes.Clone(base)
	r, err := NewReader(bytes.NewReader(log), int64(len(log)))
	check(t, err)
	for {
		e, err := r.Next()
		if err == io.EOF {
			return image
		}
		check(t, err)
		apply(image, log, e)
		if last(e) {
			return image
		}
	}
}

func apply(image, log []byte, e Entry) {
	to := image[e.Offset:][:e.Length]
	if e.Flags&Discard != 0 {
		clear(to)
		return
	}
	copy(to, log[e.DataAt:])
}

// left is what a cut leaves.
func left(t fataler, l *blocklog.Log, cut int, p crash.Policy) []byte {
	t.Helper()
	s, err := crash.Build(bytes.NewReader(base), l, cut, p, 1)
	check(t, err)
	b := make([]byte, l.Size)
	_, err = s.Media.ReadAt(b, 0)
	check(t, err)
	return b
}

func text(image []byte) string {
	var b strings.Builder
	for i := 0; i < len(image); i += 512 {
		b.WriteByte(max(image[i], ' '))
	}
	return b.String()
}

// short shows an export in one line.
func short(t fataler, log []byte) string {
	t.Helper()
	entries, err := read(log, sectors*512)
	if err != io.EOF {
		t.Fatal("read export:", err)
	}
	var out []string
	for _, e := range entries {
		switch {
		case e.Flags&Mark != 0:
			out = append(out, "'"+e.Text+"'")
		case e.Flags == Flush:
			out = append(out, "flush")
		default:
			word := map[bool]string{true: "discard", false: "write"}[e.Flags&Discard != 0]
			if e.Flags&FUA != 0 {
				word += " FUA"
			}
			if e.DataAt != 0 {
				word += fmt.Sprintf(" %q", max(log[e.DataAt], ' '))
			}
			out = append(out, fmt.Sprintf("%s %d+%d", word, e.Offset/512, e.Length/512))
		}
	}
	return strings.Join(out, ", ")
}

func TestExport(t *testing.T) {
	for _, c := range []struct{ name, steps, want string }{
		{"nothing", "", "'cut'"},
		{"a volatile write", "w01", "'cut', write '1' 0+2"},
		{"a flushed one", "w01 f", "write '1' 0+2, flush, 'cut'"},
		{"a flush is for what came before", "w00 f w11", "write '1' 0+1, flush, 'cut', write '3' 1+1"},
		{"FUA comes before what is in the cache", "w00 W11 f", "write FUA '2' 1+1, write '1' 0+1, flush, 'cut'"},
		{"with the cache off each write is durable", "T00 T11", "write FUA '1' 0+1, write FUA '2' 1+1, 'cut'"},
		{"FUA that is ignored", "N00", "'cut', write '1' 0+1"},
		{"a flush that is ignored", "w00 F", "'cut', write '1' 0+1"},
		{"a write that fails", "w00! f", "flush, 'cut', write '1' 0+1"},
		{"in flight at the cut", "w00> f W11-", "flush, 'cut', write '1' 0+1, write '3' 1+1"},
		{"a flush that was sent before the write's reply", "w00> w11 f> ) <", "write '2' 1+1, flush, 'cut', write '1' 0+1"},
		{"the example of the kernel's documentation", "w00> w11> w22> ) ) f> < )", "write '2' 1+1, write '3' 2+1, flush, 'cut', write '1' 0+1"},
		{"trim and zeroes", "d01 z22 Z33 f", "write FUA ' ' 3+1, discard 0+2, write ' ' 2+1, flush, 'cut'"},
		{"an older write that is durable later lacks what is newer", "w03 W12 f", "write FUA '2' 1+2, write '1' 0+1, write '1' 3+1, flush, 'cut'"},
		{"nothing is left of it", "w12 W03 f", "write FUA '2' 0+4, flush, 'cut'"},
		{"marks", "w00 a b w11 f a b", "'ack op 0', 'begin op 1', write '1' 0+1, write '2' 1+1, flush, 'ack op 1', 'cut'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, records := play(t, strings.Fields(c.steps)...)
			defer l.Close()
			got := short(t, exported(t, l, len(l.Events), Marks(l.Events, records)))
			if want := c.want + ", 'dm-log-writes-end'"; got != want {
				t.Errorf("the export is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestStates: for any log, a replay up to a mark, to the cut or to the end leaves
// what package crash says a cut there leaves. Every other entry leaves, sector by
// sector, what one of the cuts of the log may leave.
func TestStates(t *testing.T) {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		kind := rapid.SampledFrom(strings.Split("w w w w W N T z Z d f f F D D a b < )", " ")).Draw(t, "kind")
		if strings.Contains("abD<)", kind) {
			return kind
		}
		if !strings.Contains("fF", kind) {
			from := rapid.IntRange(0, sectors-1).Draw(t, "from")
			kind += fmt.Sprintf("%d%d", from, rapid.IntRange(from, sectors-1).Draw(t, "to"))
		}
		return kind + rapid.SampledFrom([]string{"", "", "", ">", ">", "-", "!"}).Draw(t, "reply")
	}), 1, 40)
	rapid.Check(t, func(t *rapid.T) {
		l, records := play(t, steps.Draw(t, "steps")...)
		defer l.Close()
		cut := rapid.IntRange(0, len(l.Events)).Draw(t, "cut")
		marks := Marks(l.Events[:cut], records)
		log := exported(t, l, cut, marks)
		for _, m := range append(marks, Position{CutMark, cut}) {
			got := replay(t, log, func(e Entry) bool { return e.Text == m.Text })
			if want := left(t, l, m.Position, crash.Lose); !bytes.Equal(got, want) {
				t.Fatalf("up to %q: %s, want %s; export: %s", m.Text, text(got), text(want), short(t, log))
			}
		}
		got := replay(t, log, func(Entry) bool { return false })
		if want := left(t, l, cut, crash.Keep); !bytes.Equal(got, want) {
			t.Fatalf("to the end: %s, want %s; export: %s", text(got), text(want), short(t, log))
		}
		checkEntries(t, l, cut, log)
	})
}

// checkEntries demands that each prefix of an export is a state that some cut may
// leave: each sector as that cut leaves it with lose, or as one of its volatile
// writes has it.
func checkEntries(t *rapid.T, l *blocklog.Log, cut int, log []byte) {
	entries, _ := read(log, 0)
	for n := range entries {
		got := replay(t, log, func(e Entry) bool { return e.Number == n })
		at := 0
		for at <= cut && !may(t, l, at, got) {
			at++
		}
		if at > cut {
			t.Fatalf("up to entry %d: %s is a state of no cut; export: %s", n, text(got), short(t, log))
		}
	}
}

// may tells whether a cut may leave an image.
func may(t fataler, l *blocklog.Log, cut int, image []byte) bool {
	durable := left(t, l, cut, crash.Lose)
	for i := 0; i < len(image); i += 512 {
		if image[i] != durable[i] && !volatile(l, cut, int64(i), image[i]) {
			return false
		}
	}
	return true
}

// volatile tells whether a write of that content to a sector is volatile at a cut.
func volatile(l *blocklog.Log, cut int, at int64, content byte) bool {
	for _, e := range l.Events[:cut] {
		if e.Kind != blocklog.Arrive || at < e.Offset || at >= e.Offset+e.Length {
			continue
		}
		holds := byte(0)
		if e.Op == blocklog.Write {
			holds = '0' + byte(e.Request)
		}
		if holds == content && durableFrom(l, e.Request) >= cut {
			return true
		}
	}
	return false
}

// durableFrom is the position of the reply that made a request durable, or the end.
func durableFrom(l *blocklog.Log, request uint64) int {
	answered, covers := false, map[uint64]bool{}
	for i, e := range l.Events {
		switch {
		case e.Request == request && e.Kind == blocklog.Reply && e.Errno == 0:
			if e.Durable() {
				return i
			}
			answered = true
		case e.Request == request && e.Kind == blocklog.Destage:
			return i
		case e.Op == blocklog.Flush && e.Kind == blocklog.Arrive:
			covers[e.Request] = answered
		case e.Op == blocklog.Flush && covers[e.Request] && e.Errno == 0 && !e.NoEffect:
			return i
		}
	}
	return len(l.Events)
}

func TestMarks(t *testing.T) {
	events := []blocklog.Event{{}, {Acked: 1}, {Started: 2, Acked: 2}, {Started: 4, Acked: 3}, {Started: 4, Acked: 4}}
	records := []ledger.Record{
		{Op: 0, Synced: true}, {Op: 1, Synced: true}, {Op: 2, Errno: 5}, {Op: 3}, {Op: 4, Synced: true},
	}
	want := []Position{
		{"ack op 0", 1},
		{"begin op 1", 2},
		{"ack op 1", 2},
		{"begin op 2", 2},
		{"fail op 2 errno 5", 3},
		{"begin op 3", 3},
		{"begin op 4", 3},
		{"end op 3", 4},
		{"ack op 4", 5},
	}
	if d := cmp.Diff(want, Marks(events, records)); d != "" {
		t.Errorf("marks (-want +got):\n%s", d)
	}
	if got := Marks([]blocklog.Event{{Started: 1 << 63, Acked: 1 << 63}}, nil); len(got) != 1_000_000 {
		t.Errorf("impossible counts give %d marks", len(got))
	}
}

func TestExportBadCut(t *testing.T) {
	l, _ := play(t, "w00")
	defer l.Close()
	for _, cut := range []int{-1, 3} {
		w, err := NewWriter(&memory{}, 512)
		check(t, err)
		if err := Export(w, l, cut, nil, CutMark); err == nil {
			t.Errorf("a cut at %d of 2 events was taken", cut)
		}
	}
}
