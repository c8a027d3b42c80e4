package cli

import (
	"powercut/harness/compare"
	"powercut/harness/report"
)

type schemaCommand struct {
	Of string `arg:"" optional:"" help:"run: what --json prints of one run, and report.json holds; summary: what it prints of several; compare: what powercut compare --json prints." enum:"run,summary,compare" default:"run"`
}

// Run prints the schema.
func (c *schemaCommand) Run(s Streams) error {
	b := report.DocumentSchema()
	switch c.Of {
	case "summary":
		b = report.CombinedSchema()
	case "compare":
		b = compare.JSONSchema()
	}
	_, err := s.Out.Write(b)
	return err
}
