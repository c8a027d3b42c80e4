package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"powercut/harness/blocklog"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/internal/program"
	"powercut/harness/logwrites"
	"powercut/harness/qemu"
	"powercut/scenarios"
)

// binary is a static powercut, built once for all tests of the package.
var binary string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &binary)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runFolder runs a scenario of the library with one call, which QEMU logs too, and
// returns the run's folder.
func runFolder(t *testing.T, scenario, call string, set ...string) string {
	t.Helper()
	if _, err := qemu.Version(t.Context(), ""); err != nil {
		t.Skipf("no virtual machine can be run here: %v", err)
	}
	var overrides []scenarios.Override
	for _, text := range append(set, "workload.calls=["+call+"]", "filesystem.size=64MiB", "workload.count=40", "cut={random: 20-40}") {
		o, err := scenarios.ParseOverride(text)
		check(t, err)
		overrides = append(overrides, o)
	}
	s, err := scenarios.Load(scenario, overrides...)
	check(t, err)
	l := &campaign.Lab{Runs: t.TempDir(), Binary: binary, Progress: campaign.Silent{}, QEMULog: true}
	doc, err := l.Run(t.Context(), s, 3)
	check(t, err)
	return doc.Folder
}

func open(t *testing.T, path string) *Recording {
	t.Helper()
	r, err := Open(path)
	check(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// image writes what a cut leaves to a file.
func image(t *testing.T, r *Recording, at int, p crash.Policy) string {
	t.Helper()
	base, err := r.OpenBase(context.Background(), "")
	check(t, err)
	defer base.Close()
	_, seed := r.Fate()
	s, err := crash.Build(base, r.Log, at, p, seed)
	check(t, err)
	path := filepath.Join(t.TempDir(), "image")
	check(t, WriteImage(t.Context(), path, s.Media, s.Media.Size()))
	return path
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.ReadFile(a)
	check(t, err)
	y, err := os.ReadFile(b)
	check(t, err)
	return bytes.Equal(x, y)
}

// replay lets the reader in Python replay a log onto the disk as it was formatted.
func replay(t *testing.T, r *Recording, log string, args ...string) (string, error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to replay with")
	}
	onto := image(t, r, 0, crash.Lose)
	args = append([]string{"testdata/replay.py", "--log", log, "--replay", onto}, args...)
	c := exec.CommandContext(t.Context(), python, args...)
	c.Env = append(os.Environ(), "IMAGE="+onto, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := c.CombinedOutput(); err != nil {
		return onto, fmt.Errorf("replay %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return onto, nil
}

// fsck replays the file system's journal in a copy of the image, and checks that.
const fsck = `cp --sparse=always $IMAGE $IMAGE.copy && e2fsck -E journal_only -y $IMAGE.copy >$IMAGE.out 2>&1; ` +
	`e2fsck -fn $IMAGE.copy >>$IMAGE.out 2>&1 || { cat $IMAGE.out; false; }`

// TestStrangers: of runs on good drives and bad ones, QEMU has logged the same
// writes as the drive; and a stranger's reader makes of an export, at marks, at the
// cut and at its end, what package crash makes of the block log.
func TestStrangers(t *testing.T) {
	for _, c := range []struct{ scenario, call string }{
		{"barrier-on", "fsync"},
		{"barrier-off", "fdatasync"},
		{"barrier-off-write-through", "O_DSYNC"},
		{"flush-ignored", "fsync"},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			folder := runFolder(t, c.scenario, c.call)
			r := open(t, folder)
			agreesWithQEMU(t, r)
			log := filepath.Join(t.TempDir(), "log")
			_, err := r.Export(t.Context(), log)
			check(t, err)
			places := append(slices.Clone(r.Marks), logwrites.Position{Text: logwrites.CutMark, Position: r.Cut})
			if len(places) < 40 {
				t.Fatalf("only %d marks", len(places))
			}
			for i := 0; i < len(places); i += len(places) / 4 {
				got, err := replay(t, r, log, "--end-mark", places[i].Text)
				check(t, err)
				if !same(t, got, image(t, r, places[i].Position, crash.Lose)) {
					t.Errorf("replayed to %q it is another image", places[i].Text)
				}
			}
			got, err := replay(t, r, log)
			check(t, err)
			if !same(t, got, image(t, r, r.Cut, crash.Keep)) {
				t.Error("replayed to the end it is another image")
			}
			survivesImport(t, r, log)
		})
	}
}

// agreesWithQEMU compares with QEMU's log, and with one in which a byte is another.
func agreesWithQEMU(t *testing.T, r *Recording) {
	t.Helper()
	file := filepath.Join(r.Folder, campaign.QEMULogFile)
	c, err := r.Compare(file)
	check(t, err)
	if c.Difference != "" || c.Intervals < 1 || c.Bytes < 1<<10 || c.Extra+c.Beyond > 1 {
		t.Errorf("compared with QEMU's log: %+v", c)
	}
	b, err := os.ReadFile(file)
	check(t, err)
	b[1024+100] ^= 1 // in the data of the first entry
	check(t, os.WriteFile(file+".planted", b, 0o644))
	if c, err = r.Compare(file + ".planted"); err != nil || !strings.Contains(c.Difference, "other contents") {
		t.Errorf("a log with one bit changed compares as %+v, %v", c, err)
	}
}

// survivesImport imports an export, and QEMU's log.
func survivesImport(t *testing.T, r *Recording, log string) {
	t.Helper()
	base, err := r.past.Base(t.Context())
	check(t, err)
	for name, file := range map[string]string{"export": log, "QEMU": filepath.Join(r.Folder, campaign.QEMULogFile)} {
		folder := filepath.Join(t.TempDir(), "import")
		_, err := Import(file, folder, base, 0)
		check(t, err)
		again := open(t, folder)
		want := image(t, r, r.Cut, crash.Keep)
		if name == "QEMU" { // it ends with the last flush
			want = image(t, r, lastFlush(r), crash.Keep)
		}
		if !same(t, image(t, again, again.Cut, crash.Keep), want) {
			t.Errorf("%s, imported: another image at the end", name)
		}
	}
}

// TestUnadvertised: a drive that does not say that it has a cache is sent no flush,
// and QEMU's log, which has them, tells.
func TestUnadvertised(t *testing.T) {
	r := open(t, runFolder(t, "cache-unadvertised", "fsync"))
	c, err := r.Compare(filepath.Join(r.Folder, campaign.QEMULogFile))
	if err != nil || !strings.Contains(c.Difference, "the drive was sent none") {
		t.Errorf("compared with QEMU's log: %+v, %v", c, err)
	}
}

// lastFlush is the position after the reply to the last flush.
func lastFlush(r *Recording) int {
	for i := r.Cut - 1; i >= 0; i-- {
		if e := r.Log.Events[i]; e.Op == blocklog.Flush && e.Kind == blocklog.Reply {
			return i + 1
		}
	}
	return 0
}

// TestFsckAtFlushes: with barriers on, the file system is sound after each flush of
// an export; and where a write of its tables has another content, that is found.
func TestFsckAtFlushes(t *testing.T) {
	if _, err := exec.LookPath("e2fsck"); err != nil {
		if _, err := os.Stat("/sbin/e2fsck"); err != nil {
			t.Skip("there is no e2fsck")
		}
	}
	r := open(t, runFolder(t, "barrier-on", "fsync"))
	log := filepath.Join(t.TempDir(), "log")
	_, err := r.Export(t.Context(), log)
	check(t, err)
	_, err = replay(t, r, log, "--check", "flush", "--fsck", fsck)
	check(t, err)
	spoil(t, log)
	if _, err := replay(t, r, log, "--check", "flush", "--fsck", fsck); err == nil || !strings.Contains(err.Error(), "fsck failed after entry") {
		t.Errorf("of a spoiled log fsck says %v", err)
	}
}

// spoil changes the superblock's count of inodes in each write of it.
func spoil(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	check(t, err)
	l, err := logwrites.NewReader(f, size)
	check(t, err)
	for {
		e, err := l.Next()
		if err == io.EOF {
			return
		}
		check(t, err)
		if e.DataAt != 0 && e.Offset <= 1024 && e.Offset+e.Length > 1024 {
			_, err := f.WriteAt([]byte{1, 2, 3, 4}, e.DataAt+1024-e.Offset)
			check(t, err)
		}
	}
}

// TestDefaultImage: what is taken of a run where nothing else is said is its own cut,
// and the image is as large as the drive, and sparse.
func TestDefaultImage(t *testing.T) {
	r := open(t, runFolder(t, "barrier-on", "fdatasync", "at-cut=random"))
	p, seed := r.Fate()
	if p != crash.Random || seed != r.call.Plan.Seed {
		t.Errorf("the run's fate is %s, %d", p, seed)
	}
	if at, err := r.At(End); err != nil || at != r.Cut {
		t.Errorf("the end is at %d, %v", at, err)
	}
	info, err := os.Stat(image(t, r, r.Cut, p))
	check(t, err)
	if used := 512 * info.Sys().(*syscall.Stat_t).Blocks; info.Size() != 64<<20 || used > 32<<20 {
		t.Errorf("the image has %d bytes and takes %d", info.Size(), used)
	}
}

// TestDamaged: of a damaged block log, what lies before the damage is shown and
// exported, and the damage told.
func TestDamaged(t *testing.T) {
	folder := runFolder(t, "barrier-on", "fdatasync")
	whole := open(t, folder)
	place := whole.Log.Events[61].DataAt
	for i := 61; place == 0; i++ {
		place = whole.Log.Events[i].DataAt
	}
	path := filepath.Join(whole.Folder, logFile) // which comes before the compressed one
	b, err := io.ReadAll(io.NewSectionReader(whole.Log, 0, math.MaxInt64))
	check(t, err)
	for name, spoiled := range map[string][]byte{
		"a bit": func() []byte { c := bytes.Clone(b); c[place+7] ^= 8; return c }(),
		"short": b[:place+7],
	} {
		t.Run(name, func(t *testing.T) {
			check(t, os.WriteFile(path, spoiled, 0o644))
			r := open(t, folder)
			if r.Damage == nil || r.Damage.Byte != place-96 || r.Damage.Event != r.Cut || r.Cut < 61 {
				t.Fatalf("damage %v, cut %d", r.Damage, r.Cut)
			}
			for _, m := range r.Marks {
				if m.Position >= r.Cut {
					t.Errorf("mark %q lies at the damage", m.Text)
				}
			}
			log := filepath.Join(t.TempDir(), "log")
			if _, err := r.Export(t.Context(), log); !errors.Is(err, blocklog.ErrDamaged) {
				t.Errorf("export: %v", err)
			}
			got, err := replay(t, r, log, "--end-mark", logwrites.DamageMark)
			check(t, err)
			if !same(t, got, image(t, whole, r.Cut, crash.Lose)) {
				t.Error("what lies before the damage is exported as something else")
			}
			if _, err := r.At(End); !errors.Is(err, blocklog.ErrDamaged) {
				t.Errorf("the end is found, though it is damaged: %v", err)
			}
			if _, err := r.At(fmt.Sprint(r.Cut + 5)); !errors.Is(err, blocklog.ErrDamaged) {
				t.Errorf("a place behind the damage is found: %v", err)
			}
		})
	}
}
