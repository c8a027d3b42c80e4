package report

import (
	"bytes"
	"errors"
	"flag"
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
	summary := func(docs []*Document, o Options) func(*bytes.Buffer) error {
		return func(b *bytes.Buffer) error { return Summary(b, docs, o) }
	}
	tests := map[string]func(*bytes.Buffer) error{
		"ext3-overwrite.txt":       table(ext3Overwrite(), Options{Explain: true}),
		"barrier-off.txt":          table(barrierOff(), Options{}),
		"barrier-off-colour.txt":   table(barrierOff(), Options{Colour: true, Full: 2, Explain: true}),
		"empty.txt":                table(&Document{Scenario: "empty"}, Options{}),
		"summary-family.txt":       summary([]*Document{ext3Overwrite(), barrierOff()}, Options{}),
		"summary-seeds.txt":        summary(manySeeds(), Options{Explain: true}),
		"summary-seeds-colour.txt": summary(manySeeds(), Options{Colour: true}),
		"summary-of-nothing.txt":   summary(nil, Options{Explain: true}),
		"barrier-off.json":         func(b *bytes.Buffer) error { return JSON(b, barrierOff()) },
		"summary.json":             func(b *bytes.Buffer) error { return JSONAll(b, manySeeds()[2:]) },
		"empty.json":               func(b *bytes.Buffer) error { return JSON(b, &Document{Schema: Schema, Calls: []Call{{}}}) },
		"summary-of-nothing.json":  func(b *bytes.Buffer) error { return JSONAll(b, nil) },
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
			if err := errors.Join(Table(b, d, o), Summary(b, []*Document{d}, o)); err != nil {
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
			Cut:     Cut{Reason: sentence.Draw(t, "reason"), Op: rapid.Uint64().Draw(t, "op"), Position: count.Draw(t, "position"), Volatile: count.Draw(t, "volatile")},
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
		for k := range rapid.IntRange(0, 30).Draw(t, "findings") {
			c.Findings = append(c.Findings, finding(k*rapid.IntRange(1, 2).Draw(t, "step"), sentence.Draw(t, "why")))
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
		if err := errors.Join(Table(&b, d, o), Summary(&b, []*Document{d, barrierOff()}, o)); err != nil {
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
			if clean(line) != line {
				t.Errorf("control characters in %q", line)
			}
		}
	})
}

// TestFold: the runs are the findings, each once and in order.
func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var findings []Finding
		op := 0
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			op += rapid.IntRange(1, 2).Draw(t, "step")
			why := rapid.SampledFrom([]string{"request 7", "request 81", "no write"}).Draw(t, "why")
			findings = append(findings, finding(op, why))
		}
		i := 0
		runs := fold(findings)
		for n, r := range runs {
			for k := r.head.Op; k <= r.last; k++ {
				if findings[i].Op != k {
					t.Fatalf("run %s holds op %d, the findings go on with %d", r.name(), k, findings[i].Op)
				}
				if (findings[i].Why == "no write") != (r.head.Why == "no write") {
					t.Fatalf("op %d is folded into another reason", k)
				}
				i++
			}
			if n > 0 && runs[n-1].last+1 == r.head.Op && (runs[n-1].head.Why == "no write") == (r.head.Why == "no write") {
				t.Fatalf("%s and %s should be one", runs[n-1].name(), r.name())
			}
		}
		if i != len(findings) {
			t.Fatalf("%d of %d findings", i, len(findings))
		}
	})
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
		"Summary": Summary(brokenWriter{}, []*Document{d}, Options{}),
		"JSON":    JSON(brokenWriter{}, d),
		"JSONAll": JSONAll(brokenWriter{}, []*Document{d}),
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
