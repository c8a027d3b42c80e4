package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"powercut/harness/bundle"
	"powercut/harness/campaign"
	"powercut/harness/crash"
	"powercut/harness/explore"
	"powercut/harness/internal/room"
	"powercut/images/cache"
	"powercut/scenarios"
)

type exploreCommand struct {
	What     string        `arg:"" predictor:"scenario" name:"scenario|run" help:"A scenario, which is run first; or the folder of a run, or of one of its calls."`
	Budget   time.Duration `help:"For how long, in all." default:"10m" positive:"" placeholder:"TIME"`
	States   int           `help:"At most so many states of each call. Default: as many as the budget allows." positive:"" placeholder:"N"`
	Seed     *uint64       `help:"What order and random states follow from, and of a scenario its run. Default: the run's; of a scenario a new one." placeholder:"N"`
	NoPrune  bool          `help:"Recover each state whose content is new, also where it agrees with a checked one on all that its recovery looked at."`
	NoShrink bool          `help:"Leave the first violation of a call as it was found, and write no bundle of it."`
	Fsck     bool          `help:"Have e2fsck -fn, xfs_repair -n or btrfs check, on this machine, examine each state that a guest has recovered, too."`
	Resume   bool          `help:"Go on where the exploration before ended: what it had checked is not checked again."`
	workFlags
}

// Help says what is explored, and what the exit code means.
func (*exploreCommand) Help() string {
	return "Every position of a run's block log is a cut, and at each anything that a power cut may leave of the volatile writes is a state. " +
		"Each is recovered by a real guest, unless an equal one was, and judged by what had been acknowledged there; of operations the whole tree is. First come the acks with all that is volatile lost. " +
		"Exits with 0 where no state that was decided breaks a promise, with 1 where one does, or does not recover. " +
		"The first violation of each call is then reduced to the earliest cut and the fewest missing writes that fail in the same way, and kept in CALL/violation.tar.zst, for 'powercut replay'. " +
		"What was found is in CALL/explored.json of the run folder; 'powercut log state' makes an image of a state."
}

// The files that an exploration leaves in a call's folder, beside explore.ReportFile.
const (
	outcomesFile  = "explored.jsonl"
	violationFile = "violation.tar.zst"
)

// lastPage bounds the writing of the page once all else is over.
const lastPage = 30 * time.Second

// Run explores.
func (c *exploreCommand) Run(ctx context.Context, s Streams, t *talk) (err error) {
	progress := t.begin(s)
	defer progress.Done()
	lab, err := c.lab(progress)
	if err != nil {
		return err
	}
	past, plans, err := c.recording(ctx, lab)
	if err != nil {
		return err
	}
	if err := room.Memory(min(int64(c.jobs()), 1<<20) * int64(past.Scenario.Guest.Memory)); err != nil {
		return fmt.Errorf("explore with %d guests: %w", c.jobs(), err)
	}
	doc := &explore.Document{
		Schema: explore.Schema, Scenario: past.Scenario.Name, Folder: past.Folder, Kernel: past.Document.Machine.Release,
		Calls: []*explore.Report{}, Held: true,
	}
	for n := range plans {
		r, failure := c.call(ctx, lab, past, plans[n], c.Budget/time.Duration(len(plans)), t, progress)
		if r != nil {
			doc.Calls = append(doc.Calls, r)
			doc.Held = doc.Held && r.Broken == 0
			if failure == nil && r.States.Cut == 0 {
				failure = fmt.Errorf("%s: no state was decided; allow more than %v with --budget", plans[n], c.Budget)
			}
		}
		if err = failure; err != nil {
			doc.Held = false // not everything was looked at that was to be
			break
		}
	}
	progress.Done()
	last, done := context.WithTimeout(context.WithoutCancel(ctx), lastPage) // what was found until an interrupt is shown, too
	defer done()
	if err := keepPage(last, &past.Document); err != nil { // what was found is as good without it
		t.Warn("no page for a browser", "error", err)
	}
	if err = errors.Join(err, c.print(s.Out, doc)); err != nil {
		return err
	}
	if !doc.Held {
		return errNotHeld
	}
	return nil
}

