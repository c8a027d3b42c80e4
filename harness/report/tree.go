package report

import (
	"fmt"
	"strings"

	"powercut/harness/promise"
)

// trees prints the verdicts on whole trees, of workloads of ops.
func (p *page) trees(d *Document) {
	for _, c := range d.Calls {
		if c.Tree == nil {
			continue
		}
		label := plural(c.Tree.Counts.Ops, "op")
		p.hang(0, bold, label, strings.TrimPrefix(TreeText(c.Tree.Counts), label))
		for i, f := range c.Tree.Findings {
			if i == maxTreeFindings {
				p.line(fmt.Sprintf("and %s: report.json, calls[].tree", plural(len(c.Tree.Findings)-i, "more finding")))
				break
			}
			p.treeFinding(d, f)
		}
		if list := c.Tree.Doubted; len(list) > 0 {
			p.hang(4, amber, "not believed:", doubtedText(d, list))
		}
		if u := c.Tree.Unsupported; u != nil {
			p.hang(4, amber, "not judged:", u.String())
		}
	}
}

// doubtedText tells of the sync calls whose success is not believed.
func doubtedText(d *Document, list []int) string {
	text := fmt.Sprintf("op %d", list[0])
	if list[0] <= len(d.Workload.Ops) {
		text += " (" + d.Workload.Ops[list[0]-1] + ")"
	}
	if more := len(list) - 1; more > 0 {
		text += " and " + plural(more, "later sync call")
	}
	return text + " succeeded after an error of the drive or of a sync call, and no success promises anything then"
}

// maxTreeFindings is how many findings are printed.
const maxTreeFindings = 20

// TreeText sums up the verdict on a tree.
func TreeText(c promise.Counts) string {
	return fmt.Sprintf("%s begun, %s succeeded. Kept: %d promised, %d customary, %d neither. Lost: %d promised, %d customary, %d neither. Never allowed: %d.",
		plural(c.Ops, "op"), plural(c.Syncs, "sync call"), c.Kept, c.Custom, c.Luck, c.Lost, c.Customary, c.Undone, c.Forbidden)
}

// treeFinding is one finding, with the op that promised it.
func (p *page) treeFinding(d *Document, f promise.Finding) {
	st := red
	if f.Class == promise.Unpromised {
		st = faint
	}
	p.hang(6, st, string(f.Class)+":", f.Path+", "+f.Text(d.Workload.Ops))
}
