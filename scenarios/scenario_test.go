package scenarios

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"powercut/guest/workload"
	"powercut/harness/verdict"
)

// drawWord draws one of the words that T may be.
func drawWord[T ~string](t *rapid.T, label string) T {
	return T(rapid.SampledFrom(choices(reflect.TypeFor[T]())).Draw(t, label))
}

// drawScenario draws a scenario that Parse takes.
func drawScenario(t *rapid.T) Scenario {
	s := Default()
	s.Name = rapid.StringMatching(`[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}`).Draw(t, "name")
	s.About = "a" + strings.TrimSpace(rapid.StringMatching(`[ -~äλ☃]{0,100}`).Draw(t, "about"))
	s.Source = strings.TrimSpace(rapid.StringMatching(`[ -~äλ☃]{0,100}`).Draw(t, "source"))
	s.Kernel = rapid.SampledFrom([]string{"debian:6.1", "debian:6.12~bpo", "./bzImage", "/boot/vmlinuz-6.1.0"}).Draw(t, "kernel")
	s.Guest.Memory = Size(rapid.Int64Range(192<<20, 2<<30).Draw(t, "memory"))
	s.Filesystem = Filesystem{
		Type:  drawWord[FilesystemType](t, "type"),
		Size:  diskUnit * Size(rapid.Int64Range(1<<18, 1<<24).Draw(t, "filesystem blocks")),
		Mkfs:  rapid.SampledFrom([][]string{nil, {"-b", "4096"}, {"-O", "^has_journal", "-q", "-m", "0"}}).Draw(t, "mkfs"),
		Mount: rapid.SampledFrom([]string{"", "barrier=0", "data=ordered,commit=30"}).Draw(t, "mount"),
	}
	s.Drive.Bus = drawWord[Bus](t, "bus")
	s.Drive.WriteCache = rapid.Bool().Draw(t, "write-cache")
	if rapid.Bool().Draw(t, "cache mode") {
		s.Drive.Cache = drawWord[CacheMode](t, "cache")
		s.Drive.WriteCache = s.Drive.Cache.GuestCache()
	}
	if rapid.Bool().Draw(t, "guest switches") {
		s.Guest.WriteCache = drawWord[GuestCache](t, "guest write-cache")
		if s.Drive.Bus == IDE || s.Drive.Bus == AHCI {
			s.Guest.HdparmW = drawWord[Switch](t, "hdparm-w")
		}
	}
	if fs := &s.Filesystem; (fs.Type == Ext3 || fs.Type == Ext4) && s.Drive.Bus != NVMe && rapid.Bool().Draw(t, "external journal") {
		fs.ExternalJournal = diskUnit * Size(rapid.Int64Range(1<<10, 1<<20).Draw(t, "journal blocks"))
		fs.Mkfs = nil
	} else {
		s.Drive.Timing = drawTiming(t)
	}
	s.Drive.Faults = drawFaults(t, s)
	s.AtCut = drawWord[Fate](t, "at-cut")
	s.Timeout = time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "timeout"))
	s.Workload = drawWorkload(t)
	s.Cut = drawCut(t, s)
	s.Expect = drawExpect(t, s.Workload)
	if s.Cut.Position == 0 && s.Filesystem.ExternalJournal == 0 && rapid.Bool().Draw(t, "image file") {
		putOnFile(t, &s)
	}
	return s
}

// putOnFile takes from a scenario what an image file cannot do.
func putOnFile(t *rapid.T, s *Scenario) {
	s.Drive.Backend, s.Drive.Format, s.Drive.AIO = File, drawWord[Image](t, "format"), drawWord[AIO](t, "aio")
	s.Drive.Timing, s.Drive.Faults, s.AtCut = NoTiming.Timing(), nil, Keep
	s.Expect.JournalWrites, s.Expect.Flushes = nil, nil
	if s.Drive.AIO == Native && !s.Drive.Cache.Direct() {
		s.Drive.AIO = IOUring
	}
	if s.Drive.Format == QCow2 {
		s.Expect.ImageErrors = Bounds{Every: {Unit: Number}}
	}
}

func drawTiming(t *rapid.T) Timing {
	timing := drawWord[Profile](t, "profile").Timing()
	if timing.Profile == NoTiming || !rapid.Bool().Draw(t, "own timing") {
		return timing
	}
	timing.BusRate = Rate(rapid.Int64Range(1000, 100e9).Draw(t, "bus-rate"))
	timing.Buffer = Size(rapid.Int64Range(4096, 64<<30).Draw(t, "buffer"))
	if timing.Profile.Kind() == Rotating {
		timing.RPM = rapid.IntRange(60, 1e6).Draw(t, "rpm")
		timing.SeekMax = time.Duration(rapid.Int64Range(int64(timing.SeekMin), int64(time.Second)).Draw(t, "seek-max"))
		return timing
	}
	timing.Channels = rapid.IntRange(1, 1024).Draw(t, "channels")
	timing.Page = Size(512 * rapid.Int64Range(1, 1000).Draw(t, "page"))
	timing.FUA = time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "fua"))
	return timing
}

