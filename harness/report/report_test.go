package report

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"powercut/guest/workload"
	"powercut/harness/latency"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files and docs/report-json.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares got with a file, or rewrites the file under -update.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test ./harness/report -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// manySeeds is one scenario with several seeds, one of which did not hold.
func manySeeds() []*Document {
	var docs []*Document
	for seed := uint64(1); seed <= 4; seed++ {
		d := barrierOff()
		d.Seed, d.Folder = seed, "runs/barrier-off-"+string(rune('0'+seed))
		d.Calls = d.Calls[1:2]
		d.Held = seed != 3
		docs = append(docs, d)
	}
	return docs
}

func TestGolden(t *testing.T) {
	table := func(d *Document, o Options) func(*bytes.Buffer) error {
		return func(b *bytes.Buffer) error { return Table(b, d, o) }
	}
	several := func(docs []*Document, o Options) func(*bytes.Buffer) error {
		return func(b *bytes.Buffer) error { return Runs(b, docs, o) }
	}
	tests := map[string]func(*bytes.Buffer) error{
		"ext3-overwrite.txt":       table(ext3Overwrite(), Options{Explain: true}),
		"barrier-off.txt":          table(barrierOff(), Options{}),
		"barrier-off-colour.txt":   table(barrierOff(), Options{Colour: true, Full: 2, Explain: true}),
		"empty.txt":                table(&Document{Scenario: "empty"}, Options{}),
		"summary-family.txt":       several([]*Document{ext3Overwrite(), barrierOff()}, Options{}),
		"summary-seeds.txt":        several(manySeeds(), Options{Explain: true}),
		"summary-seeds-colour.txt": several(manySeeds(), Options{Colour: true}),
		"summary-of-nothing.txt":   several(nil, Options{Explain: true}),
		"matrix.txt":               func(b *bytes.Buffer) error { return Runs(b, append(aMatrix(), barrierOff()), Options{}) },
		"matrix-explained.txt":     func(b *bytes.Buffer) error { return Runs(b, aMatrix(), Options{Explain: true}) },
		"qcow2-kill.txt":           table(onQcow2(), Options{}),
		"matrix-cell.txt":          table(aMatrix()[0], Options{}),
		"barrier-off.json":         func(b *bytes.Buffer) error { return JSON(b, barrierOff()) },
		"figures.txt":              func(b *bytes.Buffer) error { return Table(b, withFigures(0), Options{}) },
		"figures-of-runs.txt": func(b *bytes.Buffer) error {
			return Runs(b, []*Document{withFigures(0), withFigures(2), withFigures(1)}, Options{Explain: true})
		},
		"studies.md": func(b *bytes.Buffer) error {
			return StudiesPage(b, append(ofMatrix(), withFigures(0), withFigures(2)), []string{"large_one", "small"}, func(s Study) string { return "seeds/" + s.Picture.Name + ".svg" })
		},
		"compared.txt": func(b *bytes.Buffer) error {
			return Runs(b, ofMatrix(), Options{})
		},
		"summary.json":            func(b *bytes.Buffer) error { return JSONAll(b, manySeeds()[2:]) },
		"empty.json":              func(b *bytes.Buffer) error { return JSON(b, &Document{Schema: Schema, Calls: []Call{{}}}) },
		"summary-of-nothing.json": func(b *bytes.Buffer) error { return JSONAll(b, nil) },
		"../../../docs/report-json.md": func(b *bytes.Buffer) error {
			b.WriteString(Fields())
			return nil
		},
	}
	for name, write := range tests {
		t.Run(filepath.Base(name), func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name), b.Bytes())
		})
	}
}

