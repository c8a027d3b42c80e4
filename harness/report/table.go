package report

import (
	"fmt"
	"io"
	"strings"

	"powercut/harness/verdict"
)

// margin is the width of the labels at the head of a report.
const margin = 12

// ConsoleLines is the number of console lines that Table shows of a recovery
// that failed; the rest is in the run folder.
const ConsoleLines = 12

// Table prints one run: what it ran on, one row a sync call, every op that broke
// its promise, and what came of each expectation.
func Table(w io.Writer, d *Document, o Options) error {
	p := &page{colour: o.Colour}
	if !o.Quiet {
		p.run(d, o)
	}
	p.outcome(d)
	return p.writeTo(w)
}

// Verdict prints what was found of the document's calls, without figures: how the
// recovery went, and every op that broke its promise.
func Verdict(w io.Writer, d *Document, o Options) error {
	p := &page{colour: o.Colour}
	p.recoveries(d)
	p.trees(d)
	p.findings(d.Calls, o.full())
	for _, c := range d.Calls {
		if read(c) && c.Tree == nil && c.Counts.Lost == 0 {
			p.blank()
			p.hang(4, plain, c.Call+":", fmt.Sprintf("recovered, and all of its %s kept", plural(c.Counts.Acked, "acknowledged op")))
		}
	}
	p.blank()
	return p.writeTo(w)
}

// run prints all but the last line.
func (p *page) run(d *Document, o Options) {
	p.head(d)
	p.blank()
	if d.Workload.Ops != nil {
		p.trees(d)
	} else {
		p.calls(d.Calls)
	}
	p.figures(d)
	p.cuts(d.Calls)
	p.errors(d.Calls)
	p.images(d.Calls)
	p.recoveries(d)
	if p.findings(d.Calls, o.full()) {
		p.blank()
		p.line("Each op is in report.json, calls[].findings.")
	}
	p.unpromised(d)
	if o.Explain {
		p.blank()
		p.legend(d)
	}
	p.expectations(d)
	p.blank()
}

// head says what was run, and on what.
func (p *page) head(d *Document) {
	for _, f := range d.Facts() {
		st := faint
		if f.Warning {
			st = amber
		}
		p.hang(margin, st, f.Name, f.Text)
	}
}

// serialWarning says what acks over a serial line cannot show.
const serialWarning = "the ledger is a serial line, not shared memory. An ack reaches the harness later than it " +
	"happened, and the last ones not at all: all ops of the plan count as begun, an op lost right after its ack " +
	"may count as never acked, and a flush that followed an ack may seem to have come before it. What is called " +
	"lost is lost."

// inForce counts flushes and FUA writes in words.
func inForce(s Seen) (flushes, fua string) {
	flushes, fua = "no flush", "no FUA write"
	switch {
	case s.Flushes == 1:
		flushes = "1 flush"
	case s.Flushes > 1:
		flushes = fmt.Sprintf("%d flushes", s.Flushes)
	}
	if s.FUAWrites > 0 {
		fua = plural(s.FUAWrites, "FUA write")
	}
	return flushes, fua
}

// fuaWarning says what an NVMe drive of QEMU cannot show.
const fuaWarning = "QEMU's NVMe controller drops FUA: what the guest writes to be durable at once is not. " +
	"What that alone may have lost is not judged."

// dropsFUA tells whether the guest sent FUA to an NVMe drive, and none arrived.
func dropsFUA(d Drive) bool {
	return d.Bus == "nvme" && d.WriteCache && d.Seen.GuestFUA && d.Seen.FUAWrites == 0
}

func kernel(m Machine) string {
	if m.Release == "" {
		return m.Kernel
	}
	return fmt.Sprintf("%s (%s)", m.Release, m.Kernel)
}

// String says which module it is, and in whose place.
func (m Module) String() string {
	switch m.Variant {
	case "":
		return fmt.Sprintf("%s, loaded as %s", m.Path, m.Name)
	case m.Name:
		return m.Variant + ", in addition to the kernel's own"
	}
	return fmt.Sprintf("%s, in place of the kernel's own %s", m.Variant, m.Name)
}

func emulator(m Machine) string {
	s := fmt.Sprintf("QEMU %s, %s", m.QEMU, m.Accelerator)
	if m.Accelerator == "tcg" {
		s += " (no usable KVM)"
	}
	return s
}

func filesystem(f Filesystem) string {
	s := fmt.Sprintf("%s, %s", f.Type, size(f.Bytes))
	if f.ExternalJournal > 0 {
		s += ", journal on a disk of its own of " + size(f.ExternalJournal)
	}
	if len(f.Mkfs) > 0 {
		s += ", made with " + strings.Join(f.Mkfs, " ")
	}
	if f.Mount == "" {
		s += ", default mount options"
	} else {
		s += ", mounted with " + f.Mount
	}
	if f.Recovery != "" {
		s += ", recovered with " + f.Recovery
	}
	return s
}

