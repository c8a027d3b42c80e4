package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"powercut/harness/internal/whole"
	"powercut/harness/report"
	"powercut/harness/report/evidence"
	"powercut/harness/report/format"
	"powercut/harness/report/html"
)

// page is the format of the page for a browser, which needs the run's folder.
const page format.Format = "html"

// pageFile is its name in a run folder.
const pageFile = "report.html"

// write writes results in any format.
func write(ctx context.Context, w io.Writer, o output, r format.Results) error {
	switch o.format {
	case page:
	case format.Text, format.Markdown:
		if err := format.Write(w, o.format, r); err != nil {
			return err
		}
		return writeExplored(w, r)
	default:
		return format.Write(w, o.format, r)
	}
	if r.Several || len(r.Runs) != 1 {
		if err := missingPages(ctx, r.Runs); err != nil {
			return err
		}
		return html.Index(w, r.Runs, func(d *report.Document) string { return pageLink(d, o.file) })
	}
	return writePage(ctx, w, r.Runs[0])
}

// writeExplored says in a line of each run that was explored what came of it.
func writeExplored(w io.Writer, r format.Results) error {
	for _, d := range r.Runs {
		e, err := evidence.ReadExplored(d)
		if err != nil {
			return err
		}
		if e.Calls == 0 {
			continue
		}
		of := ""
		if len(r.Runs) > 1 {
			of = fmt.Sprintf("%s seed %d: ", d.Scenario, d.Seed)
		}
		if _, err := fmt.Fprintf(w, "\n%s%s\n", of, e); err != nil {
			return err
		}
	}
	return nil
}

func writePage(ctx context.Context, w io.Writer, d *report.Document) error {
	e, err := evidence.Open(ctx, d.Folder)
	if err != nil {
		return err
	}
	return html.Write(w, e)
}

// pageLink leads from a file to the page of a run, so that both can be moved together;
// from standard output by an absolute path. It is empty where there is no page.
func pageLink(d *report.Document, from string) string {
	path, err := filepath.Abs(filepath.Join(d.Folder, pageFile))
	if err != nil || !hasPage(d) {
		return ""
	}
	if from == "" {
		return "file://" + path
	}
	dir, err := filepath.Abs(filepath.Dir(from))
	if err == nil {
		path, err = filepath.Rel(dir, path)
	}
	if err != nil {
		return ""
	}
	return path
}

func hasPage(d *report.Document) bool {
	_, err := os.Stat(filepath.Join(d.Folder, pageFile))
	return err == nil
}

// keepPage writes the page of a run into its folder.
func keepPage(ctx context.Context, d *report.Document) error {
	return whole.Write(filepath.Join(d.Folder, pageFile), func(f *os.File) error { return writePage(ctx, f, d) })
}

// missingPages gives a page to each run folder that has none. A report without its
// folder gets none.
func missingPages(ctx context.Context, docs []*report.Document) error {
	for _, d := range docs {
		_, begun := os.Stat(filepath.Join(d.Folder, report.Begun))
		if begun != nil || hasPage(d) {
			continue
		}
		if err := keepPage(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// writePlots writes the plots of a run into a folder, which is made.
func writePlots(ctx context.Context, dir string, d *report.Document) error {
	e, err := evidence.Open(ctx, d.Folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write plots: %w", err)
	}
	for _, f := range html.Figures(e) {
		err := whole.Write(filepath.Join(dir, f.Name+".svg"), func(w *os.File) error {
			_, err := io.WriteString(w, f.File())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
