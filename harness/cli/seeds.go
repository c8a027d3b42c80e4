package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"powercut/harness/internal/whole"
	"powercut/harness/report"
	"powercut/scenarios"
)

type seedsCommand struct {
	Runs  []string `arg:"" help:"Folders of runs of the family seeds, as of 'powercut run seeds --seeds 1-5 --runs DIR'."`
	Write string   `help:"The page, in Markdown. Its pictures, as SVG files, go into a folder beside it of the same name without extension." default:"docs/seeds.md" placeholder:"FILE"`
}

// Run writes the page.
func (c *seedsCommand) Run(ctx context.Context, s Streams, t *talk) error {
	var docs []*report.Document
	for _, path := range c.Runs {
		stored, err := report.Read(path)
		if err != nil {
			return &usageError{err}
		}
		docs = append(docs, stored.Runs...)
		for _, folder := range stored.Unfinished {
			t.Warn("left out: a run folder without a report", "folder", folder)
		}
	}
	if len(docs) == 0 {
		return &usageError{errors.New("there is no run to write of")}
	}
	missing, err := missingSeeds(docs)
	if err != nil {
		return err
	}
	pictures := strings.TrimSuffix(c.Write, filepath.Ext(c.Write))
	if wrong := cannotWrite(c.Write, pictures); wrong != "" {
		return &usageError{fmt.Errorf("--write %s: %s", c.Write, wrong)}
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	studies := report.Studies(docs)
	for _, study := range studies {
		err := whole.Write(filepath.Join(pictures, study.Picture.Name+".svg"), func(w *os.File) error {
			_, err := io.WriteString(w, study.Picture.File())
			return err
		})
		if err != nil {
			return err
		}
	}
	err = whole.WriteContext(ctx, c.Write, func(w *os.File) error {
		return report.StudiesPage(w, docs, missing, func(s report.Study) string {
			return filepath.Base(pictures) + "/" + s.Picture.Name + ".svg"
		})
	})
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		t.Warn("the page is not whole: there is no run of some scenarios of the family "+seedsFamily, "missing", strings.Join(missing, ", "))
	}
	_, err = fmt.Fprintf(s.Out, "wrote %s, and its pictures into %s: scenarios %d, runs %d\n", c.Write, pictures, len(studies), len(docs))
	return err
}

// seedsFamily is the family of scenarios that the page is about.
const seedsFamily = "seeds"

// missingSeeds names the scenarios of the family of which there is no run, a matrix by its
// own name where there is none of any cell. Runs of other scenarios are an error.
func missingSeeds(docs []*report.Document) ([]string, error) {
	list, err := scenarios.Family(seedsFamily)
	if err != nil {
		return nil, err
	}
	var family, missing, there []string
	for _, s := range report.Studies(docs) {
		there = append(there, s.Name)
	}
	for _, s := range list {
		study := or(s.Matrix.Of, s.Name)
		if !slices.Contains(family, study) {
			family = append(family, study)
		}
		lacks := !slices.Contains(there, study)
		switch {
		case lacks && !slices.Contains(missing, study):
			missing = append(missing, study)
		case !lacks && s.Matrix.Of != "" && !slices.ContainsFunc(docs, func(d *report.Document) bool { return d.Scenario == s.Name }):
			missing = append(missing, s.Name)
		}
	}
	for _, name := range there {
		if !slices.Contains(family, name) {
			return nil, &usageError{fmt.Errorf("there are runs of %s, which is no scenario of the family %s; the page is about these: %s", name, seedsFamily, strings.Join(family, ", "))}
		}
	}
	return missing, nil
}

// cannotWrite says why there can be no page of that name, or no folder for its pictures;
// empty: there can, as far as can be seen.
func cannotWrite(page, pictures string) string {
	if pictures == page {
		return "give the page an extension, such as .md"
	}
	if info, err := os.Stat(page); err == nil && info.IsDir() {
		return "it is a folder; give the name of a file"
	}
	if wrong := cannotMake("folder", pictures); wrong != "" {
		return "its pictures go into the folder " + pictures + ": " + wrong
	}
	return ""
}