// TestSources: each value of each profile, and nothing else, has a source.
func TestSources(t *testing.T) {
	for _, p := range Profiles() {
		var want, got []string
		for _, f := range timingFields(p.Kind()) {
			if f.Name != "Profile" {
				want = append(want, fieldName(f))
			}
		}
		for _, s := range p.Sources() {
			if got = append(got, s.Field); s.Text == "" {
				t.Errorf("%s: %s has no source", p, s.Field)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-fields +sources):\n%s", p, diff)
		}
		if p.Timing().Profile != p {
			t.Errorf("the values of %s are called %s", p, p.Timing().Profile)
		}
	}
}

// drawWorkload draws workloads that write every place once, and so are sound
// whatever else Plan.Validate demands.
func drawWorkload(t *rapid.T) Workload {
	count := rapid.IntRange(1, 1000).Draw(t, "count")
	bytes := Size(rapid.Int64Range(1, 4096).Draw(t, "bytes"))
	stride := bytes + Size(rapid.Int64Range(0, 4096).Draw(t, "gap"))
	calls := rapid.Permutation(workload.Calls).Draw(t, "calls")
	calls = calls[:rapid.IntRange(1, len(calls)).Draw(t, "number of calls")]
	if slices.ContainsFunc(calls, workload.Call.Direct) {
		bytes, stride = (bytes+511)/512*512, (stride+511)/512*512
	}
	if len(calls) == 1 && calls[0] != workload.Msync {
		stride = (stride + 511) / 512 * 512
	}
	w := Workload{
		Kind:      rapid.SampledFrom([]workload.Kind{workload.Overwrite, workload.Append}).Draw(t, "kind"),
		File:      rapid.SampledFrom([]string{"tmp.tmp", "a-b_c.D9"}).Draw(t, "file"),
		Size:      stride * Size(count),
		Count:     count,
		Bytes:     bytes,
		Stride:    stride,
		Observers: rapid.IntRange(0, 16).Draw(t, "observers"),
		Chunk:     Size(512 * rapid.IntRange(0, 9).Draw(t, "chunk")),
		Calls:     calls,
	}
	w.Gap = time.Duration(rapid.Int64Range(0, 2000).Draw(t, "gap")) * time.Microsecond
	if w.Kind == workload.Overwrite && rapid.Bool().Draw(t, "allocate") {
		w.Allocate = drawWord[workload.Allocation](t, "allocation")
	}
	if stride%512 == 0 && !slices.Contains(calls, workload.Msync) && w.Observers == 0 {
		w.Threads = rapid.IntRange(0, 32).Draw(t, "threads")
	}
	if !slices.ContainsFunc(calls, func(c workload.Call) bool { return !slices.Contains(workload.Ranged, c) }) {
		w.Sync = Region{Offset: bytes / 2, Length: Size(rapid.Int64Range(1, int64(bytes+1)/2).Draw(t, "sync"))}
	}
	return w
}

func drawCut(t *rapid.T, s Scenario) Cut {
	first := rapid.IntRange(1, s.Workload.Count).Draw(t, "cut first")
	last := rapid.IntRange(first, s.Workload.Count).Draw(t, "cut last")
	return rapid.SampledFrom([]Cut{
		{Op: first},
		{Position: max(first, 4)}, // where there are two disks, it is to be 4
		{After: min(time.Duration(first)*time.Millisecond, s.Timeout-1)},
		{Random: Range{First: first, Last: last}},
	}).Draw(t, "cut")
}