// TestColourOnlyPaints: without its colours, a coloured report is the plain one.
func TestColourOnlyPaints(t *testing.T) {
	for _, d := range []*Document{ext3Overwrite(), barrierOff()} {
		var plain, coloured bytes.Buffer
		for b, o := range map[*bytes.Buffer]Options{&plain: {}, &coloured: {Colour: true}} {
			if err := errors.Join(Table(b, d, o), Runs(b, []*Document{d}, o)); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(plain.String(), "\x1b") {
			t.Error("colour although none was allowed")
		}
		if !strings.Contains(coloured.String(), "\x1b") {
			t.Error("no colour although it was allowed")
		}
		if diff := cmp.Diff(plain.String(), text.StripEscape(coloured.String())); diff != "" {
			t.Errorf("colour changes the text (-plain +coloured):\n%s", diff)
		}
	}
}

// anyDocument draws documents of every shape: long texts, hostile characters,
// large numbers. Its words are short enough to fit on a page.
func anyDocument(t *rapid.T) *Document {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc-/=漢\x1b\u202e\uFFFD\t")), 1, 20, -1)
	sentence := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(word, 0, 30).Draw(t, "words"), " ")
	})
	count := rapid.IntRange(0, 1_000_000)
	maybe := rapid.OneOf(rapid.Just(0), count)
	call := rapid.Custom(func(t *rapid.T) Call {
		ns := rapid.SliceOfN(rapid.Int64Range(0, 1e12), 0, 4).Draw(t, "ns")
		c := Call{
			Call:    string(rapid.SampledFrom(workload.Calls).Draw(t, "call")),
			Cut:     Cut{Reason: sentence.Draw(t, "reason") + rapid.SampledFrom([]string{"", " (random from the seed)"}).Draw(t, "remark"), Op: rapid.Uint64().Draw(t, "op"), Position: count.Draw(t, "position"), Volatile: count.Draw(t, "volatile")},
			Counts:  verdict.Counts{Ops: count.Draw(t, "ops"), Lost: maybe.Draw(t, "lost"), Torn: maybe.Draw(t, "torn"), Foreign: maybe.Draw(t, "foreign"), Failed: maybe.Draw(t, "failed")},
			Latency: latency.Summarise(ns),
			Bill:    trace.Bill{Ops: maybe.Draw(t, "bill"), MetadataWrites: float64(maybe.Draw(t, "metadata"))},
			Recovery: verdict.Recovery{
				Class:   rapid.SampledFrom([]verdict.RecoveryClass{verdict.Recovered, verdict.MountFailed, verdict.Hang, ""}).Draw(t, "class"),
				Detail:  sentence.Draw(t, "detail"),
				Console: rapid.SliceOfN(sentence, 0, 15).Draw(t, "console"),
			},
			Size: sentence.Draw(t, "size"),
		}
		if rapid.Bool().Draw(t, "failures") {
			c.Errors = &Errors{
				First: rapid.Uint64().Draw(t, "first"), Errno: word.Draw(t, "errno"), Last: word.Draw(t, "last"), Count: count.Draw(t, "failed ops"),
				Asked: maybe.Draw(t, "asked"), Told: count.Draw(t, "told"), Again: word.Draw(t, "again"),
			}
		}
		c.Findings = drawFindings(t)
		for i := range c.Findings {
			f := &c.Findings[i]
			f.Why, f.Acked, f.AckedAt = sentence.Draw(t, "why"), rapid.Bool().Draw(t, "acked"), count.Draw(t, "acked at")
			f.Class = rapid.SampledFrom([]verdict.Class{verdict.Lost, verdict.Foreign}).Draw(t, "class")
			f.Extent.Offset, f.AckedTime = rapid.Int64Range(0, 1<<40).Draw(t, "offset"), float64(rapid.Int64Range(0, 1e9).Draw(t, "ms"))
			f.CarriedBy = rapid.SliceOfN(rapid.Uint64Range(1, 1e6), 0, 4).Draw(t, "requests")
			if rapid.Bool().Draw(t, "other") {
				f.Found = sentence.Draw(t, "found")
				f.Reason = rapid.SampledFrom(append(trace.LostReasons(), "", trace.Reason(word.Draw(t, "any")))).Draw(t, "reason")
			}
		}
		return c
	})
	d := &Document{
		Scenario: word.Draw(t, "scenario"), About: sentence.Draw(t, "about"), Seed: rapid.Uint64().Draw(t, "seed"),
		Folder: "runs/" + word.Draw(t, "folder"), Held: rapid.Bool().Draw(t, "held"),
		Machine: Machine{Ledger: rapid.SampledFrom([]string{LedgerMemory, LedgerSerial}).Draw(t, "ledger"), Reason: sentence.Draw(t, "why")},
		Drive:   Drive{WriteCache: rapid.Bool().Draw(t, "cache"), Faults: rapid.SliceOfN(word, 0, 9).Draw(t, "faults")},
		Calls:   rapid.SliceOfN(call, 0, 5).Draw(t, "calls"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "expectations") {
		d.Expectations = append(d.Expectations, Expectation{Text: sentence.Draw(t, "text"), Found: sentence.Draw(t, "found")})
	}
	return d
}

