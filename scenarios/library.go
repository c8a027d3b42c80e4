package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// library holds the scenarios: one folder a family, one file a scenario.
//
//go:embed */*.yaml
var library embed.FS

// Info is a line of the listing.
type Info struct {
	Name   string `json:"name"`
	Family string `json:"family"`
	About  string `json:"about"`
	Cells  int    `json:"cells,omitempty"` // of a matrix: the number of its scenarios
}

// NotFoundError says that there is no scenario or family of that name.
type NotFoundError struct {
	Name     string
	Near     []string // names of scenarios and families that are close
	Families []string // all families
}

// Error says what was meant perhaps, and what families there are.
func (e *NotFoundError) Error() string {
	hint := ""
	if len(e.Near) > 0 {
		hint = fmt.Sprintf(" (did you mean %s?)", strings.Join(e.Near, " or "))
	}
	return fmt.Sprintf("find scenario: %q is not known%s; families: %s; `powercut scenarios` lists all, and a file is named by a path with a slash or .yaml",
		e.Name, hint, strings.Join(e.Families, ", "))
}

// List returns the embedded scenarios, by family and then by name.
func List() []Info {
	var infos []Info
	for _, file := range files() {
		info := Info{Name: baseName(file), Family: path.Dir(file)}
		all, err := loadEmbedded(file)
		switch {
		case err != nil:
			info.About = "cannot be read: " + err.Error()
		case all[0].Matrix.Of != "":
			info.Cells = len(all)
			fallthrough
		default:
			info.About = all[0].About
		}
		infos = append(infos, info)
	}
	return infos
}

// Families lists the families, sorted.
func Families() []string {
	var families []string
	for _, file := range files() {
		families = append(families, path.Dir(file))
	}
	return slices.Compact(families)
}

// Load returns the embedded scenario of that name, which is not that of a matrix
// but may be that of one of its cells. Its error is a *NotFoundError or, where an
// override is wrong, an *Error.
func Load(name string, overrides ...Override) (Scenario, error) {
	all, err := loadNamed(name, overrides...)
	if err != nil {
		return Scenario{}, err
	}
	if len(all) > 1 {
		return Scenario{}, &Error{File: name, Message: fmt.Sprintf("is a matrix of %d scenarios, and one is wanted", len(all))}
	}
	return all[0], nil
}

// loadNamed returns the scenarios of the embedded file of that name, or the one of
// that name that a matrix makes.
func loadNamed(name string, overrides ...Override) ([]Scenario, error) {
	for _, file := range files() {
		base := baseName(file)
		if base == name {
			return loadEmbedded(file, overrides...)
		}
		if !strings.HasPrefix(name, base+"-") {
			continue
		}
		all, err := loadEmbedded(file)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			if s.Matrix.Of != "" && s.Name == name {
				return s.with(overrides)
			}
		}
	}
	return nil, notFound(name)
}

// with applies overrides to a scenario that stands in no file.
func (s Scenario) with(overrides []Override) ([]Scenario, error) {
	text, err := s.Marshal()
	if err != nil {
		return nil, err
	}
	return ParseAll(s.Name, text, overrides...)
}

// Family returns the embedded scenarios of a family, sorted by name. Its errors
// are those of Load.
func Family(family string, overrides ...Override) ([]Scenario, error) {
	var all []Scenario
	for _, file := range files() {
		if path.Dir(file) != family {
			continue
		}
		some, err := loadEmbedded(file, overrides...)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if all == nil {
		return nil, notFound(family)
	}
	return all, nil
}

// LoadFile returns the scenario that the file holds, or those of its matrix. Its
// error is an *Error where the file could be read.
func LoadFile(file string, overrides ...Override) ([]Scenario, error) {
	data, err := readLimited(file)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	return ParseAll(file, data, overrides...)
}

// readLimited reads no more of a file than tells Parse that it is too large. It
// does not wait for somebody to open the other end of a named pipe.
func readLimited(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	return data, errors.Join(err, f.Close())
}

// Find returns the scenarios that arg names: those in a file, where arg has a
// slash or ends in .yaml; else the embedded one of that name (of a matrix all);
// else those of the family of that name. An embedded one may be named with its
// family as well, as in seeds/ext3-overwrite, where there is no such file.
func Find(arg string, overrides ...Override) ([]Scenario, error) {
	if strings.Contains(arg, "/") || strings.HasSuffix(arg, ".yaml") {
		if name, ok := inLibrary(arg); ok {
			return loadNamed(name, overrides...)
		}
		all, err := LoadFile(arg, overrides...)
		if family, _, _ := strings.Cut(arg, "/"); errors.Is(err, fs.ErrNotExist) && slices.Contains(Families(), family) {
			err = fmt.Errorf("%w; the family %s has %s", err, family, strings.Join(namesOf(family), ", "))
		}
		return all, err
	}
	all, err := loadNamed(arg, overrides...)
	var missing *NotFoundError
	if errors.As(err, &missing) {
		return Family(arg, overrides...)
	}
	return all, err
}

// inLibrary takes a path apart that names an embedded scenario, or a cell of one, and
// no file: FAMILY/NAME.
func inLibrary(arg string) (name string, ok bool) {
	family, name, _ := strings.Cut(arg, "/")
	if _, err := os.Stat(arg); err == nil || !slices.Contains(Families(), family) {
		return "", false
	}
	return name, slices.ContainsFunc(files(), func(file string) bool {
		base := baseName(file)
		return path.Dir(file) == family && (name == base || strings.HasPrefix(name, base+"-"))
	})
}

// namesOf lists the names of a family's files, sorted.
func namesOf(family string) []string {
	var names []string
	for _, file := range files() {
		if path.Dir(file) == family {
			names = append(names, baseName(file))
		}
	}
	return names
}

// files lists the embedded files, sorted.
func files() []string {
	names, err := fs.Glob(library, "*/*.yaml")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	return names
}

func baseName(file string) string { return strings.TrimSuffix(path.Base(file), ".yaml") }

// loadEmbedded parses an embedded file, whose name must be the scenario's.
func loadEmbedded(file string, overrides ...Override) ([]Scenario, error) {
	data, err := library.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	return ParseAll("scenarios/"+file, data, overrides...)
}

func notFound(name string) error {
	var names []string
	for _, file := range files() {
		names = append(names, baseName(file))
	}
	families := Families()
	return &NotFoundError{Name: name, Near: closest(name, append(names, families...)), Families: families}
}
