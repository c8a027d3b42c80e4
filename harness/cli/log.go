package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/logwrites"
	"powercut/harness/recording"
	"powercut/harness/trace"
	"powercut/scenarios"
)

type logCommand struct {
	Show    logShow    `cmd:"" help:"Print a block log, one line a request."`
	State   logState   `cmd:"" help:"Write what a cut leaves of the drive, as a raw image."`
	Export  logExport  `cmd:"" help:"Write a block log in the format of dm-log-writes, for replay-log."`
	Import  logImport  `cmd:"" help:"Read a log of dm-log-writes, or of QEMU's blklogwrites."`
	Compare logCompare `cmd:"" help:"Hold a block log against what another tool has logged of the same drive."`
}

// recordingArg is the argument that names a block log.
type recordingArg struct {
	Recording string `arg:"" help:"A run folder, or RUN/CALL where the run has several calls, or the folder of an import."`
}

// open opens the recording. A path that names none is the user's mistake.
func (a recordingArg) open() (*recording.Recording, error) {
	r, err := recording.Open(a.Recording)
	return r, mistaken(err)
}

// mistaken tells the user's mistakes from failures.
func mistaken(err error) error {
	var nf *recording.NotFoundError
	if errors.As(err, &nf) {
		return &usageError{err}
	}
	return err
}

// damaged is the error that ends a command after it has done what it could with
// what lies before the damage.
func damaged(done string, d *blocklog.Damage) error {
	return fmt.Errorf("%s is what lies before the damage: %w", done, d)
}

type logShow struct {
	recordingArg
	Op    *int     `help:"Only requests that carry data of this op, or arrived while it ran." placeholder:"N"`
	Class []string `help:"Only requests of this class: data, journal, metadata, flush, read, discard, other. May be repeated." enum:"data,journal,metadata,flush,read,discard,other" placeholder:"CLASS"`
	From  int      `help:"Only requests that arrived at or after this position." placeholder:"POSITION"`
	To    int      `help:"Only requests that arrived before this position." placeholder:"POSITION"`
	Base  string   `help:"The drive's content at first, by which the journal is found. Default: the run's formatted disk." placeholder:"IMAGE" type:"existingfile"`
	JSON  bool     `name:"json" help:"Print one JSON object a line."`
}

// Run prints the log.
func (c *logShow) Run(ctx context.Context, s Streams) error {
	r, err := c.open()
	if err != nil {
		return err
	}
	defer r.Close()
	base, err := r.OpenBase(ctx, c.Base)
	if err != nil {
		return err
	}
	defer base.Close()
	t, err := r.Trace(base)
	if err != nil {
		return err
	}
	f := recording.Filter{Op: c.Op, From: c.From, To: c.To}
	for _, class := range c.Class {
		f.Classes = append(f.Classes, trace.Class(class))
	}
	show := recording.Print
	if c.JSON {
		show = recording.PrintJSON
	}
	if err := show(s.Out, r.Lines(t, f)); err != nil {
		return err
	}
	if r.Damage != nil {
		return damaged("what was printed", r.Damage)
	}
	return nil
}

type logState struct {
	recordingArg
	At     string  `help:"Where the power is cut: a position, a mark such as 'ack op 17', or end." default:"end" placeholder:"PLACE"`
	Policy string  `help:"What becomes of volatile writes: lose, keep, random. Default: as in the run, which gives the image that was recovered; of an import, lose." enum:"lose,keep,random," default:"" placeholder:"POLICY"`
	Seed   *uint64 `help:"What random follows from. Default: the run's." placeholder:"N"`
	State  string  `help:"In place of the three: a position and what did not reach the media, such as '57 without 21-24,30[0-2]' (requests; sectors of one)." placeholder:"STATE"`
	Base   string  `help:"The drive's content at first. Default: the run's formatted disk, or what the import was given." placeholder:"IMAGE" type:"existingfile"`
	Output string  `short:"o" help:"The image: raw, sparse." required:"" placeholder:"FILE" makes:"file"`
}

// Run writes the image.
func (c *logState) Run(ctx context.Context, s Streams) error {
	r, err := c.open()
	if err != nil {
		return err
	}
	defer r.Close()
	state, told, err := c.state(r)
	if err != nil {
		return err
	}
	if err := notOver("--output", c.Output, c.Base); err != nil {
		return err
	}
	base, err := r.OpenBase(ctx, c.Base)
	if err != nil {
		return err
	}
	defer base.Close()
	image, err := crash.NewBuilder(base, r.Log).Build(state)
	if err != nil {
		return &usageError{err}
	}
	if err := recording.WriteImage(ctx, c.Output, image.Media, image.Media.Size()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s: cut at position %d, %s; of %d volatile writes %d were lost and %d torn\n",
		c.Output, state.Cut, told, image.Volatile, image.Dropped, image.Torn)
	return err
}

