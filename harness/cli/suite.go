package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"powercut/harness/campaign"
	"powercut/harness/internal/whole"
	"powercut/harness/report"
	"powercut/harness/report/format"
	"powercut/harness/suite"
	"powercut/scenarios"
)

// suiteCommand is about many runs, and nights of them.
type suiteCommand struct {
	Run   suiteRun   `cmd:"" help:"Run a suite: one result a line as each cell ends, and a page at the end."`
	Merge suiteMerge `cmd:"" help:"Join the results of the shares of a suite."`
	List  suiteList  `cmd:"" help:"List the cells of a suite, and run nothing."`
}

// errIncomplete ends a suite of which not all could be done, or not twice alike; its
// page says so.
var errIncomplete = errors.New("not all of the suite could be done")

// nightFlags are about the page at the end.
type nightFlags struct {
	Baseline string `help:"Results of another night: the page says what has changed since." placeholder:"DIR"`
	Quiet    bool   `short:"q" help:"Print the last line alone."`
	reportFlags
}

// nightPage is where a folder of results keeps its page.
const nightPage = "report.md"

// suiteExits says what the exit codes mean.
const suiteExits = "Exits with 0 where every cell held, with 1 where one did not, or a condition between cells; " +
	"else with 125 where the harness could not do one, a result is missing, or a cell is flaky; with 2 where the suite, a folder or a baseline is not what it should be."

type suiteRun struct {
	Suite   string `arg:"" help:"The suite's file."`
	Out     string `short:"o" required:"" help:"Where results go." placeholder:"DIR" makes:"folder"`
	Jobs    int    `help:"Run so many cells at once." default:"1" placeholder:"N"`
	Shard   string `help:"Run only part i of n, where i counts from 0. Which cells it has follows from their names and seeds alone." default:"0/1" placeholder:"I/N"`
	Resume  bool   `help:"Go on with the results that DIR holds: nothing that has ended is repeated. Where DIR holds none, begin."`
	Keep    string `help:"Keep so much evidence of cells that did not hold; the oldest goes first." default:"4GiB" placeholder:"SIZE"`
	Confirm bool   `help:"Run a cell that did not hold once more with the same seed, which tells flaky ones." default:"true" negatable:""`
	QEMU    string `name:"qemu" help:"The QEMU binary." placeholder:"PATH"`
	nightFlags
}

// Help says what the exit code means.
func (*suiteRun) Help() string {
	return suiteExits + " What was interrupted (130), or killed, goes on with --resume."
}

// Run runs the suite.
func (c *suiteRun) Run(ctx context.Context, s Streams, t *talk) error {
	cells, plan, err := planned(c.Suite, c.Shard)
	if err != nil {
		return err
	}
	keep, err := scenarios.ParseSize(c.Keep)
	if err != nil {
		return &usageError{fmt.Errorf("--keep: %q %w", c.Keep, err)}
	}
	const maxJobs = 64
	if c.Jobs < 1 || c.Jobs > maxJobs {
		return &usageError{fmt.Errorf("--jobs: %d is out of range; allowed: 1 to %d", c.Jobs, maxJobs)}
	}
	n, err := c.open()
	if err != nil {
		return err
	}
	store, err := suite.Open(c.Out, plan, c.Resume, int64(keep))
	if err != nil {
		return misused(err)
	}
	defer store.Close()
	if err := c.cells(ctx, s, t, store, cells); err != nil {
		return err
	}
	return n.tell(ctx, s.Out, store.Folder)
}

// planned reads a suite, and what a share of it is.
func planned(file, share string) ([]scenarios.Cell, suite.Plan, error) {
	part, err := suite.ParseShare(share)
	if err != nil {
		return nil, suite.Plan{}, &usageError{fmt.Errorf("--shard: %w", err)}
	}
	read, err := scenarios.LoadSuite(file)
	if err != nil {
		return nil, suite.Plan{}, &usageError{err}
	}
	cells, err := read.Cells(checkCell)
	if err != nil {
		return nil, suite.Plan{}, &usageError{err}
	}
	return cells, suite.NewPlan(read, cells, part), nil
}

// checkCell says what is wrong with a scenario that only those know who carry it out.
func checkCell(s scenarios.Scenario) (field string, err error) {
	if err := campaign.Format(s).Check(); err != nil {
		return "filesystem.type", err
	}
	return "kernel", (&runCommand{}).check(s)
}

// misused marks what the user can mend.
func misused(err error) error {
	var usage *suite.UsageError
	var unread *report.ReadError
	if errors.As(err, &usage) || errors.As(err, &unread) || errors.Is(err, fs.ErrNotExist) {
		return &usageError{err}
	}
	return err
}

