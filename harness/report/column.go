package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"powercut/harness/latency"
	"powercut/harness/verdict"
)

// column is one column of a table whose rows are of type R.
type column[R any] struct {
	name   string // a line break splits it over two lines
	legend string // what Options.Explain says of it
	left   bool   // aligned left
	first  bool   // the first of a group, set off a little where the table is tight
	most   int    // longer cells are wrapped at this width; 0: never
	tight  int    // replaces most where the table is too wide otherwise; 0: never
	cell   func(R) string
	style  func(R) style // nil: plain
	shown  func(R) bool  // the column is shown if it is so for some row; nil: always
}

// unread stands in a cell whose value is not known because nothing was read back.
const unread = "?"

// none stands in a cell that has no value.
const none = "–"

// survivalColumns are the columns that say what became of the ops.
func survivalColumns() []column[Call] {
	return []column[Call]{
		{
			name: "call", left: true, legend: "the sync call after each write; each call has its own guest, drive and cut",
			cell: func(c Call) string { return c.Call },
		},
		{
			name: "ops", first: true, legend: "writes that the workload had begun before the cut; op 0, the file's creation, is not counted",
			cell: func(c Call) string { return strconv.Itoa(c.Counts.Ops) },
		},
		{
			name: "acked", legend: "ops whose sync call had returned success before the cut: their data must survive, if the call promises it",
			cell: func(c Call) string { return strconv.Itoa(c.Counts.Acked) },
		},
		{
			name: "kept", legend: "acked, and in the file after recovery: every byte is the op's own or a later op's",
			cell: survivor(func(n verdict.Counts) int { return n.Kept }),
		},
		{
			name: "lost", legend: "acked, and not in the file after recovery: at least one byte is older than the op, or beyond the file's end. A broken promise",
			cell:  survivor(func(n verdict.Counts) int { return n.Lost }),
			style: paintIf(red, func(n verdict.Counts) int { return n.Lost }),
		},
		{
			name: "not\npromised", legend: "acked, and not in the file after recovery in full, and what is missing was not promised: by a call that promises nothing here, or that was for another range",
			cell:  survivor(unpromised),
			style: paintIf(amber, unpromised),
			shown: func(c Call) bool { return read(c) && c.Counts.Unpromised > 0 },
		},
		{
			name: "early", legend: "not acked, yet there in full: allowed. (Not acked and not there is allowed as well, and has no column)",
			cell: survivor(func(n verdict.Counts) int { return n.Early }),
		},
		{
			name: "torn", legend: "not acked, and there in part: allowed",
			cell:  survivor(func(n verdict.Counts) int { return n.Torn }),
			shown: func(c Call) bool { return read(c) && c.Counts.Torn > 0 },
		},
		{
			name: "foreign", legend: "acked or not, at least one byte that no op ever wrote there",
			cell:  survivor(func(n verdict.Counts) int { return n.Foreign }),
			style: paintIf(red, func(n verdict.Counts) int { return n.Foreign }),
			shown: func(c Call) bool { return read(c) && c.Counts.Foreign > 0 },
		},
		{
			name: "unsure", legend: "of the kept, ops whose bytes could also be older ones that look alike",
			cell:  survivor(func(n verdict.Counts) int { return n.Ambiguous }),
			shown: func(c Call) bool { return read(c) && c.Counts.Ambiguous > 0 },
		},
		{
			name: "failed", legend: "the write or the sync call returned an error: no promise",
			cell:  func(c Call) string { return strconv.Itoa(c.Counts.Failed) },
			shown: func(c Call) bool { return c.Counts.Failed > 0 },
		},
	}
}

