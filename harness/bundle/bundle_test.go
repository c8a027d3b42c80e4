package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"powercut/guest/ledger"
	"powercut/harness/blocklog"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/nbd"
	"powercut/harness/report"
	"powercut/harness/verdict"
	"powercut/scenarios"
)

// size is that of the drive: the least that a scenario may have.
const size = 16 << 20

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newRun makes the folder of a run of one call, whose drive was served by hand, and
// keeps what is unpacked in a folder of the test's own.
func newRun(t *testing.T) (folder string) {
	t.Helper()
	tmp := filepath.Join(t.TempDir(), "tmp")
	check(t, os.Mkdir(tmp, 0o755))
	t.Setenv("TMPDIR", tmp)
	var overrides []scenarios.Override
	for _, text := range []string{"filesystem.size=16MiB", "workload.calls=[fsync]", "workload.count=2", "cut={op: 2}"} {
		o, err := scenarios.ParseOverride(text)
		check(t, err)
		overrides = append(overrides, o)
	}
	list, err := scenarios.Find("barrier-off", overrides...)
	check(t, err)
	folder = t.TempDir()
	text, err := list[0].Marshal()
	check(t, err)
	put := func(name string, data []byte) { check(t, os.WriteFile(filepath.Join(folder, name), data, 0o644)) }
	put("scenario.yaml", text)
	doc := report.Document{Schema: report.Schema, Scenario: "barrier-off", Seed: 7, Calls: []report.Call{{Call: "fsync", Counts: verdict.Counts{Ops: 2, Acked: 1, Lost: 1}}}}
	text, err = json.Marshal(doc)
	check(t, err)
	put("run.json", text)
	put("report.json", text)
	base := make([]byte, size)
	copy(base[1<<20:], "base")
	put(campaign.BaseFile, base)
	check(t, os.Mkdir(filepath.Join(folder, "fsync"), 0o755))
	put("fsync/cut.json", []byte(`{"reason": "by hand", "position": 6, "started": 2, "records": 2}`))
	f, err := os.Create(filepath.Join(folder, "fsync", "ledger"))
	check(t, err)
	check(t, ledger.Append(f, []ledger.Record{{Synced: true}, {Op: 1, Synced: true}}))
	check(t, f.Close())
	log, err := blocklog.Create(filepath.Join(folder, "fsync", "block.log"), size)
	check(t, err)
	d := disk.New(disk.Config{Base: bytes.NewReader(base), Size: size, Log: log, WriteCache: true, Counts: func() (uint64, uint64) { return 2, 2 }})
	for n := range 3 {
		r := &nbd.Request{Command: nbd.Write, Offset: int64(n) * 4096, Length: 4096, Data: bytes.Repeat([]byte{byte(n + 1)}, 4096)}
		d.Submit(r, func(err error) { check(t, err) })
	}
	d.Close()
	check(t, log.Close())
	return folder
}

// bundled makes a bundle of a run's folder.
func bundled(t *testing.T, folder string, state *crash.State) string {
	t.Helper()
	c, err := Open(folder, state)
	check(t, err)
	if state != nil {
		c.Verdict, c.Told = &report.Call{Call: "fsync"}, []string{"because"}
	}
	path := filepath.Join(t.TempDir(), "b.tar.zst")
	check(t, c.Write(t.Context(), path, filepath.Join(folder, campaign.BaseFile)))
	check(t, c.Close())
	return path
}

