// Package debian fetches packages of the Debian archive without installing
// them and without touching the machine's own package state.
//
// The mirror is the one that the machine is set up with; the archive's keyring
// is what apt checks the downloads against. The formats read here are those of
// sources.list(5).
package debian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSources bounds one file of apt's configuration, in bytes.
const maxSources = 1 << 20

// Source is one package source of the machine: an entry of sources.list, or
// one stanza of a .sources file.
type Source struct {
	URIs       []string
	Suites     []string
	Components []string
	SignedBy   string // file name; "" if none, or if the key stands in the file itself
	Embedded   bool   // the key stands in the file itself
	File       string // where it was found
}

// Sources reads all enabled binary package sources below etc, which is usually
// /etc/apt.
func Sources(etc string) ([]Source, error) {
	files := []string{filepath.Join(etc, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		more, err := filepath.Glob(filepath.Join(etc, "sources.list.d", pattern))
		if err != nil {
			return nil, fmt.Errorf("list apt sources: %w", err)
		}
		files = append(files, more...)
	}
	var all []Source
	for _, file := range files {
		sources, err := readSources(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt sources: %w", err)
		}
		all = append(all, sources...)
	}
	return all, nil
}

func readSources(file string) ([]Source, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	parse := ParseList
	if strings.HasSuffix(file, ".sources") {
		parse = ParseDeb822
	}
	sources, err := parse(io.LimitReader(f, maxSources))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range sources {
		sources[i].File = file
	}
	return sources, nil
}

// ParseList reads the one-line format:
//
//	deb [option=value …] URI SUITE COMPONENT …
//
// Lines of another form are passed over, as are deb-src lines.
func ParseList(r io.Reader) ([]Source, error) {
	var sources []Source
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")), " ")
		if kind != "deb" {
			continue
		}
		var s Source
		rest = strings.TrimSpace(rest)
		if after, ok := strings.CutPrefix(rest, "["); ok {
			options, tail, closed := strings.Cut(after, "]")
			if !closed {
				continue
			}
			s.SignedBy = option(options, "signed-by")
			rest = tail
		}
		words := strings.Fields(rest)
		if len(words) < 2 {
			continue
		}
		s.URIs, s.Suites, s.Components = words[:1], words[1:2], words[2:]
		sources = append(sources, s)
	}
	return sources, lines.Err()
}

// option returns the value of one "name=value" among others.
func option(options, name string) string {
	for _, o := range strings.Fields(options) {
		if key, value, _ := strings.Cut(o, "="); strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// ParseDeb822 reads the format of .sources files: stanzas of "Field: value",
// values continued by indented lines, "#" at a line's beginning for comments.
// Stanzas that are disabled, or of sources only, are left out.
func ParseDeb822(r io.Reader) ([]Source, error) {
	var sources []Source
	fields, last := map[string]string{}, ""
	flush := func() {
		if s, ok := fromFields(fields); ok {
			sources = append(sources, s)
		}
		fields, last = map[string]string{}, ""
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " \t\r")
		switch {
		case line == "":
			flush()
		case line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + strings.TrimSpace(line)
		default:
			name, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(name)
			fields[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return sources, lines.Err()
}

func fromFields(f map[string]string) (Source, bool) {
	if !slices.Contains(strings.Fields(f["types"]), "deb") || isNo(f["enabled"]) {
		return Source{}, false
	}
	s := Source{
		URIs:       strings.Fields(f["uris"]),
		Suites:     strings.Fields(f["suites"]),
		Components: strings.Fields(f["components"]),
	}
	if key := f["signed-by"]; strings.Contains(key, "BEGIN PGP") {
		s.Embedded = true
	} else {
		s.SignedBy = strings.Join(strings.Fields(key), " ")
	}
	return s, len(s.URIs) > 0 && len(s.Suites) > 0
}

// isNo reports whether a value switches something off (apt.conf(5)).
func isNo(value string) bool {
	return slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(value))
}

// Mirror is where the machine takes Debian itself from.
type Mirror struct {
	Main     string // URI of the main archive
	Security string // URI of the security archive; "" if the machine uses none
}

// release matches the suites that name a release of Debian, and security those
// of its security archive ("bookworm-security", once "buster/updates").
var (
	release  = regexp.MustCompile(`^(buster|bullseye|bookworm|trixie|forky|duke|sid|stable|oldstable|oldoldstable|testing|unstable)$`)
	security = regexp.MustCompile(`^[a-z]+(-security|/updates)$`)
)

// FindMirror picks the mirror out of a machine's sources. Others than Debian
// also name their suites after Debian's releases, so an entry that is signed
// with Debian's own keyring wins over one that does not say, and that over one
// with a key of its own; then one whose URI says "debian" wins. Without any, the error wraps
// ErrNotDebian.
func FindMirror(sources []Source) (Mirror, error) {
	m := Mirror{Main: best(sources, release), Security: best(sources, security)}
	if m.Main == "" {
		return Mirror{}, fmt.Errorf("%w: its apt configuration names no Debian mirror", ErrNotDebian)
	}
	return m, nil
}

// best returns the URI of the most trustworthy entry with a matching suite.
func best(sources []Source, suite *regexp.Regexp) string {
	found, rank := "", -1
	for _, s := range sources {
		if !slices.ContainsFunc(s.Suites, suite.MatchString) || !slices.Contains(s.Components, "main") {
			continue
		}
		for _, uri := range s.URIs {
			if r := s.rank(uri); r > rank {
				found, rank = uri, r
			}
		}
	}
	return found
}

// rank orders entries by how surely they are Debian's; -1 is never Debian.
func (s Source) rank(uri string) int {
	if strings.HasPrefix(uri, "cdrom:") {
		return -1
	}
	rank := 0
	switch {
	case strings.Contains(filepath.Base(s.SignedBy), "debian-archive"):
		rank += 4
	case s.SignedBy == "" && !s.Embedded:
		rank += 2
	}
	if strings.Contains(uri, "debian") {
		rank++
	}
	return rank
}