// costColumns are the columns that say what a sync call cost.
func costColumns() []column[Call] {
	return []column[Call]{
		{
			name: "mean", first: true, legend: "mean time that an acked op took on the guest's clock: its write and its sync call together (with O_SYNC and O_DSYNC the write is the sync call). The sync call alone is sync_latency in report.json",
			cell: taken(func(s latency.Summary) float64 { return s.Mean }),
		},
		{
			name: "p50", legend: "half of these ops took no longer",
			cell: taken(func(s latency.Summary) float64 { return float64(s.P50) }),
		},
		{
			name: "p99", legend: "99 of 100 of these ops took no longer",
			cell: taken(func(s latency.Summary) float64 { return float64(s.P99) }),
		},
		{
			name: "max", legend: "the longest of these ops",
			cell: taken(func(s latency.Summary) float64 { return float64(s.Max) }),
		},
		{
			name: "data\n/op", first: true, legend: "write requests with the file's data that reached the drive while an op ran: the mean over the ops that ended",
			cell: billed(func(c Call) float64 { return c.Bill.DataWrites }),
		},
		{
			name: "journal\n/op", legend: "the same of write requests to the file system's journal (jbd2)",
			cell: billed(func(c Call) float64 { return c.Bill.JournalWrites }),
		},
		{
			name: "other\n/op", legend: "the same of write requests with other metadata (inodes, bitmaps, directories)",
			cell:  billed(func(c Call) float64 { return c.Bill.MetadataWrites }),
			shown: func(c Call) bool { return c.Bill.MetadataWrites >= 0.05 },
		},
		{
			name: "flush\n/op", legend: "the same of requests to flush the drive's cache; with the write cache off the guest sends none",
			cell: billed(func(c Call) float64 { return c.Bill.Flushes }),
		},
	}
}

// cutColumns are the columns that say where the power went.
func cutColumns(calls []Call) []column[Call] {
	remark := commonRemark(calls)
	return []column[Call]{
		{
			name: "call", left: true,
			cell: func(c Call) string { return c.Call },
		},
		{
			name: "cut at\nposition", first: true, legend: "place of the cut in the block log, which numbers what the drive was asked and what it answered: the events before it happened, and no other",
			cell:  func(c Call) string { return strconv.Itoa(c.Cut.Position) },
			shown: logged,
		},
		{
			name: "in\nop", legend: "the op that had begun last when the power was cut",
			cell: func(c Call) string { return strconv.FormatUint(c.Cut.Op, 10) },
		},
		{
			name: "volatile\nwrites", legend: "writes in the drive's cache or in flight at the cut, so that the drive owed nothing for them",
			cell:  func(c Call) string { return strconv.Itoa(c.Cut.Volatile) },
			shown: logged,
		},
		{
			name: "of these\nlost", legend: "volatile writes of which the media took nothing; these are requests, not ops",
			cell:  func(c Call) string { return strconv.Itoa(c.Cut.Dropped) },
			shown: logged,
		},
		{
			name: "in\npart", legend: "volatile writes of which the media took some sectors",
			cell:  func(c Call) string { return strconv.Itoa(c.Cut.Torn) },
			shown: func(c Call) bool { return c.Cut.Torn > 0 },
		},
		{
			name: "why there" + strings.TrimRight("\n"+remark, "\n"), left: true, tight: 28, legend: "what placed the cut",
			cell: func(c Call) string { return strings.TrimSuffix(c.Cut.Reason, " "+remark) },
		},
	}
}

// logged tells whether the call has a block log.
func logged(c Call) bool { return c.Cut.Position > 0 }

// commonRemark returns the remark in parentheses that ends the reason of every
// cut, such as "(random from the seed)", or "" where there is none.
func commonRemark(calls []Call) string {
	remark := ""
	for i, c := range calls {
		at := strings.LastIndex(c.Cut.Reason, " (")
		if at < 0 || !strings.HasSuffix(c.Cut.Reason, ")") || len(c.Cut.Reason)-at > 32 {
			return ""
		}
		if this := Clean(c.Cut.Reason[at+1:]); i == 0 {
			remark = this
		} else if this != remark {
			return ""
		}
	}
	return remark
}

// read tells whether the disk was read back after the cut.
func read(c Call) bool { return c.Recovery.Class == verdict.Recovered }

func survivor(count func(verdict.Counts) int) func(Call) string {
	return func(c Call) string {
		if !read(c) {
			return unread
		}
		return strconv.Itoa(count(judged(c)))
	}
}

func paintIf(st style, count func(verdict.Counts) int) func(Call) style {
	return func(c Call) style {
		if read(c) && count(judged(c)) > 0 {
			return st
		}
		return plain
	}
}

func taken(ns func(latency.Summary) float64) func(Call) string {
	return func(c Call) string {
		if c.Latency.N == 0 {
			return none
		}
		return latency.Format(ns(c.Latency))
	}
}