func drive(d Drive) string {
	cache := "write cache off"
	switch {
	case d.onFile():
		cache = fmt.Sprintf("%s image file, aio %s", d.Format, d.AIO)
	case d.WriteCache:
		cache = "volatile write cache on"
	}
	timing := "no timing model"
	if d.onFile() {
		timing = "as fast as the host"
	}
	if d.Timing != "" && d.Timing != "none" {
		timing = "timing " + d.Timing
	}
	return fmt.Sprintf("%s, %s, %s", d.Bus, cache+switches(d), timing)
}

// switches says what stands between the guest and the drive's cache.
func switches(d Drive) string {
	s := ""
	if d.Cache != "" {
		s += fmt.Sprintf(", QEMU's cache=%s (guest told of %s)", d.Cache, map[bool]string{true: "a cache", false: "none"}[d.Told])
	}
	if d.HdparmW != "" {
		s += ", switched " + d.HdparmW + " by the guest (hdparm -W)"
	}
	if d.GuestCache != "" {
		s += ", guest made to take it for " + d.GuestCache
	}
	if d.NoMerges {
		s += ", requests never merged by the guest"
	}
	if d.Scheduler != "" {
		s += ", guest's scheduler " + d.Scheduler
	}
	return s
}

// seen says what reached the drive, as proof of what was in force.
func seen(s Seen) string {
	flushes, fua := inForce(s)
	guest := ""
	if s.GuestCache != "" {
		guest = "; to the guest's kernel the cache is " + s.GuestCache
		if s.GuestFUA {
			guest += ", with FUA"
		}
	}
	return fmt.Sprintf("%s, %s among %s%s", flushes, fua, plural(s.Writes, "write"), guest)
}

// onFile tells whether the drive was an image file.
func (d Drive) onFile() bool { return d.Backend == "file" }

// fileLimits says what a kill of QEMU on an image file can show, and what not.
func fileLimits(d Drive) string {
	s := "every write that QEMU had passed to the host is kept, by the host's page cache, flushed or not. So this " +
		"shows what a killed virtual machine loses, not what a power cut does: no missing flush, no drive cache. " +
		"There is no block log: no bill, no positions, no reasons."
	if d.Format == "qcow2" {
		s += " The exception is QEMU's own cache of the image's tables: what no flush has made it write back is gone."
	}
	return s
}

// fate says what the cut did to volatile writes.
func fate(d Drive) string {
	if d.onFile() {
		return "is a SIGKILL of QEMU, and nothing more"
	}
	what := "every write in flight"
	if d.WriteCache {
		what = "every write in the cache or in flight"
	}
	switch d.AtCut {
	case "lose":
		return "loses " + what
	case "keep":
		return "keeps " + what
	case "random":
		return "of " + what + " keeps all, some sectors or nothing, at random from the seed"
	}
	return d.AtCut
}

func plan(w Workload) string {
	if w.Ops != nil {
		return plural(len(w.Ops), "op") + ": " + strings.Join(w.Ops, "; ")
	}
	ops := fmt.Sprintf("%d ops of %s, each %s after the one before", w.Count, size(w.Bytes), size(w.Stride))
	if w.Chunk > 0 && w.Chunk < w.Bytes {
		ops += ", in writes of " + size(w.Chunk)
	}
	if w.Threads > 1 {
		ops += fmt.Sprintf(", by %d threads at the same time", w.Threads)
	}
	if w.Gap > 0 {
		ops += fmt.Sprintf(", with gaps of %g ms", w.Gap)
	}
	if w.Sync.Length > 0 {
		ops += fmt.Sprintf("; synced each time: bytes %s of the file", extent(w.Sync))
	}
	if w.Load != "" {
		ops += "; beside " + w.Load
	}
	if w.Kind == "overwrite" {
		what := map[string]string{"fallocate": "unwritten blocks (fallocate), ", "none": "no blocks, "}[w.Allocate]
		return fmt.Sprintf("overwrite a file of %s%s: %s", what, size(w.Size), ops)
	}
	return fmt.Sprintf("%s to an empty file: %s", w.Kind, ops)
}