// recording finds the run that is meant, or makes one, and says which of its calls.
func (c *exploreCommand) recording(ctx context.Context, lab *campaign.Lab) (*campaign.Past, []string, error) {
	folder, call := c.What, ""
	if !campaign.IsRun(folder) && campaign.IsRun(filepath.Dir(filepath.Clean(folder))) {
		folder, call = filepath.Dir(filepath.Clean(folder)), filepath.Base(folder)
	}
	if !campaign.IsRun(folder) {
		var err error
		if folder, err = c.record(ctx, lab); err != nil {
			return nil, nil, err
		}
	} else if len(c.Set) > 0 {
		return nil, nil, &usageError{errors.New("--set is for scenarios: a run is over")}
	}
	past, err := campaign.Open(folder)
	if err != nil {
		return nil, nil, err
	}
	if err := c.explorable(past.Scenario); err != nil {
		return nil, nil, &usageError{err}
	}
	var names []string
	for _, plan := range past.Calls {
		if call == "" || call == string(plan.Call) {
			names = append(names, string(plan.Call))
		}
	}
	if c.Resume && !slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name, outcomesFile))
		return err == nil
	}) {
		return nil, nil, &usageError{fmt.Errorf("there is nothing to resume: %s was not explored before", c.What)}
	}
	if len(names) == 0 {
		return nil, nil, &usageError{fmt.Errorf("%s has no recording %s; it has: %s", folder, call, past.CallNames())}
	}
	return past, names, nil
}

// record runs a scenario and returns the run folder.
func (c *exploreCommand) record(ctx context.Context, lab *campaign.Lab) (string, error) {
	if c.Resume {
		return "", &usageError{fmt.Errorf("--resume goes on with a run that was explored; %s is no run folder", c.What)}
	}
	run := &runCommand{Scenario: c.What, Set: c.Set, Kernel: c.Kernel, Modules: c.Modules}
	list, err := run.scenarios()
	if info, is := os.Stat(c.What); err != nil && is == nil && info.IsDir() {
		return "", &usageError{fmt.Errorf("%s is neither a scenario, nor the folder of a run, nor that of one of its calls", c.What)}
	}
	if err != nil {
		return "", err
	}
	if len(list) != 1 {
		return "", &usageError{fmt.Errorf("%s has %d scenarios; name one: powercut scenarios lists them", c.What, len(list))}
	}
	if err := c.explorable(list[0]); err != nil {
		return "", &usageError{err}
	}
	seed := uint64(rand.Uint32())
	if c.Seed != nil {
		seed = *c.Seed
	}
	lab.Kernel = run.Kernel
	doc, err := lab.Run(ctx, list[0], seed)
	if err != nil {
		return "", err
	}
	return doc.Folder, nil
}

// explorable says why the states of a scenario cannot be had, if so.
func (c *exploreCommand) explorable(s scenarios.Scenario) error {
	switch {
	case s.Drive.Backend != scenarios.NBD:
		return fmt.Errorf("scenario %s: an image file keeps no record of what reached it, so it has no states to explore", s.Name)
	case c.Fsck && s.Filesystem.ExternalJournal > 0:
		return fmt.Errorf("--fsck: scenario %s has its journal on a disk of its own, and the checker is given one disk; leave --fsck out", s.Name)
	case s.Drive.DropsFUA():
		return fuaDropped(s)
	}
	return nil
}

// fuaDropped says why the states of a scenario say nothing.
func fuaDropped(s scenarios.Scenario) error {
	return fmt.Errorf("scenario %s: QEMU drops the FUA of a guest with an NVMe drive, so that what a state lost would say nothing about the file system; use another bus, or say that the drive is so: drive.faults: [fua-ignored]", s.Name)
}

