package cli

import (
	"reflect"

	"powercut/harness/compare"
	"powercut/harness/explore"
	"powercut/harness/report"
)

type schemaCommand struct {
	Of string `arg:"" optional:"" help:"run: what --json prints of one run, and report.json holds; summary: what it prints of several; compare, explore: what --json of these commands prints." enum:"run,summary,compare,explore" default:"run"`
}

// Run prints the schema.
func (c *schemaCommand) Run(s Streams) error {
	b := report.DocumentSchema()
	switch c.Of {
	case "summary":
		b = report.CombinedSchema()
	case "compare":
		b = compare.JSONSchema()
	case "explore":
		b = report.SchemaOf(reflect.TypeFor[explore.Document](), explore.Schema)
	}
	_, err := s.Out.Write(b)
	return err
}
