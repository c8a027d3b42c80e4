package html

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"powercut/guest/inspect"
	"powercut/harness/explore"
	"powercut/harness/promise"
	"powercut/harness/report"
	"powercut/harness/report/evidence"
	"powercut/harness/verdict"
)

func written(t *testing.T, r *evidence.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// maxPage bounds the page of a run of 20,000 ops, in bytes.
const maxPage = 5 << 20

// TestPage: all that a page is to hold, of a short run and of a long one; nothing
// that the guest said becomes markup, and nothing is fetched.
func TestPage(t *testing.T) {
	for _, n := range []int{2, 30, 20_000} {
		r := aRun(n)
		p := written(t, r)
		if len(p) > maxPage {
			t.Errorf("%d ops give %d bytes", n, len(p))
		}
		for _, want := range []string{
			"NOT MET", "fsync lost 1 of", "1 revolution", `id="c1-latency"`, `id="c2-timeline"`, `id="c2-survival"`, `id="bill"`,
			"never answered", "powercut run runs/x/scenario.yaml --seed 7", "powercut log show runs/x/O_SYNC --op",
			"no flush before the ack", "&lt;/pre&gt;&lt;script&gt;alert(1)", "name: x",
		} {
			if !strings.Contains(p, want) {
				t.Errorf("%d ops: the page lacks %q", n, want)
			}
		}
		if strings.Contains(p, "alert(1)</script>") || strings.Contains(p, "<b>\"quotes\"") || strings.Contains(p, "<i>zeros") {
			t.Error("a text of the guest became markup")
		}
		if m := regexp.MustCompile(`(src|href|url)\s*[=(]\s*["']?(https?:)?//[^"' )]*`).FindString(p); m != "" {
			t.Errorf("the page fetches %s", m)
		}
	}
}

// TestExpectedLoss: a loss that is expected is called so, and no other.
func TestExpectedLoss(t *testing.T) {
	const note = "What was lost is what the scenario expects."
	r := aRun(5)
	if strings.Contains(written(t, r), note) {
		t.Error("a loss that is not expected is called expected")
	}
	r.Document.Held = true
	if !strings.Contains(written(t, r), note) {
		t.Error("an expected loss is not called so")
	}
}

// TestTreePage: of a workload of ops each path has its line, with what was said of it;
// and there is no map of blocks.
func TestTreePage(t *testing.T) {
	r := aRun(3)
	r.Document.Workload.Ops = []string{"write <a> 1KiB", "fsync <a>", "mkdir d"}
	for _, c := range r.Calls {
		lost := promise.Finding{Class: promise.Promised, Path: "<a>", Aspect: "name", Found: "missing", Sync: 2}
		c.Call.Tree = &promise.Result{Counts: promise.Counts{Ops: 3, Syncs: 1, Lost: 1}, Findings: []promise.Finding{lost, {Class: promise.Unpromised, Path: "d", Aspect: "mode"}}}
		c.Objects = []evidence.Object{
			{Path: "<a>", There: true, Changed: 1, Synced: 2, Findings: []promise.Finding{lost}},
			{Path: "b", There: true, Changed: 1, Synced: 2, Found: &inspect.Object{Path: "b", Mode: unix.S_IFREG, Size: 1024}},
			{Path: "c/x", There: true, Changed: 1, Synced: 2, GoneWith: "c"},
			{Path: "d", There: true, Changed: 3, Found: &inspect.Object{Path: "d", Mode: unix.S_IFDIR}},
		}
		for i := range c.Ops {
			c.Ops[i].Text = r.Document.Workload.Ops[i]
		}
	}
	p := written(t, r)
	for _, want := range []string{
		"3 ops begun, 1 sync call succeeded", `<th scope="row" class="l">&lt;a&gt;</th><td class="l" data-is="found">not there</td><td class="l" data-is="its last change">op 1: write &lt;a&gt; 1KiB</td><td class="l" data-is="the last sync call about it">op 2: fsync &lt;a&gt;</td>`,
		`<span class="bad">lost, promised</span>: name: missing (op 2: fsync &lt;a&gt;)`, `<strong>lost, promised:</strong> &lt;a&gt;, name: missing (op 2: fsync &lt;a&gt;)</p>`,
		`op 2: fsync &lt;a&gt;</td><td class="l" data-is="verdict">kept</td>`,
		`op 3: mkdir d</td><td class="l" data-is="the last sync call about it">–</td><td class="l" data-is="verdict">as at the cut, not synced since</td>`, "mkdir d",
		`<td class="l" data-is="verdict">gone with c</td>`,
	} {
		if !strings.Contains(p, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(p, `id="c1-survival"`) {
		t.Error("a tree has a map of blocks")
	}
	if strings.Contains(p, "not promised:</strong>") {
		t.Error("the summary accuses of what may be so")
	}
}

// TestExploredPage: what an exploration found has its place, a line of the map for each
// state that was read back and breaks a promise, and a column for each op.
func TestExploredPage(t *testing.T) {
	r := aRun(5)
	r.Document.Held = true
	if p := written(t, r); strings.Contains(p, "what other cuts leave") || strings.Contains(p, `href="#explored"`) || strings.Contains(p, "xploration") {
		t.Error("an exploration that was not there")
	}
	r.Calls[0].Explored = &explore.Report{Call: "O_SYNC", Positions: 30, States: explore.States{Checked: 20, Equal: 5}, Ended: explore.EndAll}
	if p := written(t, r); !strings.Contains(p, `<p class="soft">Of 25 states of its explorations none breaks a promise. <a href="#explored">`) || strings.Contains(p, "badge bad") {
		t.Error("an exploration that found nothing is not told so")
	}
	r.Calls[1].Explored = &explore.Report{
		Call: "fsync", Positions: 40, States: explore.States{Checked: 20, Pruned: 5}, Broken: 3, Ended: explore.EndBudget,
		Shrunk: &explore.Shrunk{State: "9", Tests: 4, Told: []string{"op 1 was <acked>"}, Bundle: "runs/x/v.tar.zst"},
		Violations: []explore.Violation{
			{State: "12 without 3", Acked: 2, Counts: verdict.Counts{Lost: 1}, Text: "op 1 lost <b>", Runs: []explore.Run{{First: 1, Last: 1, Class: verdict.Lost}, {First: 2, Last: 2, Class: verdict.Kept}}},
			{State: "17 without " + strings.Repeat("4,", 200) + "5", Text: "mount failed: no"},
			{State: "30", Acked: 5, Counts: verdict.Counts{Lost: 2}, Text: "ops lost", Runs: []explore.Run{{First: 1, Last: 3, Class: verdict.Kept}, {First: 4, Last: 5, Class: verdict.Lost}}},
		},
	}
	states := brokenStates(r.Calls[1])
	if len(states) != 2 || states[0].Name != "12" || len(states[0].Cells) != 5 || len(states[1].Cells) != 5 || states[1].Cells[3] != verdict.Lost || states[0].Cells[2] != "" {
		t.Errorf("%v", states)
	}
	p := written(t, r)
	for _, want := range []string{
		`held, 3 states broken · powercut</title>`, `<span class="badge good">held</span> <span class="badge bad">exploration: 3 states broken</span>`, `<a href="#explored">Explorations</a><a href="#console">`, `id="explored"`,
		"<strong>Other cuts:</strong> Of 50 states of its explorations 3 break a promise.",
		"O_SYNC: what other cuts leave", "No state breaks a promise.", "25 states of 40 cuts were decided: 20 recovered", "3 states break a promise.",
		"as far as 4 states allowed: 9", "op 1 was &lt;acked&gt;", "powercut replay runs/x/v.tar.zst", "op 1 lost &lt;b&gt;", "4, …", `id="c2-explored"`, "12: 1 lost, 1 kept, 3 not known",
	} {
		if !strings.Contains(p, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestFiguresOnPage: published figures stand beside ours, with their source.
func TestFiguresOnPage(t *testing.T) {
	r := aRun(3)
	if strings.Contains(written(t, r), "Published figures") {
		t.Error("figures without a source")
	}
	r.Document.Figures = &report.Published{Of: "a disk of 2004", Per: 1000, Why: "because"}
	r.Document.Calls[0].Figure = report.NewFigure(8e9, 8e9, 4e9)
	p := written(t, r)
	for _, want := range []string{"Published figures beside ours", "a disk of 2004, for 1000 ops: because.", "<td class=\"\">8.00 s</td>", "<td class=\"\">0.50</td>"} {
		if !strings.Contains(p, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestTimelineData: an op leads to its requests, and they lead back.
func TestTimelineData(t *testing.T) {
	r := aRun(1000)
	m := regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`).FindAllStringSubmatch(written(t, r), -1)
	if len(m) != len(r.Calls) {
		t.Fatalf("%d timelines", len(m))
	}
	var d timelineData
	if err := json.Unmarshal([]byte(m[1][1]), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Requests) != maxRequests || len(d.Ops) < maxRequests/4 || d.Ops[len(d.Ops)-1].Number != 1000 {
		t.Fatalf("%d ops, %d requests", len(d.Ops), len(d.Requests))
	}
	led := 0
	for i, o := range d.Ops {
		for _, q := range o.Requests {
			if d.Requests[q].Op != i {
				t.Fatalf("op %d leads to a request that leads to %d", i, d.Requests[q].Op)
			}
			if d.Requests[q].From < o.From || d.Requests[q].From > o.To {
				t.Errorf("request %d lies outside of its op %d", q, o.Number)
			}
			led++
		}
	}
	if led != len(d.Requests) {
		t.Errorf("%d of %d requests are some op's", led, len(d.Requests))
	}
}

// TestManyCalls: the page of many calls is bounded too.
func TestManyCalls(t *testing.T) {
	r := aRun(20_000)
	for len(r.Calls) < 24 {
		r.Calls, r.Document.Calls = append(r.Calls, r.Calls[0]), append(r.Document.Calls, r.Document.Calls[0])
	}
	p := written(t, r)
	if drawn := strings.Count(p, " data-rq="); drawn > allRequests || drawn < allRequests*9/10 || len(p) > maxPage {
		t.Errorf("%d requests, %d bytes", drawn, len(p))
	}
}

// TestFigures: each plot is well-formed XML as a file, tells in words what it shows,
// and has a name of its own.
func TestFigures(t *testing.T) {
	names := map[string]bool{}
	for _, n := range []int{2, 200, 5000} {
		for _, f := range Figures(aRun(n)) {
			d := xml.NewDecoder(strings.NewReader(f.File()))
			for {
				_, err := d.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", f.Name, err)
				}
			}
			if len(f.Alt) < 20 || strings.Contains(f.Body, "NaN") || strings.Contains(f.Body, "Inf") {
				t.Errorf("%s: %q", f.Name, f.Alt)
			}
			names[f.Name] = true
		}
	}
	if len(names) != 7 {
		t.Errorf("plots: %v", names)
	}
}

// TestShapes: ops are counted by what they cost.
func TestShapes(t *testing.T) {
	ops := aRun(10).Calls[0].Ops
	ops[3].Bill.Flush = 2
	got := shapes(ops)
	if len(got) != 2 || got[0].Ops != 8 || got[1].Ops != 1 || got[1].Flush != 2 {
		t.Errorf("%+v", got)
	}
}

func TestIndex(t *testing.T) {
	held, broken := aRun(3).Document, aRun(3).Document
	held.Held = true
	held.Folder = t.TempDir()
	dir := filepath.Join(held.Folder, held.Calls[0].Folder)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, explore.ReportFile), []byte(`{"broken": 3}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := Index(&b, []*report.Document{held, broken}, func(d *report.Document) string {
		return map[bool]string{true: "a/report.html"}[d.Held]
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := b.String(); !strings.Contains(p, "1 of 2 runs") || strings.Count(p, `<a href="a/report.html">ext4-overwrite</a> <span class="bad">exploration: 3 states broken</span>`) != 1 ||
		!strings.Contains(p, "1 of 2 runs held, 3 states broken") || !strings.Contains(p, `<span class="badge bad">NOT MET</span>`) {
		t.Errorf("%s", p)
	}
}

// TestIndexBusy: runs that were not judged are told from those that did not hold.
func TestIndexBusy(t *testing.T) {
	busy := aRun(3).Document
	busy.Held, busy.Folder, busy.Expectations = false, t.TempDir(), []report.Expectation{{Text: "fsync: p50 <= 1ms", Busy: true}}
	var b bytes.Buffer
	if err := Index(&b, []*report.Document{busy}, func(*report.Document) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if p := b.String(); !strings.Contains(p, `0 of 1 run held, 1 not judged <span class="badge bad">not judged</span>`) {
		t.Errorf("%s", p)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriterFails(t *testing.T) {
	if err := Write(full{}, aRun(2)); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
