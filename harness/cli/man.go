package cli

import (
	"fmt"

	"github.com/alecthomas/kong"

	"powercut/harness/manual"
	"powercut/images/cache"
)

type manCommand struct{}

// Run prints the manual page.
func (manCommand) Run(s Streams, k *kong.Context) error {
	_, err := fmt.Fprint(s.Out, page1(k.Model).Roff())
	return err
}

// page1 is powercut(1).
func page1(app *kong.Application) manual.Page {
	return manual.Page{
		App: app, Brief: "cut the power of a virtual machine, and say which acknowledged writes survived",
		Exits: []manual.Entry{
			{Term: fmt.Sprint(exitHeld), Text: "All expectations of the scenarios were met; compare found no regression."},
			{Term: fmt.Sprint(exitNotHeld), Text: "At least one was not, such as that nothing is lost; or there is a regression."},
			{Term: fmt.Sprint(exitUsage), Text: "The command line, a scenario or a suite is wrong. The message says where, and what is allowed."},
			{Term: fmt.Sprint(exitHarness), Text: "The harness could not do it, which says nothing about the file system. git bisect run skips such a commit."},
			{Term: fmt.Sprint(exitInterrupt), Text: "It was interrupted."},
		},
		Settings: []manual.Entry{
			{Term: cache.Variable, Text: "The cache folder: kernels, formatted disks, saved guests. Default: powercut in $XDG_CACHE_HOME, or in ~/.cache. It can be deleted at any time."},
			{Term: "NO_COLOR", Text: "Where it is set, nothing is printed in colour."},
			{Term: "TMPDIR", Text: "Where bundles are unpacked while a command needs them."},
		},
		Files: []manual.Entry{
			{Term: "runs/TIME-SCENARIO-SEED/", Text: "A run folder: the scenario as resolved, block logs, ledgers, consoles, verdicts, report.json, report.txt and report.html."},
		},
	}
}