// nothingLeft wants no unpacked bundle.
func nothingLeft(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

// image is the content of a case's crash state.
func image(t *testing.T, c *Case) []byte {
	t.Helper()
	path, err := c.Call.Past().Base(t.Context())
	check(t, err)
	base, err := os.Open(path)
	check(t, err)
	defer base.Close()
	s, err := crash.NewBuilder(base, c.Call.Log).Build(c.State)
	check(t, err)
	out := make([]byte, size)
	_, err = s.Media.ReadAt(out, 0)
	check(t, err)
	return out
}

// TestRoundTrip: a bundle holds all of a case, wherever its run folder is, in either
// form of the log.
func TestRoundTrip(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		for _, text := range []string{"", "4 without 2[0-2]"} {
			t.Run(fmt.Sprintf("compressed=%v state=%q", compressed, text), func(t *testing.T) {
				folder := newRun(t)
				if compressed {
					_, err := blocklog.Compress(filepath.Join(folder, "fsync", "block.log"))
					check(t, err)
				}
				var state *crash.State
				if text != "" {
					s, err := crash.ParseState(text)
					check(t, err)
					state = &s
				}
				before, err := Open(folder, state)
				check(t, err)
				want := image(t, before)
				check(t, before.Close())
				path := bundled(t, folder, state)
				check(t, os.RemoveAll(folder))

				c, err := Open(path, nil)
				check(t, err)
				if !bytes.Equal(image(t, c), want) {
					t.Error("the bundle's crash image is another one")
				}
				if !c.State.Equal(before.State) || c.From.Scenario != "barrier-off" || c.From.Seed != 7 || c.From.Powercut == "" {
					t.Errorf("state %s, want %s; manifest %+v", c.State, before.State, c.From)
				}
				if h := c.Call.History(c.Call.Cut); len(h.Records) != 2 || h.Started != 2 {
					t.Errorf("history %+v", h)
				}
				if state == nil && cmp.Diff(before.Verdict, c.Verdict) != "" {
					t.Errorf("verdict %+v, want %+v", c.Verdict, before.Verdict)
				}
				check(t, c.Close())
				nothingLeft(t)
			})
		}
	}
}

// TestStranger: tar makes a run folder of a bundle.
func TestStranger(t *testing.T) {
	if _, err := exec.LookPath("zstd"); err != nil {
		t.Skip("zstd is not installed")
	}
	path := bundled(t, newRun(t), nil)
	dir := t.TempDir()
	if out, err := exec.Command("tar", "--zstd", "-xf", path, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, err := Open(filepath.Join(dir, "fsync"), nil)
	check(t, err)
	defer c.Close()
	if len(c.Call.Log.Events) != 6 {
		t.Errorf("the log has %d events", len(c.Call.Log.Events))
	}
}

// TestDamage: wherever a byte is changed, or the file cut off, the bundle is refused,
// or says the same all the same (zstd can name one run of zeros in several ways), and
// nothing of it stays unpacked.
func TestDamage(t *testing.T) {
	path := bundled(t, newRun(t), nil)
	whole, err := os.ReadFile(path)
	check(t, err)
	good, err := Open(path, nil)
	check(t, err)
	want, manifest := image(t, good), good.From
	check(t, good.Close())
	try := func(what string, data []byte) {
		t.Helper()
		check(t, os.WriteFile(path, data, 0o644))
		c, err := Open(path, nil)
		var format *FormatError
		if err == nil {
			if cmp.Diff(c.From, manifest) != "" || !bytes.Equal(image(t, c), want) {
				t.Errorf("%s: taken, and says another thing", what)
			}
			check(t, c.Close())
		} else if !errors.Is(err, ErrDamaged) && !errors.As(err, &format) {
			t.Errorf("%s: %v", what, err)
		}
		nothingLeft(t)
	}
	for at := 0; at < len(whole); at += max(1, len(whole)/20) {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x10
		try(fmt.Sprintf("byte %d of %d changed", at, len(whole)), changed)
		check(t, os.WriteFile(path, whole[:at], 0o644))
		if _, err := Open(path, nil); err == nil {
			t.Errorf("cut off at %d of %d: taken", at, len(whole))
		}
		nothingLeft(t)
	}
	try("the last byte gone", whole[:len(whole)-1])
}

// forge writes a bundle by hand.
func forge(t *testing.T, m any, members map[string]string, order ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forged")
	f, err := os.Create(path)
	check(t, err)
	z, err := zstd.NewWriter(f)
	check(t, err)
	w := tar.NewWriter(z)
	head, err := json.Marshal(m)
	check(t, err)
	check(t, add(w, manifestFile, int64(len(head)), bytes.NewReader(head)))
	for _, name := range order {
		check(t, add(w, name, int64(len(members[name])), strings.NewReader(members[name])))
	}
	check(t, errors.Join(w.Close(), z.Close(), f.Close()))
	return path
}

// TestForged: each kind of wrong bundle is refused for what it is.
func TestForged(t *testing.T) {
	newRun(t) // for its TMPDIR
	one := Member{Name: "run.json", Bytes: 2, Data: 2}
	good := Manifest{Schema: Schema, Call: "fsync", Verdict: &report.Call{}, Members: []Member{one}}
	with := func(change func(*Manifest)) Manifest { m := good; change(&m); return m }
	text := map[string]string{"run.json": "{}", "other": "{}"}
	for _, c := range []struct {
		name   string
		path   string
		format bool // else damage
		want   string
	}{
		{"another version", forge(t, map[string]string{"schema": "powercut/bundle/9", "powercut": "v9"}, nil), true, `version "powercut/bundle/9", made by powercut v9`},
		{"another member", forge(t, good, text, "other"), false, `"other" of 2 bytes, and 2 are due`},
		{"a member too many", forge(t, good, text, "run.json", "other"), false, "another member"},
		{"a member missing", forge(t, good, text), false, "run.json: unexpected EOF"},
		{"a longer member", forge(t, with(func(m *Manifest) { m.Members = []Member{{"run.json", 3, 3}} }), text, "run.json"), false, "3 are due"},
		{"a member outside", forge(t, with(func(m *Manifest) { m.Members = []Member{{"../x", 2, 2}} }), text), false, `cannot be a member "../x"`},
		{"a call outside", forge(t, with(func(m *Manifest) { m.Call = "../.." }), text), false, "no call"},
		{"two of a name", forge(t, with(func(m *Manifest) { m.Members = []Member{one, one} }), text), false, "cannot be a member"},
		{"impossible sizes", forge(t, with(func(m *Manifest) { m.Members = []Member{{"run.json", 2, 3}} }), text), false, "cannot have 2 bytes"},
		{"no verdict", forge(t, with(func(m *Manifest) { m.Verdict = nil }), text), false, "no verdict"},
		{"no run", forge(t, good, text, "run.json"), false, "neither the folder of a run"},
	} {
		_, err := Open(c.path, nil)
		var format *FormatError
		if err == nil || errors.As(err, &format) != c.format || errors.Is(err, ErrDamaged) == c.format || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		nothingLeft(t)
	}
	for name, data := range map[string]string{"empty": "", "text": "hello, world, hello, world"} {
		path := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(path, []byte(data), 0o644))
		var format *FormatError
		if _, err := Open(path, nil); !errors.As(err, &format) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It is no damage that this machine has no room.
	huge := with(func(m *Manifest) { m.Members = []Member{{"run.json", math.MaxInt64 >> 2, math.MaxInt64 >> 2}} })
	if _, err := Open(forge(t, huge, text), nil); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "MiB free, and this takes") {
		t.Errorf("a bundle that is too large: %v", err)
	}
	nothingLeft(t)
}

