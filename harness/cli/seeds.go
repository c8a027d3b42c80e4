package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"powercut/harness/internal/whole"
	"powercut/harness/report"
)

type seedsCommand struct {
	Runs  []string `arg:"" help:"Folders of runs of the family seeds, as of 'powercut run seeds --seeds 1-5 --runs DIR'."`
	Write string   `help:"The page, in Markdown. Its pictures, as SVG files, go into a folder beside it of the same name without extension." default:"docs/seeds.md" placeholder:"FILE"`
}

// Run writes the page.
func (c *seedsCommand) Run(ctx context.Context, t *talk) error {
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
	pictures := strings.TrimSuffix(c.Write, filepath.Ext(c.Write))
	if pictures == c.Write {
		return &usageError{fmt.Errorf("--write %s: give the page an extension, such as .md", c.Write)}
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	for _, s := range report.Studies(docs) {
		err := whole.Write(filepath.Join(pictures, s.Picture.Name+".svg"), func(w *os.File) error {
			_, err := io.WriteString(w, s.Picture.File())
			return err
		})
		if err != nil {
			return err
		}
	}
	return whole.WriteContext(ctx, c.Write, func(w *os.File) error {
		return report.StudiesPage(w, docs, func(s report.Study) string {
			return filepath.Base(pictures) + "/" + s.Picture.Name + ".svg"
		})
	})
}