// size writes a number of bytes, in MiB or KiB where it is a whole number of these.
func size(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// calls draws the table: one where it fits, otherwise survival and cost apart.
func (p *page) calls(calls []Call) {
	if len(calls) == 0 {
		p.line("No sync call was run.")
		return
	}
	survival := visible(survivalColumns(), calls)
	cost := visible(costColumns(), calls)
	all := append(survival[:len(survival):len(survival)], cost...)
	if s := fitting(p, all, calls); fits(s) {
		p.line(s)
		return
	}
	p.line(render(p, survival, calls, 2))
	p.blank()
	p.line(render(p, append(survival[:1:1], cost...), calls, 2))
}

// legend explains the columns that are shown, and what else is short.
func (p *page) legend(d *Document) {
	explain(p, visible(survivalColumns(), d.Calls))
	explain(p, visible(costColumns(), d.Calls))
	p.blank()
	if d.Figures != nil {
		explain(p, ownColumns(besides([]*Document{d}))[1:])
		p.blank()
	}
	explain(p, visible(cutColumns(nil), d.Calls)[1:])
	p.blank()
	if rows := findingRows(d.Calls); len(rows) > 0 {
		explain(p, visible(findingColumns(), rows))
		p.blank()
	}
	p.hang(legendMargin, bold, unread, "not known: the disk could not be read back after the cut")
	p.hang(legendMargin, bold, none, "nothing was measured, or nothing is to say")
	p.hang(legendMargin, bold, "call / call", "the ratio of their p50, where something is expected of it")
	if d.Machine.Reason != "" {
		p.hang(legendMargin, bold, d.Machine.Accelerator, d.Machine.Reason)
	}
}

// findingRows are the findings of all calls.
func findingRows(calls []Call) []run {
	var rows []run
	for _, c := range calls {
		for _, f := range c.Findings {
			rows = append(rows, run{f, f})
		}
	}
	return rows
}

// cuts says for each call where the power went.
func (p *page) cuts(calls []Call) {
	if len(calls) > 0 {
		p.blank()
		p.line(fitting(p, visible(cutColumns(calls), calls), calls))
	}
}

// errors says of each call what failed, and who was told.
func (p *page) errors(calls []Call) {
	first := true
	for _, c := range calls {
		if c.Errors == nil {
			continue
		}
		if first {
			p.blank()
		}
		first = false
		p.hang(4, amber, fmt.Sprintf("%s, %s failed:", c.Call, plural(c.Errors.Count, "op")), errorText(*c.Errors))
	}
}

func errorText(e Errors) string {
	text := fmt.Sprintf("op %d with %s", e.First, e.Errno)
	if e.Count > 1 {
		text += fmt.Sprintf(", the last one with %s", e.Last)
	}
	if e.Asked > 0 {
		text += fmt.Sprintf(". After op %d %d of %s of the file got an error from a sync call, and a second one on its own got %s",
			e.First, e.Told, plural(e.Asked, "other descriptor"), e.Again)
		if e.Again == "success" {
			text += ", which proves nothing"
		}
	}
	return text + "."
}

// images says what state the image files were in after the kill.
func (p *page) images(calls []Call) {
	for i, c := range calls {
		if c.Image == nil {
			continue
		}
		if i == 0 {
			p.blank()
		}
		switch {
		case c.Image.Failed != "":
			p.hang(4, red, c.Call+" image:", "could not be checked: "+c.Image.Failed)
		case c.Image.Errors > 0:
			p.hang(4, red, c.Call+" image:", fmt.Sprintf("damaged: %s, %s", plural(c.Image.Errors, "corruption"), plural(c.Image.Leaks, "leaked cluster")))
		default:
			p.hang(4, plain, c.Call+" image:", fmt.Sprintf("sound, %s (qemu-img check)", plural(c.Image.Leaks, "leaked cluster")))
		}
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// recoveries tells of each recovery that failed, with the console's end.
func (p *page) recoveries(d *Document) {
	for _, c := range d.Calls {
		if read(c) {
			continue
		}
		p.blank()
		p.hang(4, red, c.Call+" RECOVERY FAILED:", recoveryText(c.Recovery))
		p.hang(4, plain, "", fmt.Sprintf("Nothing was read back: what became of its %s is not known.", plural(c.Counts.Acked, "acknowledged op")))
		p.console(c)
	}
}

func recoveryText(r verdict.Recovery) string {
	if r.Detail == "" {
		return className(r)
	}
	return className(r) + ": " + r.Detail
}

// className writes the class of a recovery; where there is none, it was never begun.
func className(r verdict.Recovery) string {
	if r.Class == "" {
		return "not attempted"
	}
	return string(r.Class)
}

// console prints the last lines of a console, each as one line: what is longer
// than the page is broken where it must be.
func (p *page) console(c Call) {
	lines := c.Recovery.Console
	if len(lines) == 0 {
		return
	}
	if left := len(lines) - ConsoleLines; left > 0 {
		lines = lines[left:]
	}
	p.hang(4, plain, "", fmt.Sprintf("The end of the console (all of it: %s/recovery/console.txt in the run folder):", c.Folder))
	for _, l := range lines {
		for _, part := range split(Clean(l), Width-6) {
			p.line(p.paint(faint, "    | "+part))
		}
	}
}

// outcome is the last line: what came out, and where everything is.
func (p *page) outcome(d *Document) {
	p.hang(4, outcomeStyle(d), d.Scenario+" "+outcome(d), fmt.Sprintf("(%s, %.1f s): %s", tally(d.Expectations), d.Elapsed, d.Folder))
}

// tally counts the expectations that held.
func tally(all []Expectation) string {
	held := 0
	for _, e := range all {
		if e.Held {
			held++
		}
	}
	return fmt.Sprintf("%d of %s", held, plural(len(all), "expectation"))
}