// cells runs the cells that have no result.
func (c *suiteRun) cells(ctx context.Context, s Streams, t *talk, store *suite.Store, cells []scenarios.Cell) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find powercut itself: %w", err)
	}
	program, err := programID(binary)
	if err != nil {
		return err
	}
	t.bar = t.bar && !c.Quiet
	bar := t.begin(s)
	defer bar.Done()
	total := len(store.Plan.Share.Cells(cells))
	bar.Stage("suite "+store.Plan.Suite, total)
	var runners []suite.Runner
	for range c.Jobs {
		runners = append(runners, c.runner(binary, t))
	}
	return store.Run(ctx, cells, runners, suite.Options{Program: program, Confirm: c.Confirm, Ended: func(r *suite.Result, done int) {
		bar.Set(done)
		t.Info("cell ended", "cell", r.Cell, "outcome", r.Outcome, "again", r.Again, "seconds", r.Seconds, "done", done, "of", total)
	}})
}

// runner runs cells one after the other.
func (c *suiteRun) runner(binary string, t *talk) suite.Runner {
	lab := &campaign.Lab{Binary: binary, QEMU: c.QEMU, Progress: told{t}}
	return func(ctx context.Context, cell scenarios.Cell, folder string) (*report.Document, error) {
		lab.Runs = folder
		doc, err := lab.Run(ctx, cell.Scenario, cell.Seed)
		if err != nil || doc.Held {
			return doc, err
		}
		if err := keepPage(ctx, doc); err != nil { // the run is as good without it
			t.Warn("no page for a browser", "error", err)
		}
		return doc, nil
	}
}

// told tells of the stages of runs of which several go on at once.
type told struct{ *talk }

// Stage tells of a stage.
func (t told) Stage(text string, total int) { t.Debug("stage", "stage", text, "steps", total) }

// Set does nothing: the bar is that of the suite.
func (told) Set(int) {}

// programID names the bytes of a program.
func programID(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("identify powercut: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("identify powercut: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

type suiteMerge struct {
	Folders []string `arg:"" name:"dir" help:"Folders of results, each of a share of one suite."`
	Out     string   `short:"o" required:"" help:"Where the joined results go." placeholder:"DIR" makes:"folder"`
	nightFlags
}

// Help says what the exit code means.
func (*suiteMerge) Help() string { return suiteExits }

// Run merges.
func (c *suiteMerge) Run(ctx context.Context, s Streams) error {
	n, err := c.open()
	if err != nil {
		return err
	}
	f, err := suite.Merge(c.Folders, c.Out)
	if err != nil {
		return misused(err)
	}
	return n.tell(ctx, s.Out, f)
}

// teller makes the page, and what other reports were asked for.
type teller struct {
	baseline *suite.Folder
	outputs  []output
	quiet    bool
}

// open reads what the page needs, before anything is run.
func (f nightFlags) open() (n teller, err error) {
	n.quiet = f.Quiet
	if n.outputs, err = f.outputs(formats()...); err != nil {
		return n, err
	}
	if f.Baseline != "" {
		if n.baseline, err = suite.Read(f.Baseline); err != nil {
			return n, misused(fmt.Errorf("--baseline: %w", err))
		}
	}
	return n, nil
}

// tell makes the page and the reports. Its error says how the night was.
func (n teller) tell(ctx context.Context, w io.Writer, f *suite.Folder) error {
	night := suite.Tell(f, n.baseline)
	if err := whole.Write(filepath.Join(f.Path, nightPage), func(file *os.File) error { return night.Markdown(file) }); err != nil {
		return err
	}
	r := format.Results{Runs: f.Runs(), Several: true}
	for _, b := range f.Ordered() {
		if b.Outcome == suite.Broken {
			r.Broken = append(r.Broken, format.Broken{Scenario: b.Cell, Err: errors.New(b.Error)})
		}
	}
	err := writeOutputs(ctx, w, n.outputs, func(w io.Writer, o output) error {
		switch o.format {
		case format.Text:
			return night.Text(w, false, n.quiet)
		case format.Markdown:
			return night.Markdown(w)
		}
		return write(ctx, w, o, r)
	})
	if err == nil && !printed(n.outputs) {
		err = night.Text(w, colour(w), n.quiet)
	}
	if err != nil {
		return err
	}
	switch night.Outcome() {
	case suite.NotMet:
		return errNotHeld
	case suite.Broken:
		return errIncomplete
	}
	return nil
}

type suiteList struct {
	Suite string `arg:"" help:"The suite's file."`
	Shard string `help:"Only those of part i of n, where i counts from 0." default:"0/1" placeholder:"I/N"`
	JSON  bool   `name:"json" help:"Print a JSON list."`
}

// listed is a cell as it is listed.
type listed struct {
	Cell     string `json:"cell"`
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	Kernel   string `json:"kernel"`
	Digest   string `json:"digest"`
}

// Run lists the cells.
func (c *suiteList) Run(s Streams) error {
	all, plan, err := planned(c.Suite, c.Shard)
	if err != nil {
		return err
	}
	list := []listed{}
	for _, cell := range plan.Share.Cells(all) {
		list = append(list, listed{cell.Name(), cell.Scenario.Name, cell.Seed, cell.Scenario.Kernel, cell.Digest})
	}
	if c.JSON {
		e := json.NewEncoder(s.Out)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	for _, cell := range list {
		if _, err := fmt.Fprintln(s.Out, cell.Cell); err != nil {
			return err
		}
	}
	return nil
}