func billed(perOp func(Call) float64) func(Call) string {
	return func(c Call) string {
		if c.Bill.Ops == 0 {
			return none
		}
		return fmt.Sprintf("%.2f", perOp(c))
	}
}

// legendMargin is the width of the names in a legend.
const legendMargin = 18

// explain prints the legends of columns.
func explain[R any](p *page, cols []column[R]) {
	for _, c := range cols {
		p.hang(legendMargin, bold, c.title(), c.legend)
	}
}

// title is the column's name on one line: "data/op", "position in log".
func (c column[R]) title() string {
	return strings.ReplaceAll(strings.ReplaceAll(c.name, "\n/", "/"), "\n", " ")
}

// visible leaves out the columns that no row has anything to show in.
func visible[R any](cols []column[R], rows []R) []column[R] {
	var out []column[R]
	for _, c := range cols {
		if c.shown == nil {
			out = append(out, c)
			continue
		}
		for _, r := range rows {
			if c.shown(r) {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// render draws a table with gap spaces between its columns.
func render[R any](p *page, cols []column[R], rows []R, gap int) string {
	t := table.NewWriter()
	t.SetStyle(ruled(gap))
	t.SuppressTrailingSpaces()
	header := make(table.Row, len(cols))
	configs := make([]table.ColumnConfig, len(cols))
	for i, c := range cols {
		header[i] = c.inset(gap) + c.name
		align := text.AlignRight
		if c.left {
			align = text.AlignLeft
		}
		configs[i] = table.ColumnConfig{
			Number: i + 1, Align: align, AlignHeader: align, VAlignHeader: text.VAlignBottom,
		}
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for _, r := range rows {
		row := make(table.Row, len(cols))
		for i, c := range cols {
			row[i] = c.inset(gap) + c.painted(p, r)
		}
		t.AppendRow(row)
	}
	return trimRule(t.Render(), gap)
}

// fitting draws a table in the airiest form that fits. Where none does, columns
// are brought to their tight widths, as few as need be, from the right.
func fitting[R any](p *page, cols []column[R], rows []R) string {
	if s := render(p, cols, rows, 2); fits(s) {
		return s
	}
	cols = slices.Clone(cols)
	s := render(p, cols, rows, 1)
	for i := len(cols) - 1; i >= 0 && !fits(s); i-- {
		if cols[i].tight > 0 {
			cols[i].most = cols[i].tight
			s = render(p, cols, rows, 1)
		}
	}
	return s
}

// without leaves out the columns of these names.
func without[R any](cols []column[R], names ...string) []column[R] {
	var out []column[R]
	for _, c := range cols {
		if !slices.Contains(names, c.name) {
			out = append(out, c)
		}
	}
	return out
}

// trimRule shortens the rule below the header to where the last column ends.
func trimRule(s string, gap int) string {
	return strings.Replace(s, strings.Repeat("─", gap)+"\n", "\n", 1)
}

// inset sets a group of columns off where there is but one space between columns.
func (c column[R]) inset(gap int) string {
	if gap == 1 && c.first {
		return " "
	}
	return ""
}

// painted returns the text of a cell, broken into lines of at most c.most
// columns, within words if it must be.
func (c column[R]) painted(p *page, r R) string {
	lines := []string{Clean(c.cell(r))}
	if c.most > 0 {
		lines = nil
		for _, l := range wrap(Clean(c.cell(r)), c.most, c.most) {
			lines = append(lines, split(l, c.most)...)
		}
	}
	if c.style != nil {
		for i := range lines {
			lines[i] = p.paint(c.style(r), lines[i])
		}
	}
	return strings.Join(lines, "\n")
}

// ruled is a table style of one rule below the header and no vertical lines.
func ruled(gap int) table.Style {
	st := table.StyleLight
	st.Box.PaddingLeft = ""
	st.Box.PaddingRight = strings.Repeat(" ", gap)
	st.Options.DrawBorder = false
	st.Options.SeparateColumns = false
	st.Format.Header = text.FormatDefault
	return st
}

// fits tells whether every line of s keeps to Width.
func fits(s string) bool {
	for line := range strings.Lines(s) {
		if text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n ")) > Width {
			return false
		}
	}
	return true
}
