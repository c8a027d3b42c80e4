package cli

import (
	"encoding/json"
	"fmt"

	"powercut/scenarios"
)

type scenariosCommand struct {
	JSON      bool `name:"json" help:"Print a JSON list."`
	Reference bool `help:"Print the documentation of the scenario format, in Markdown."`
}

// Run lists the scenarios by family.
func (c *scenariosCommand) Run(s Streams) error {
	if c.Reference {
		_, err := fmt.Fprint(s.Out, scenarios.Reference())
		return err
	}
	list := scenarios.List()
	if c.JSON {
		e := json.NewEncoder(s.Out)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	family := ""
	for _, i := range list {
		if i.Family != family {
			family = i.Family
			fmt.Fprintln(s.Out, family)
		}
		about := i.About
		if i.Cells > 0 {
			about += fmt.Sprintf(" (%d scenarios)", i.Cells)
		}
		if _, err := fmt.Fprintf(s.Out, "  %-26s %s\n", i.Name, about); err != nil {
			return err
		}
	}
	return nil
}
