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
	Path, Found, Synced string
	Verdicts            []objectVerdict // none: it is as at the cut
}

type objectVerdict struct {
	Class promise.Class
	Text  string
	Bad   bool
}

func objectRows(d *report.Document, c *evidence.Call) []objectRow {
	var rows []objectRow
	for _, o := range c.Objects {
		row := objectRow{Path: o.Path, Found: foundText(o), Synced: "–"}
		if o.Synced > 0 && o.Synced <= len(d.Workload.Ops) {
			row.Synced = fmt.Sprintf("op %d: %s", o.Synced, d.Workload.Ops[o.Synced-1])
		}
		for _, f := range o.Findings {
			row.Verdicts = append(row.Verdicts, objectVerdict{f.Class, d.TreeFinding(f), f.Class != promise.Unpromised})
		}
		rows = append(rows, row)
	}
	return rows
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
