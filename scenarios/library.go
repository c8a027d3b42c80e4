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
		if s, err := loadEmbedded(file); err != nil {
			info.About = "cannot be read: " + err.Error()
		} else {
			info.About = s.About
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

// Load returns the embedded scenario of that name. Its error is a *NotFoundError
// or, where an override is wrong, an *Error.
func Load(name string, overrides ...Override) (Scenario, error) {
	for _, file := range files() {
		if baseName(file) == name {
			return loadEmbedded(file, overrides...)
		}
	}
	return Scenario{}, notFound(name)
}

// Family returns the embedded scenarios of a family, sorted by name. Its errors
// are those of Load.
func Family(family string, overrides ...Override) ([]Scenario, error) {
	var all []Scenario
	for _, file := range files() {
		if path.Dir(file) != family {
			continue
		}
		s, err := loadEmbedded(file, overrides...)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if all == nil {
		return nil, notFound(family)
	}
	return all, nil
}

// LoadFile returns the scenario that the file holds. Its error is an *Error where
// the file could be read.
func LoadFile(file string, overrides ...Override) (Scenario, error) {
	data, err := readLimited(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(file, data, overrides...)
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

// Find returns the scenarios that arg names: the one in a file, where arg has a
// slash or ends in .yaml; else the embedded one of that name; else those of the
// family of that name.
func Find(arg string, overrides ...Override) ([]Scenario, error) {
	if strings.Contains(arg, "/") || strings.HasSuffix(arg, ".yaml") {
		s, err := LoadFile(arg, overrides...)
		if err != nil {
			return nil, err
		}
		return []Scenario{s}, nil
	}
	s, err := Load(arg, overrides...)
	var missing *NotFoundError
	if errors.As(err, &missing) {
		return Family(arg, overrides...)
	}
	if err != nil {
		return nil, err
	}
	return []Scenario{s}, nil
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
func loadEmbedded(file string, overrides ...Override) (Scenario, error) {
	data, err := library.ReadFile(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return Parse("scenarios/"+file, data, overrides...)
}

func notFound(name string) error {
	var names []string
	for _, file := range files() {
		names = append(names, baseName(file))
	}
	families := Families()
	return &NotFoundError{Name: name, Near: closest(name, append(names, families...)), Families: families}
}
