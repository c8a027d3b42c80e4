package cli

import "powercut/harness/report"

type schemaCommand struct {
	Of string `arg:"" optional:"" help:"run: what --json prints of one run, and report.json holds; summary: what it prints of several." enum:"run,summary" default:"run"`
}

// Run prints the schema.
func (c *schemaCommand) Run(s Streams) error {
	b := report.DocumentSchema()
	if c.Of == "summary" {
		b = report.CombinedSchema()
	}
	_, err := s.Out.Write(b)
	return err
}
