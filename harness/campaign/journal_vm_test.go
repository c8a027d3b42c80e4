package campaign

import (
	"strings"
	"testing"

	"powercut/harness/trace"
)

// TestExternalJournalDisks: with an external journal the report names the disk whose flush
// was missing, or ignored.
func TestExternalJournalDisks(t *testing.T) {
	for name, want := range map[string]struct {
		reason trace.Reason
		why    string
	}{
		"external-journal-ext4-filesystem-disk-lies": {trace.FlushIgnored, "reached the file system's disk, which ignored it (fault)"},
		"external-journal-ext3-journal-disk-lies":    {trace.MetadataVolatile, "reached the journal's disk, which ignored it (fault)"},
		"external-journal-unflushed-append":          {trace.OtherDisk, "no flush reached the file system's disk between its answer and the ack; flush"},
		"external-journal-ext4-unflushed-commit":     {trace.OtherDisk, "no flush reached the file system's disk between its answer and the ack; flush"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			doc := runScenario(t, l, load(t, name, "workload.calls=[fsync]"), 1)
			if !doc.Held || len(doc.Calls[0].Findings) == 0 {
				t.Fatal(table(t, doc))
			}
			for _, f := range doc.Calls[0].Findings {
				if f.Reason != want.reason || !strings.Contains(f.Why, want.why) {
					t.Errorf("op %d: %s: %s", f.Op, f.Reason, f.Why)
				}
			}
		})
	}
}