// call explores one call of a run.
func (c *exploreCommand) call(ctx context.Context, lab *campaign.Lab, past *campaign.Past, name string, budget time.Duration, t *talk, progress *stages) (r *explore.Report, err error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	dir, release, err := store.Scratch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	s, err := explore.Open(ctx, lab, past, name, dir)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o := explore.Options{Seed: past.Document.Seed, States: c.States, Budget: budget, Jobs: c.jobs(), Every: c.NoPrune, Fsck: c.Fsck}
	if c.Seed != nil {
		o.Seed = *c.Seed
	}
	o.Store, err = explore.OpenStore(filepath.Join(past.Folder, name, outcomesFile), s.Identity(), c.Fsck, c.Resume)
	switch {
	case errors.Is(err, explore.ErrFsck):
		return nil, &usageError{err}
	case err != nil:
		return nil, err
	}
	c.watch(&o, name, t, progress)
	r, err = explore.Explore(ctx, s, o)
	if first := r.First(); err == nil && first != nil && !c.NoShrink && s.Call.Complete() {
		r.Shrunk, err = c.shrink(ctx, filepath.Join(past.Folder, name), first.State, progress)
	}
	return r, errors.Join(err, keepExplored(filepath.Join(past.Folder, name, explore.ReportFile), r), o.Store.Close())
}

// shrinkTests bounds the states that a violation is reduced with.
const shrinkTests = 100

// shrink makes a failing state of the call in a folder small, and a bundle of it.
func (c *exploreCommand) shrink(ctx context.Context, folder, state string, progress *stages) (out *explore.Shrunk, err error) {
	// The recording says which kernel it was made with.
	guests := guestFlags{Kernel: c.Kernel, Modules: c.Modules, QEMU: c.QEMU}
	err = caseArg{Case: folder, State: state}.shrink(ctx, guests, shrinkTests, progress, func(k *bundle.Case, _ *campaign.Replay, small *campaign.Shrunk, _ crash.State) error {
		path := filepath.Join(folder, violationFile)
		out = &explore.Shrunk{State: small.State.String(), Tests: small.Tests, Minimal: small.Minimal, Told: small.Told, Bundle: path}
		return keepBundle(ctx, k, path)
	})
	return out, err
}

// shownAtOnce bounds the violations of one call that are told as they are found.
const shownAtOnce = 5

// watch shows how far an exploration is, and tells of what it finds.
func (c *exploreCommand) watch(o *explore.Options, name string, t *talk, progress *stages) {
	begun, drawn, broken := time.Now(), time.Time{}, 0
	progress.Stage(name+": exploring", o.States)
	o.Found = func(v explore.Violation) {
		if broken++; broken <= shownAtOnce {
			t.fail(fmt.Sprintf("%s, %v", name, v), nil)
		}
	}
	budget := o.Budget
	o.Decided = func(n int) {
		progress.Set(n)
		if o.States > 0 || time.Since(drawn) < time.Second {
			return
		}
		drawn = time.Now()
		spent := drawn.Sub(begun)
		progress.Progress.Stage(fmt.Sprintf("%s: exploring, %d states (%d broken), %.1f/s, at most %v left",
			name, n, broken, float64(n)/spent.Seconds(), (budget-spent).Round(time.Second)), 0)
	}
}

// keepExplored keeps a report in the call's folder.
func keepExplored(path string, r *explore.Report) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(path+".tmp", append(b, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return fmt.Errorf("keep exploration: %w", err)
	}
	return nil
}

func (c *exploreCommand) print(w io.Writer, doc *explore.Document) error {
	if c.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(doc)
	}
	for _, r := range doc.Calls {
		if err := r.Write(w); err != nil {
			return err
		}
		if first := r.First(); first != nil && r.Shrunk == nil {
			fmt.Fprintf(w, "  why, and in one file: powercut shrink %s --state '%s' -o %s.tar.zst\n",
				filepath.Join(doc.Folder, r.Call), first.State, r.Call)
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", doc.Scenario, doc.Folder)
	return err
}