func drawExpect(t *rapid.T, w Workload) Expect {
	e := Default().Expect
	e.Lost = rapid.SampledFrom([]Bounds{
		{Every: {Unit: Ops}},
		{Every: {Operator: Some, Unit: Ops}},
		{Every: {Unit: Ops}, w.Calls[0]: {Operator: AtMost, Value: 3, Unit: Ops}},
	}).Draw(t, "lost")
	e.Recovery = drawWord[verdict.RecoveryClass](t, "recovery")
	bounds := func(unit Unit, label string) Bounds {
		out := Bounds{}
		for _, call := range append(w.Calls[:len(w.Calls):len(w.Calls)], Every) {
			if rapid.Bool().Draw(t, label) {
				out[call] = drawBound(t, unit)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	e.Failed, e.Untold = rapid.SampledFrom([]Bounds{nil, {Every: {Operator: Some, Unit: Ops}}}).Draw(t, "failed"), bounds(Number, "untold")
	e.JournalWrites, e.Flushes = bounds(Number, "journal-writes"), bounds(Number, "flushes")
	e.Mean, e.P50, e.P99, e.Max = bounds(Time, "mean"), bounds(Time, "p50"), bounds(Time, "p99"), bounds(Time, "max")
	if len(w.Calls) > 1 {
		e.Ratios = []Ratio{{Over: w.Calls[0], Under: w.Calls[1], Bound: drawBound(t, Number)}}
	}
	return e
}

// TestRoundTrip: a scenario reads back equal from what Marshal writes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkRoundTrip(t, drawScenario(t)) })
}

// TestDefaults: what is not said is as Default has it.
func TestDefaults(t *testing.T) {
	got, err := Parse("case.yaml", []byte(base))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Name, want.About = "x", "y"
	want.Filesystem.Type = Ext4
	want.Workload.Kind = workload.Overwrite
	want.Cut.Op = 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSpellings: the several ways to say a thing say the same.
func TestSpellings(t *testing.T) {
	for _, group := range [][]string{
		{"drive: {write-cache: on}", "drive: {write-cache: yes}", "drive: {write-cache: true}", "drive: {write-cache: 'ON'}", "expect: {}", "drive:\n  bus: ide"},
		{"drive: {cache: directsync}", "drive: {cache: directsync, write-cache: off}"},
		{"drive: {backend: file}", "drive: {backend: file, format: raw, aio: threads}\nat-cut: keep"},
		{"drive: {cache: unsafe}", "drive: {cache: unsafe, write-cache: on}"},
		{"guest: {hdparm-w: off}", "guest: {hdparm-w: 'off'}"},
		{"drive: {write-cache: off}", "drive: {write-cache: no}", "drive: {write-cache: false}"},
		{"drive: {timing: ide-7200}", "drive: {timing: {profile: ide-7200}}", "drive: {timing: {rpm: 7200, profile: ide-7200, seek-min: 0.8ms}}"},
		{"expect: {lost: some}", "expect: {lost: {every: some}}"},
		{"expect: {p50: 7.5ms..9.16ms}", "expect: {p50: 7500us .. 9160us}", "expect: {p50: {every: 7.5ms..9.16ms}}"},
		{"guest: {memory: 1GiB}", "guest: {memory: 1024MiB}", "guest: {memory: 1073741824}", "guest: {memory: '1G'}"},
		{"source: a b", "source: >-\n  a\n  b", "source: |\n  a b\n"},
	} {
		want, err := Parse("case.yaml", []byte(base+group[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range group[1:] {
			got, err := Parse("case.yaml", []byte(base+text))
			if err != nil {
				t.Error(err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q and %q differ:\n%s", group[0], text, diff)
			}
		}
	}
}

func TestPlans(t *testing.T) {
	s, err := Load("ext3-overwrite")
	if err != nil {
		t.Fatal(err)
	}
	plans := s.Plans(7)
	seeds := map[uint64]bool{}
	for i, plan := range plans {
		want := workload.Plan{Kind: workload.Overwrite, Path: "tmp.tmp", Size: 512000, Count: 200, Bytes: 1, Stride: 512, Call: s.Workload.Calls[i], Seed: plan.Seed}
		if plan != want {
			t.Errorf("plan %d is %+v, want %+v", i, plan, want)
		}
		seeds[plan.Seed] = true
	}
	if len(seeds) != 4 {
		t.Errorf("the plans' seeds are not distinct: %v", seeds)
	}
	s.Workload.Calls = s.Workload.Calls[2:]
	if diff := cmp.Diff(plans[2:], s.Plans(7)); diff != "" {
		t.Errorf("leaving calls out changes the plans of the others:\n%s", diff)
	}
	if s.Plans(7)[0].Seed == s.Plans(8)[0].Seed {
		t.Error("the seed does not matter")
	}
}

func TestConditions(t *testing.T) {
	s, err := Load("ext3-overwrite")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.Expect.Conditions(s.Workload.Calls) {
		got = append(got, c.String())
	}
	want := []string{
		"O_SYNC: lost 0", "O_DSYNC: lost 0", "fsync: lost 0", "fdatasync: lost 0",
		"O_SYNC: foreign 0", "O_DSYNC: foreign 0", "fsync: foreign 0", "fdatasync: foreign 0",
		"O_SYNC: journal-writes >= 2", "fsync: journal-writes >= 2", "fdatasync: journal-writes 0",
		"O_DSYNC: p50 7.5ms..9.166ms", "fdatasync: p50 7.5ms..9.166ms",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTiming(t *testing.T) {
	timing := IDE7200.Timing()
	if got := timing.Revolution(); got != 8333333*time.Nanosecond {
		t.Errorf("a revolution takes %v", got)
	}
	if got := NoTiming.Timing().Revolution(); got != 0 {
		t.Errorf("without timing a revolution takes %v", got)
	}
	if got := timing.String(); got != "ide-7200" {
		t.Errorf("timing prints %q", got)
	}
	timing.RPM, timing.SeekMin = 5400, 0
	if got := timing.String(); got != "ide-7200 (rpm 5400, seek-min 0s)" {
		t.Errorf("changed timing prints %q", got)
	}
}
