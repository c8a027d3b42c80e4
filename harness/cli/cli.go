// Package cli is the command line: one file a command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"powercut/harness/explore"
	"powercut/harness/generate"
	"powercut/harness/internal/whole"
	"powercut/harness/report"
)

// The exit codes.
const (
	exitHeld      = 0   // every expectation was met
	exitNotHeld   = 1   // at least one was not
	exitUsage     = 2   // the command line or a scenario is wrong
	exitHarness   = 125 // the harness could not do it; git bisect run skips such a commit
	exitInterrupt = 130 // the user interrupted it; git bisect run stops
)

// Streams are the program's input and outputs.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// commands is the command line, as kong reads it.
type commands struct {
	talkFlags

	Run       runCommand       `cmd:"" help:"Run scenarios and say which acknowledged writes survived."`
	Explore   exploreCommand   `cmd:"" help:"Recover all that a power cut may leave, at each position of a run's log."`
	Generate  generateCommand  `cmd:"" help:"Make workloads of operations, all short ones or random ones, and carry them out."`
	Suite     suiteCommand     `cmd:"" help:"Suites of many runs, over nights and machines."`
	Scenarios scenariosCommand `cmd:"" help:"List the scenarios."`
	Kernels   kernelsCommand   `cmd:"" help:"Kernels that come by name: list, fetch, verify and prune them."`
	Modules   modulesCommand   `cmd:"" help:"Kernel modules of powercut's own, which change how a guest syncs: list them, build them."`
	Doctor    doctorCommand    `cmd:"" help:"Say what this machine lacks, and the command that brings it."`
	Bench     benchCommand     `cmd:"" help:"Measure powercut itself, as ratios within one run."`
	Report    reportCommand    `cmd:"" help:"Make reports of runs that are over."`
	Compare   compareCommand   `cmd:"" help:"Hold new runs against old ones: verdicts, latencies, bills."`
	Seeds     seedsCommand     `cmd:"" help:"Write the page on published figures and ours, from runs of the family seeds."`
	Schema    schemaCommand    `cmd:"" help:"Print the JSON Schema of the JSON reports."`
	Bundle    bundleCommand    `cmd:"" help:"Write a crash state, and all that is needed to recover and judge it elsewhere, into one file."`
	Replay    replayCommand    `cmd:"" help:"Recover a crash state again and say whether the verdict is the same, or look around in it."`
	Shrink    shrinkCommand    `cmd:"" help:"Reduce a failing crash state to what it takes to fail, and tell it in words."`
	Log       logCommand       `cmd:"" help:"Block logs: show, export, import, and the images that a cut leaves."`

	Completion completionCommand `cmd:"" help:"Print what makes a shell complete commands, flags, and names of scenarios and kernels."`
	Man        manCommand        `cmd:"" help:"Print the manual page: powercut man | man -l -"`
}

const about = `powercut boots a guest on a drive that it emulates, runs a sync workload in it, cuts the power,
and says which acknowledged writes survived and what each sync call cost.

Exit codes: 0 expectations met, 1 not met, 2 wrong usage or scenario, 125 the harness could not do it,
130 interrupted.`

// usageError is a mistake of the user.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// errNotHeld ends a command whose expectations were not met; it has said so.
var errNotHeld = errors.New("expectations were not met")

// newParser is the parser of the command line. It fills c, and calls exit where it has
// given help.
func newParser(ctx context.Context, c *commands, s Streams, exit func(code int)) *kong.Kong {
	parser, err := kong.New(c, kong.Name("powercut"), kong.Description(about), kong.UsageOnError(),
		kong.Writers(s.Out, s.Err), kong.Exit(exit), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s), filled("existingfile"), filled("existingdir"),
		kong.Vars{"kinds": strings.Join(generate.Kinds(), ", "), "syncs": strings.Join(generate.Syncs, ", ")})
	if err != nil {
		panic(err) // the command line's own definition is wrong
	}
	return parser
}

// meant is the command that a wrong command line was for, as it is typed: k's, or that of
// the parser's error where it came to none.
func meant(k *kong.Context, err error) string {
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
		k = wrong.Context
	}
	if k != nil && k.Selected() != nil {
		return k.Selected().FullPath()
	}
	return "powercut"
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, args []string, s Streams) (code int) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	var c commands
	exited := -1
	parser := newParser(ctx, &c, s, func(code int) { exited = code })
	if done, err := completed(parser); done || err != nil {
		return exitCode(ctx, err, newTalk(c.talkFlags, s))
	}
	k, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help was asked for, and given
	}
	if err == nil {
		err = sound(k)
	}
	if err != nil {
		fmt.Fprintf(s.Err, "powercut: %v\nTry: %s --help\n", err, meant(k, err))
		return exitUsage
	}
	t := newTalk(c.talkFlags, s)
	return exitCode(ctx, k.Run(t), t)
}

// exitCode tells the user of an error, and the caller of its kind.
func exitCode(ctx context.Context, err error, t *talk) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitHeld
	case errors.Is(err, errNotHeld):
		return exitNotHeld
	case errors.Is(err, errNotReady), errors.Is(err, errIncomplete):
		return exitHarness
	case errors.Is(err, report.ErrBusy):
		t.fail("", err)
		return exitHarness
	case ctx.Err() != nil:
		t.fail("interrupted", nil)
		return exitInterrupt
	case errors.As(err, &usage), errors.Is(err, whole.ErrNoReader), errors.Is(err, explore.ErrInUse):
		t.fail("", err)
		return exitUsage
	}
	t.fail("the harness failed, which says nothing about the file system", err)
	return exitHarness
}

// isTerminal tells whether w is a terminal that understands more than text.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// colour tells whether w takes colours: a terminal, and nobody said no
// (no-color.org).
func colour(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == ""
}
