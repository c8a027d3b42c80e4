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
	"powercut/harness/report/format"
)

// reportFlags say which reports a command makes.
type reportFlags struct {
	Report []string `help:"Make a report: text, json, markdown; of runs also junit, ktap or html. With =FILE it goes there, without in place of the table. May be repeated." placeholder:"FORMAT[=FILE]" sep:"none"`
	JSON   bool     `name:"json" help:"Short for --report json."`
}

// output is one report that was asked for.
type output struct {
	format format.Format
	file   string // empty: standard output
}

// outputs reads the flags. At most one report goes to standard output.
func (f reportFlags) outputs(allowed ...format.Format) ([]output, error) {
	texts := f.Report
	if f.JSON {
		texts = append(slices.Clone(texts), string(format.JSON))
	}
	var list []output
	printed := ""
	for _, text := range texts {
		name, file, toFile := strings.Cut(text, "=")
		o := output{format: format.Format(name), file: file}
		if !slices.Contains(allowed, o.format) {
			return nil, &usageError{fmt.Errorf("--report %s: %q is no format; allowed: %s", text, name, names(allowed))}
		}
		if toFile && file == "" {
			return nil, &usageError{fmt.Errorf("--report %s: the name of the file is missing", text)}
		}
		if toFile {
			if wrong := cannotMake("file", file); wrong != "" {
				return nil, &usageError{fmt.Errorf("--report %s: %s", text, wrong)}
			}
			if first := slices.IndexFunc(list, func(l output) bool { return l.file != "" && sameFile(l.file, file) }); first >= 0 {
				return nil, &usageError{fmt.Errorf("--report %s: %s goes there already; give each a file of its own", text, list[first].format)}
			}
		} else if printed != "" {
			return nil, &usageError{fmt.Errorf("--report %s: standard output has room for one, and %s goes there; give one of them a file: %s=FILE", text, printed, name)}
		} else {
			printed = name
		}
		list = append(list, o)
	}
	return list, nil
}

// sameFile tells whether two names are of one path.
func sameFile(a, b string) bool {
	a, err1 := filepath.Abs(a)
	b, err2 := filepath.Abs(b)
	return err1 == nil && err2 == nil && a == b
}

// formats are all of a run: those of package format, and the page.
func formats() []format.Format { return append(format.All(), page) }

func names(list []format.Format) string {
	var names []string
	for _, f := range list {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// printed tells whether one of the reports goes to standard output.
func printed(list []output) bool {
	return slices.ContainsFunc(list, func(o output) bool { return o.file == "" })
}

// notOver refuses to write what a flag names over the very file that is read.
func notOver(flag, path, source string) error {
	to, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if from, err := os.Stat(source); err == nil && os.SameFile(from, to) {
		return &usageError{fmt.Errorf("%s %s: it would take the place of %s, which is what is read; name another file", flag, path, source)}
	}
	return nil
}

// writeOutputs makes all reports; what goes to a file is there as a whole or not.
func writeOutputs(ctx context.Context, w io.Writer, list []output, write func(io.Writer, output) error) error {
	var errs []error
	for _, o := range list {
		if o.file == "" {
			errs = append(errs, write(w, o))
			continue
		}
		errs = append(errs, whole.WriteContext(ctx, o.file, func(f *os.File) error { return write(f, o) }))
	}
	return errors.Join(errs...)
}
