package html

import (
	"fmt"

	"powercut/harness/model"
	"powercut/harness/promise"
	"powercut/harness/report"
	"powercut/harness/report/evidence"
)

// objectRow is a path of the table of what survived.
type objectRow struct {
	Path, Found, Changed, Synced string
	Verdicts                     []objectVerdict // none: it is as at the cut
	Covered                      bool            // a sync call was about it since its last change
	GoneWith                     string          // the directory that it is missing with
}

type objectVerdict struct {
	Class promise.Class
	Text  string
	Bad   bool
}

func objectRows(d *report.Document, c *evidence.Call) []objectRow {
	var rows []objectRow
	for _, o := range c.Objects {
		row := objectRow{
			Path: o.Path, Found: foundText(o), Changed: opName(d, o.Changed), Synced: opName(d, o.Synced), Covered: o.Synced >= max(o.Changed, 1), GoneWith: o.GoneWith,
		}
		for _, f := range o.Findings {
			row.Verdicts = append(row.Verdicts, objectVerdict{f.Class, f.Text(d.Workload.Ops), f.Class != promise.Unpromised})
		}
		rows = append(rows, row)
	}
	return rows
}

// maxTreeFindings is how many findings the summary has.
const maxTreeFindings = 12

// treeFindings are the gravest findings, without what may be so, and the number of those
// that found no room.
func treeFindings(d *report.Document, list []promise.Finding) (first []objectVerdict, more int) {
	for _, f := range list {
		switch {
		case f.Class == promise.Unpromised:
		case len(first) == maxTreeFindings:
			more++
		default:
			first = append(first, objectVerdict{f.Class, f.Path + ", " + f.Text(d.Workload.Ops), true})
		}
	}
	return first, more
}

// opName is an op with its number; of none a dash.
func opName(d *report.Document, number int) string {
	if number < 1 || number > len(d.Workload.Ops) {
		return "–"
	}
	return fmt.Sprintf("op %d: %s", number, d.Workload.Ops[number-1])
}

func foundText(o evidence.Object) string {
	switch {
	case o.Found == nil:
		return "not there"
	case o.Found.Target != "":
		return "symbolic link to " + o.Found.Target
	case model.TypeName(o.Found.Mode) == "file":
		return fmt.Sprintf("file of %d bytes", o.Found.Size)
	}
	return model.TypeName(o.Found.Mode)
}
