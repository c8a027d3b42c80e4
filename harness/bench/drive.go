package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"powercut/harness/latency"
	"powercut/images/cache"
	"powercut/scenarios"
)

// DriveSchema names the version of DriveDocument.
const DriveSchema = "powercut/bench-drive/1"

// The parts of a measurement of the drive.
const (
	PartTiming = "timing" // each profile against its model
	PartSpeed  = "speed"  // against other drives
	PartLog    = "log"    // how large logs are
	PartMemory = "memory" // of a harness that records, reads and judges a long run
)

// DriveOptions say what of the drive to measure, and how.
type DriveOptions struct {
	Options
	Parts    []string            // empty: all
	Profiles []scenarios.Profile // of PartTiming
	Written  int64               // bytes of PartMemory
}

// DriveDocument is all that was measured of the drive. Its JSON is described in
// docs/bench-json.md.
type DriveDocument struct {
	Schema   string    `json:"schema"`
	Quick    bool      `json:"quick"`
	Load     float64   `json:"load"`     // average of the last minute, at the begin
	Profiles []Profile `json:"profiles"` // of PartTiming
	Figures  []Figure  `json:"figures"`  // of the other parts
	Elapsed  float64   `json:"elapsed_seconds"`
	Held     bool      `json:"held"`
}

// RunDrive measures the drive.
func RunDrive(ctx context.Context, o DriveOptions) (doc *DriveDocument, err error) {
	begun := time.Now()
	doc = &DriveDocument{Schema: DriveSchema, Quick: o.Quick, Load: loadAverage(), Profiles: []Profile{}, Figures: []Figure{}}
	c, err := cache.Default()
	if err != nil {
		return nil, err
	}
	folder, release, err := c.Scratch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r := &rig{options: o.Options, effort: o.effort(), folder: folder}
	if o.wants(PartTiming) {
		for _, p := range o.Profiles {
			t, err := r.profile(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("measure timing %s: %w", p, err)
			}
			doc.Profiles = append(doc.Profiles, t)
		}
	}
	for _, part := range []struct {
		name string
		take func(context.Context) ([]Figure, error)
	}{
		{PartSpeed, r.speed},
		{PartLog, r.logs},
		{PartMemory, func(ctx context.Context) ([]Figure, error) { return r.longRun(ctx, o.Written) }},
	} {
		if !o.wants(part.name) {
			continue
		}
		figures, err := part.take(ctx)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", part.name, err)
		}
		doc.Figures = append(doc.Figures, figures...)
	}
	doc.Held = held(doc.Figures) && !slices.ContainsFunc(doc.Profiles, func(p Profile) bool { return !p.held() })
	doc.Elapsed = time.Since(begun).Seconds()
	return doc, nil
}

func (o DriveOptions) wants(part string) bool {
	return len(o.Parts) == 0 || slices.Contains(o.Parts, part)
}

// DriveTable writes the document for a reader. It fails where w does.
func DriveTable(w io.Writer, d *DriveDocument) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d processors, load %.1f\n", runtime.NumCPU(), d.Load)
	for _, p := range d.Profiles {
		fmt.Fprintf(&b, "\n%s\n", p.Text)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "\tmodel\tof it host\tmeasured\tdeviation\t\n")
		for _, c := range p.Checks {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%+.1f %%\t  %s\n", c.Text, c.show(c.Model), latency.Format(c.Host), c.show(c.Measured), c.Deviation*100, c.outcome())
		}
		t.Flush()
	}
	if len(d.Figures) > 0 {
		b.WriteString("\n")
		(&Document{Figures: d.Figures}).figures(&b)
	}
	fmt.Fprintf(&b, "\n%s\n", (&Document{Quick: d.Quick, Held: d.Held, Elapsed: d.Elapsed}).conclusion())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write bench table: %w", err)
	}
	return nil
}
