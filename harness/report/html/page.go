// Package html writes the page of a run: one file that needs no network, with the
// summary, what each sync call cost, what happened around the cut, what survived,
// the consoles, and how to repeat it.
package html

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"powercut/harness/latency"
	"powercut/harness/report"
	"powercut/harness/report/evidence"
	"powercut/harness/report/plot"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

//go:embed page.tmpl index.tmpl page.css page.js
var files embed.FS

func parse(name string) *template.Template {
	read := func(file string) string {
		b, err := files.ReadFile(file)
		if err != nil {
			panic(err) // it is embedded
		}
		return string(b)
	}
	return template.Must(template.New(name).Funcs(template.FuncMap{
		"css":    func() template.CSS { return template.CSS(read("page.css") + plot.Style) },
		"script": func() template.JS { return template.JS(read("page.js")) },
		"svg":    func(f plot.Figure) template.HTML { return template.HTML(f.SVG()) },
		"time":   func(ns float64) string { return latency.Format(ns) },
		"lines":  func(list []string) string { return strings.Join(list, "\n") },
	}).ParseFS(files, name))
}

var (
	pageTemplate  = parse("page.tmpl")
	indexTemplate = parse("index.tmpl")
)

// Write writes the page of a run.
func Write(w io.Writer, r *evidence.Run) error {
	if err := pageTemplate.Execute(w, newPage(r)); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// Index writes a page that sums up several runs and leads to theirs: link names the
// page of a run, relative to the index, or is empty where there is none. What explorations
// have found is read from the run folders.
func Index(w io.Writer, docs []*report.Document, link func(*report.Document) string) error {
	v := struct {
		Tally           string
		Rows            []indexRow
		Grid            report.Grid
		Unmet, Unjudged bool // of at least one run
		Broken          int  // states, of all explorations
	}{Tally: report.TallyRuns(docs), Grid: report.RunGrid(docs)}
	for i, d := range docs {
		e, err := evidence.ReadExplored(d)
		if err != nil {
			return err
		}
		v.Broken += e.Broken
		v.Rows = append(v.Rows, indexRow{Link: link(d), Broken: e.Broken, Cells: v.Grid.Rows[i]})
		v.Unmet = v.Unmet || !d.Held && !d.Unjudged()
		v.Unjudged = v.Unjudged || d.Unjudged()
	}
	if err := indexTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

type indexRow struct {
	Link   string
	Broken int // states of its explorations
	Cells  []report.Cell
}

// page is what the template shows.
type page struct {
	*evidence.Run
	Doc               *report.Document
	Facts             []report.Fact
	Met, Unmet        []report.Expectation
	Survival, Cost    report.Grid
	Cut               report.Grid
	Bounds            []evidence.Bound
	Bill              plot.Figure
	Sections          []section
	Logged, Untimed   bool
	Trees             bool        // the workload is one of ops
	Figures           report.Grid // published figures beside ours; no rows where there are none
	Expected          bool        // something was lost, as the scenario expects
	Again, LogExample string
}

// section is what the page shows of one call.
type section struct {
	*evidence.Call
	ID           string
	Latency      plot.Figure
	Shapes       []shape
	Timeline     *plot.Figure // nil without a log
	Data         *timelineData
	Rows         []opRow
	Survival     plot.Figure // of one file
	PerCell      int
	Tree         string // of a workload of ops: the verdict summed up
	Objects      []objectRow
	TreeFindings []objectVerdict
	Explored     *explored // nil where it was not explored
	Headline     string
	Findings     report.Grid
	MoreFound    int
	Whys         []why
}

// why explains a reason by the first op that it holds for.
type why struct {
	Reason string
	Op     int
	Text   string
}

func newPage(r *evidence.Run) page {
	p := page{
		Run: r, Doc: r.Document, Facts: r.Document.Facts(), Survival: report.SurvivalGrid(r.Document.Calls),
		Cost: report.CostGrid(r.Document.Calls), Cut: report.CutGrid(r.Document.Calls),
		Figures: report.FigureGrid(r.Document), Bounds: evidence.Bounds(r.Scenario.Drive, int64(r.Scenario.Workload.Bytes)), Again: r.Document.Again(),
	}
	p.Untimed = len(p.Bounds) == 0
	for _, e := range r.Document.Expectations {
		if e.Held {
			p.Met = append(p.Met, e)
		} else {
			p.Unmet = append(p.Unmet, e)
		}
	}
	figures := map[string]plot.Figure{}
	for _, f := range Figures(r) {
		figures[f.ID] = f
	}
	p.Bill = figures[billID]
	for i, c := range r.Calls {
		p.Expected = p.Expected || r.Document.Held && len(c.Findings) > 0
		s := section{
			Call: c, ID: callID(i), Latency: figures[callID(i)+"-latency"], Survival: figures[callID(i)+"-survival"],
			Shapes: shapes(c.Ops), PerCell: plot.PerCell(len(c.Ops)),
		}
		s.Explored = newExplored(c, figures[callID(i)+"-explored"])
		s.Findings, s.MoreFound = report.FindingGrid(*c.Call, report.DefaultFull)
		if c.Tree != nil {
			p.Trees, s.Tree, s.Objects = true, report.TreeText(c.Tree.Counts), objectRows(r.Document, c)
			s.TreeFindings, s.MoreFound = treeFindings(r.Document, c.Tree.Findings)
		}
		s.Headline, s.Whys = report.Headline(*c.Call), whys(c.Findings)
		if f, ok := figures[callID(i)+"-timeline"]; ok {
			s.Timeline, s.Data, s.Rows = &f, newTimelineData(c, requestsOf(len(r.Calls))), lastOps(c)
			p.Logged = true
		}
		p.Sections = append(p.Sections, s)
		if p.LogExample == "" && c.Requests != nil {
			p.LogExample = fmt.Sprintf("powercut log show %s/%s --op %d", r.Document.Folder, c.Folder, exampleOp(c))
		}
	}
	return p
}

func exampleOp(c *evidence.Call) int {
	if len(c.Findings) > 0 {
		return c.Findings[0].Op
	}
	return max(len(c.Ops), 1)
}

func whys(findings []report.Finding) []why {
	var list []why
	seen := map[trace.Reason]bool{}
	for _, f := range findings {
		if f.Why != "" && !seen[f.Reason] {
			seen[f.Reason] = true
			list = append(list, why{string(f.Reason), f.Op, f.Why})
		}
	}
	return list
}

const billID = "bill"

func callID(i int) string { return fmt.Sprintf("c%d", i+1) }

// Figures draws all plots of a run.
func Figures(r *evidence.Run) []plot.Figure {
	var list []plot.Figure
	var bounds []plot.Bound
	for _, b := range evidence.Bounds(r.Scenario.Drive, int64(r.Scenario.Workload.Bytes)) {
		bounds = append(bounds, plot.Bound{At: b.At, Name: b.Name})
	}
	var samples [][]int64
	for _, c := range r.Calls {
		samples = append(samples, c.Latencies())
	}
	scale := plot.RangeOf(bounds, samples...)
	var costs []plot.Cost
	for i, c := range r.Calls {
		list = append(list, plot.Latency(callID(i)+"-latency", c.Name(), samples[i], bounds, scale))
		if len(c.Requests) > 0 {
			list = append(list, timeline(c, requestsOf(len(r.Calls))).Figure(callID(i)+"-timeline", c.Name()))
			costs = append(costs, cost(c))
		}
		if states := brokenStates(c); len(states) > 0 {
			f := plot.Survival(callID(i)+"-explored", c.Name(), states)
			f.Name, f.Title = c.Name()+"-explored", "What other cuts lost of "+c.Name()
			list = append(list, f)
		}
		if c.Tree != nil {
			continue // the page has a table of its objects
		}
		list = append(list, plot.Survival(callID(i)+"-survival", c.Name(), []plot.State{{Name: "what the cut left", Cells: classes(c.Ops)}}))
	}
	if len(costs) > 0 {
		list = append(list, plot.Bill(billID, costs))
	}
	return list
}

func cost(c *evidence.Call) plot.Cost {
	return plot.Cost{
		Call: c.Name(), Data: c.Bill.DataWrites, Journal: c.Bill.JournalWrites, Other: c.Bill.MetadataWrites, Flush: c.Bill.Flushes,
		Drive: nanoseconds(c.Bill.DriveTime), Latency: nanoseconds(c.Latency.Mean),
	}
}

func classes(ops []evidence.Op) []verdict.Class {
	list := make([]verdict.Class, len(ops))
	for i, o := range ops {
		list[i] = o.Class
	}
	return list
}
