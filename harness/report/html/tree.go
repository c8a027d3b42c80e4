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
			Path: o.Path, Found: foundText(o), Changed: opName(d, o.Changed), Synced: opName(d, o.Synced), Covered: o.Synced >= max(o.Changed, 1),
		}
		for _, f := range o.Findings {
			row.Verdicts = append(row.Verdicts, objectVerdict{f.Class, d.TreeFinding(f), f.Class != promise.Unpromised})
		}
		rows = append(rows, row)
	}
	return rows
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