// TestPage: whatever the document, no line is too wide and no control character
// gets through to the terminal.
func TestPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDocument(t)
		o := Options{Explain: rapid.Bool().Draw(t, "explain"), Full: rapid.IntRange(0, 12).Draw(t, "full")}
		var b bytes.Buffer
		if err := errors.Join(Table(&b, d, o), Runs(&b, []*Document{d, barrierOff()}, o)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if text.StringWidth(line) > Width {
				t.Errorf("%d columns: %q", text.StringWidth(line), line)
			}
			if line != strings.TrimRight(line, " ") {
				t.Errorf("spaces at the end of %q", line)
			}
			if Clean(line) != line {
				t.Errorf("control characters in %q", line)
			}
		}
	})
}

// drawFindings draws findings of ascending ops that differ in all that they can.
func drawFindings(t *rapid.T) []Finding {
	var findings []Finding
	op := rapid.IntRange(0, 1_000_000).Draw(t, "before")
	for range rapid.IntRange(0, 60).Draw(t, "n") {
		op += rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "step")
		f := finding(op, rapid.SampledFrom([]trace.Reason{trace.NoFlush, trace.NoWrite}).Draw(t, "reason"))
		f.Found = rapid.SampledFrom([]string{"the content of op 7", "the content of op 12", "zeros"}).Draw(t, "found")
		findings = append(findings, f)
	}
	return findings
}

// TestFold: the runs are the findings, each once and in order.
func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		findings := drawFindings(t)
		i := 0
		runs := fold(findings)
		for n, r := range runs {
			for k := r.head.Op; k <= r.last.Op; k++ {
				if findings[i].Op != k {
					t.Fatalf("run %s holds op %d, the findings go on with %d", r.name(), k, findings[i].Op)
				}
				if findings[i].Reason != r.head.Reason || (findings[i].Found == "zeros") != (r.head.Found == "zeros") {
					t.Fatalf("op %d is folded into another reason", k)
				}
				i++
			}
			if n > 0 && runs[n-1].last.Op+1 == r.head.Op && alike(runs[n-1].head, r.head) {
				t.Fatalf("%s and %s should be one", runs[n-1].name(), r.name())
			}
		}
		if i != len(findings) {
			t.Fatalf("%d of %d findings", i, len(findings))
		}
	})
}

// TestAllNamed: as long as there are not too many ranges, each op is named once.
func TestAllNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		findings := drawFindings(t)
		rows, rest := rowsOf(findings, rapid.IntRange(1, 8).Draw(t, "full"))
		var text []string
		for _, r := range rows {
			text = append(text, r.name())
		}
		if len(rest) > 0 {
			text = append(text, strings.Split(names(rest), ", ")...)
		}
		var named []int
		for _, s := range text {
			var from, to int
			if n, _ := fmt.Sscanf(s, "%d–%d", &from, &to); n < 2 {
				to = from
			}
			for k := from; k <= to; k++ {
				named = append(named, k)
			}
		}
		var want []int
		for _, f := range findings {
			want = append(want, f.Op)
		}
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("ops (-want +named):\n%s", diff)
		}
	})
}

// TestNamesEnd: the list of ranges has an end, and says how much is left.
func TestNamesEnd(t *testing.T) {
	var runs []run
	for k := range 2 * maxNames {
		f := finding(3*k+1, trace.NoFlush)
		runs = append(runs, run{f, f})
	}
	if got, want := names(runs), fmt.Sprintf(", %d, and %d more ops", 3*maxNames-2, maxNames); !strings.HasSuffix(got, want) {
		t.Errorf("%s does not end in %q", got, want)
	}
}