// state is the state that the command line asks for, and in words how it was chosen.
func (c *logState) state(r *recording.Recording) (s crash.State, told string, err error) {
	if c.State != "" {
		if c.At != recording.End || c.Policy != "" || c.Seed != nil {
			return s, "", &usageError{errors.New("--state says all of --at, --policy and --seed; leave these out")}
		}
		if s, err = crash.ParseState(c.State); err != nil {
			return s, "", &usageError{err}
		}
		_, err = r.At(strconv.Itoa(s.Cut))
		return s, "as given", mistaken(err)
	}
	at, err := r.At(c.At)
	if err != nil {
		return s, "", mistaken(err)
	}
	policy, seed := r.Fate()
	if c.Policy != "" {
		policy = crash.Policy(c.Policy)
	}
	if c.Seed != nil {
		seed = *c.Seed
	}
	s, err = crash.Choose(r.Log, at, policy, seed)
	return s, fmt.Sprintf("policy %s, seed %d", policy, seed), err
}

type logExport struct {
	recordingArg
	Output string `short:"o" help:"The log." required:"" placeholder:"FILE" makes:"file"`
}

// Help says what is in an export.
func (*logExport) Help() string {
	return "Entries stand in the order in which they became durable, with a mark at the begin and the ack of each op: " +
		"'replay-log --end-mark \"ack op 17\"' onto a copy of the run's formatted disk (which 'powercut log state --at 0' writes) " +
		"gives what surely was on the media when op 17 was acknowledged. What was volatile at the cut follows the mark 'cut'."
}

// Run writes the log.
func (c *logExport) Run(ctx context.Context, s Streams) error {
	r, err := c.open()
	if err != nil {
		return err
	}
	defer r.Close()
	entries, err := r.Export(ctx, c.Output)
	if errors.Is(err, recording.ErrTwoDisks) {
		return &usageError{err}
	}
	var d *blocklog.Damage
	if errors.As(err, &d) {
		return damaged(fmt.Sprintf("what %s holds, %d entries,", c.Output, entries), d)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s: %d entries, %d marks of ops\n", c.Output, entries, len(r.Marks))
	return err
}

type logImport struct {
	File   string `arg:"" help:"The log: a file, or the device that dm-log-writes logged to." type:"existingfile"`
	Size   string `help:"The drive's size, such as 256MiB, where it was zeros at first. This, or --base." placeholder:"BYTES" xor:"drive" required:""`
	Base   string `help:"An image of the drive as it was at first. This, or --size." placeholder:"IMAGE" type:"existingfile" xor:"drive" required:""`
	Output string `short:"o" help:"The folder, which is made." required:"" placeholder:"DIR" makes:"new"`
}

// Run makes the folder.
func (c *logImport) Run(s Streams) error {
	var size scenarios.Size
	if c.Base == "" {
		var err error
		if size, err = scenarios.ParseSize(c.Size); err != nil || size%logwrites.SectorSize != 0 || size == 0 {
			return &usageError{fmt.Errorf("--size: %q is not a size in whole sectors of %d bytes, such as 256MiB", c.Size, logwrites.SectorSize)}
		}
	}
	o, err := recording.Import(c.File, c.Output, c.Base, int64(size))
	if errors.Is(err, logwrites.ErrNotLog) || errors.Is(err, recording.ErrTwoDisks) {
		return &usageError{err}
	}
	var d *logwrites.Damage
	if errors.As(err, &d) {
		return fmt.Errorf("what %s holds, %d requests, is what lies before the damage: %w", c.Output, o.Requests, d)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s: %d requests of %d entries, %d marks\n", c.Output, o.Requests, o.Entries, len(o.Marks))
	if err == nil && o.Unread > 0 {
		_, err = fmt.Fprintf(s.Out, "  %d bytes after the last entry that the log counts were not read\n", o.Unread)
	}
	return err
}

type logCompare struct {
	recordingArg
	File string `arg:"" help:"A log of dm-log-writes or blklogwrites, such as the run's own CALL/qemu.log (powercut run --qemu-log)." type:"existingfile"`
}

// Help says what is compared, and what the exit code means.
func (*logCompare) Help() string {
	return "Between any two flushes each sector must have been given the same contents in the same order. " +
		"The drive may have seen more flushes than the other log has, not fewer. The other log may end early, at a flush: QEMU counts nothing after the last one. " +
		"Exits with 0 where the two agree, with 1 where they do not, and with 125 where they agree as far as a damaged log goes."
}

// Run compares.
func (c *logCompare) Run(s Streams) error {
	r, err := c.open()
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := r.Compare(c.File)
	if errors.Is(err, logwrites.ErrNotLog) || errors.Is(err, recording.ErrTwoDisks) {
		return &usageError{err}
	}
	if got == nil {
		return err
	}
	if got.Difference != "" {
		fmt.Fprintf(s.Out, "the logs differ: %s\n", got.Difference)
		return errNotHeld
	}
	text := fmt.Sprintf("the same writes: %d bytes, in %d intervals between flushes\n", got.Bytes, got.Intervals)
	if got.Extra+got.Beyond > 0 {
		text += fmt.Sprintf("  the recording has %d more flushes among them, and %d more intervals after them\n", got.Extra, got.Beyond)
	}
	if _, err := io.WriteString(s.Out, text); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("what was compared is what lies before the damage: %w", err)
	}
	return nil
}