// TestStates: a state that the recording does not have is refused.
func TestStates(t *testing.T) {
	folder := newRun(t)
	for _, text := range []string{"7", "4 without 3", "6 without 1[8]"} {
		s, err := crash.ParseState(text)
		check(t, err)
		var none *StateError
		if _, err := Open(folder, &s); !errors.As(err, &none) {
			t.Errorf("%s: %v", text, err)
		}
	}
	nothingLeft(t)
}

// TestHalfWritten: what could not be written is not there, and what was there stays.
func TestHalfWritten(t *testing.T) {
	folder := newRun(t)
	c, err := Open(folder, nil)
	check(t, err)
	defer c.Close()
	path := filepath.Join(t.TempDir(), "b")
	check(t, os.WriteFile(path, []byte("old"), 0o644))
	if err := c.Write(t.Context(), path, filepath.Join(folder, "no such base")); err == nil {
		t.Fatal("written without a base")
	}
	files, err := os.ReadDir(filepath.Dir(path))
	check(t, err)
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "old" || err != nil || len(files) != 1 {
		t.Errorf("%q, %v; files %v", b, err, files)
	}
}

// TestDamagedLog: a log without its end holds no state that the run has judged.
func TestDamagedLog(t *testing.T) {
	folder := newRun(t)
	path := filepath.Join(folder, "fsync", "block.log")
	info, err := os.Stat(path)
	check(t, err)
	check(t, os.Truncate(path, info.Size()-1))
	var damage *blocklog.Damage
	if _, err := Open(folder, nil); !errors.As(err, &damage) {
		t.Errorf("opened, or: %v", err)
	}
	nothingLeft(t)
}