// TestCells of rows that hold one op, several, or one that was never acknowledged.
func TestCells(t *testing.T) {
	one, other, partly, never, bare := finding(7, trace.NoFlush), finding(9, trace.NoFlush), finding(7, trace.NoFlush), finding(7, ""), finding(9, trace.NoWrite)
	partly.Missing.Length = 512
	partly.CarriedBy = []uint64{1, 2, 3}
	never.Acked = false
	bare.CarriedBy, bare.Found = nil, ""
	tests := map[string]struct {
		run  run
		want []string
	}{
		"one op":      {run{one, one}, []string{"7", "lost", "24576+4096", "139", "228.791 ms", "74", "content from before op 1", "no flush before the ack"}},
		"several ops": {run{one, other}, []string{"7–9", "lost", "3 ops", "139–149", "", "74–78", "content from before op 1", "no flush before the ack"}},
		"in part":     {run{partly, partly}, []string{"7", "lost", "24576+512 of 24576+4096", "139", "228.791 ms", "1 and 2 more", "content from before op 1", "no flush before the ack"}},
		"never acked": {run{never, never}, []string{"7", "lost", "24576+4096", "never", "", "–", "content from before op 1", "–"}},
		"no request":  {run{bare, bare}, []string{"9", "lost", "32768+4096", "149", "237.017 ms", "none", "–", "no write before the ack"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range findingColumns() {
				got = append(got, c.cell(tt.run))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMetBounds: equal bounds share a line, and what did not hold is left out.
func TestMetBounds(t *testing.T) {
	d := ext3Overwrite()
	d.Expectations = append(d.Expectations,
		Expectation{Text: "fsync: lost 0", Found: "7"},
		Expectation{Text: "msync: lost 0", Found: "0", Held: true}, // of no call of this run
		Expectation{Text: "fsync: recovery oops", Found: "oops", Held: true},
	)
	var got []string
	for _, m := range metBounds(d) {
		got = append(got, m.text(len(d.Calls)))
	}
	want := []string{
		"recovery recovered: all 4 calls",
		"lost 0: O_SYNC 0, O_DSYNC 0, fsync 0, fdatasync 0",
		"journal-writes 0: fdatasync 0.00",
		"p50 7.5ms..9.166ms: O_DSYNC 8.33 ms, fdatasync 8.33 ms",
		"fsync / fdatasync >= 2.5: 3.00",
		"msync: lost 0: 0",
		"recovery oops: fsync oops",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCommonRemark(t *testing.T) {
	tests := map[string][]string{
		"":         {},
		"(random)": {"op 7 had begun (random)", "op 8 (had begun) (random)"},
	}
	for want, reasons := range tests {
		var calls []Call
		for _, r := range reasons {
			calls = append(calls, Call{Cut: Cut{Reason: r}})
		}
		if got := commonRemark(calls); got != want {
			t.Errorf("%q: %q, want %q", reasons, got, want)
		}
		for _, other := range []string{"op 3", "op 3 (chosen)", "(random)", "(" + strings.Repeat("x", 40) + ")", "3 (random) later"} {
			if got := commonRemark(append(calls, Call{Cut: Cut{Reason: other}})); got != "" && len(calls) > 0 {
				t.Errorf("%q and %q: %q", reasons, other, got)
			}
		}
	}
}

// TestUnread: where the disk was not read back, no count is passed off as one.
func TestUnread(t *testing.T) {
	d := barrierOff()
	d.Calls = d.Calls[2:]
	d.Calls[0].Counts = verdict.Counts{Ops: 91, Acked: 90, Lost: 90, Foreign: 90}
	for _, c := range survivalColumns()[3:8] {
		if got := c.cell(d.Calls[0]); got != unread {
			t.Errorf("%s is %q", c.name, got)
		}
	}
	if got := survivors(lost)(d); got != unread {
		t.Errorf("lost is %q", got)
	}
	if total(d, acked) != 90 || total(d, lost) != 0 {
		t.Errorf("acked %d, lost %d", total(d, acked), total(d, lost))
	}
}

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		s           string
		first, rest int
		want        []string
	}{
		"nothing":                {"", 5, 5, []string{""}},
		"fits":                   {"ab cd", 5, 5, []string{"ab cd"}},
		"breaks":                 {"ab cde", 5, 5, []string{"ab", "cde"}},
		"shorter first":          {"ab cd ef gh", 2, 5, []string{"ab", "cd ef", "gh"}},
		"no room beside a label": {"abcd ef", 2, 7, []string{"", "abcd ef"}},
		"long word":              {"a bcdefgh i", 5, 5, []string{"a", "bcdefgh", "i"}},
		"long first word":        {"bcdefgh i", 5, 5, []string{"bcdefgh", "i"}},
		"wide characters":        {"漢字 漢", 5, 5, []string{"漢字", "漢"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, wrap(tt.s, tt.first, tt.rest)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSize(t *testing.T) {
	tests := map[int64]string{
		0: "0 bytes", 1: "1 byte", 512: "512 bytes", 1024: "1 KiB", 1536: "1536 bytes",
		512_000: "500 KiB", 64 << 20: "64 MiB", 3 << 30: "3072 MiB",
	}
	for n, want := range tests {
		if got := size(n); got != want {
			t.Errorf("size(%d) is %q, want %q", n, got, want)
		}
	}
}

// brokenWriter fails every write.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriterFails(t *testing.T) {
	d := ext3Overwrite()
	for name, err := range map[string]error{
		"Table":   Table(brokenWriter{}, d, Options{}),
		"Runs":    Runs(brokenWriter{}, []*Document{d}, Options{}),
		"JSON":    JSON(brokenWriter{}, d),
		"JSONAll": JSONAll(brokenWriter{}, []*Document{d}),
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
