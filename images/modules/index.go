// Package modules knows which modules a Linux kernel has, and in which order
// they must be loaded.
//
// It works on a folder as "make modules_install" and depmod leave it:
// modules.dep, modules.softdep, modules.alias and modules.builtin next to the
// module files (modules.dep(5), modprobe.d(5)). Where depmod has not run, as in
// an unpacked Debian package, the same facts are read from the modules
// themselves. In names "-" and "_" are the same, as for modprobe.
package modules

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// MaxModules bounds the number of modules of one kernel.
const MaxModules = 50_000

// Index is what is known about one kernel's modules. It does not change once
// it has been read: Replace makes another.
type Index struct {
	dir     string
	modules map[string]module   // by normalised name
	builtin map[string]bool     // normalised names of what is in the kernel itself
	aliases map[string][]string // alias without wildcards → module names, sorted
}

// module is one module file.
type module struct {
	path string   // relative to the folder; absolute after Replace
	deps []string // names; must be loaded before
	pre  []string // names or aliases; should be loaded before, if there
	post []string // names or aliases; should be loaded after, if there
}

// MissingError says that a kernel does not have a module.
type MissingError struct {
	Name     string // the module
	NeededBy string // the module that depends on it; "" if asked for itself
}

// Error names the module.
func (e *MissingError) Error() string {
	if e.NeededBy != "" {
		return fmt.Sprintf("no module %s, which %s needs", e.Name, e.NeededBy)
	}
	return "no module " + e.Name
}

// Normal returns the one spelling of a module's name: without folder and
// ending, with "_" for "-".
func Normal(name string) string {
	name = path.Base(name)
	for _, ending := range []string{".xz", ".zst", ".gz", ".ko"} {
		name = strings.TrimSuffix(name, ending)
	}
	return strings.ReplaceAll(name, "-", "_")
}

// IsModule reports whether a file name is that of a module, compressed or not.
func IsModule(name string) bool {
	for _, ending := range []string{".ko", ".ko.xz", ".ko.zst", ".ko.gz"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}

// Open reads the index of the modules in dir. "" is a kernel without modules,
// which has built in whatever is asked of it.
func Open(dir string) (*Index, error) {
	x := &Index{dir: dir, modules: map[string]module{}, builtin: map[string]bool{}, aliases: map[string][]string{}}
	if dir == "" {
		return x, nil
	}
	if err := x.readBuiltin(); err != nil {
		return nil, fmt.Errorf("read modules of %s: %w", dir, err)
	}
	read := x.readDepmod
	if _, err := os.Stat(filepath.Join(dir, "modules.dep")); errors.Is(err, fs.ErrNotExist) {
		read = x.scan
	}
	if err := read(); err != nil {
		return nil, fmt.Errorf("read modules of %s: %w", dir, err)
	}
	for alias := range x.aliases {
		slices.Sort(x.aliases[alias])
	}
	return x, nil
}

// Len returns the number of module files.
func (x *Index) Len() int { return len(x.modules) }

// Path returns the file of a module; "" where there is none.
func (x *Index) Path(name string) string {
	m, ok := x.modules[Normal(name)]
	if !ok {
		return ""
	}
	return x.file(m)
}

func (x *Index) file(m module) string {
	if filepath.IsAbs(m.path) {
		return m.path
	}
	return filepath.Join(x.dir, m.path)
}

// Replace returns an index in which the module called name is the one in file, an
// absolute path, which info tells of. It is added where there was none.
func (x *Index) Replace(name, file string, info Info) (*Index, error) {
	y := &Index{dir: x.dir, modules: maps.Clone(x.modules), builtin: x.builtin, aliases: x.aliases}
	return y, y.put(Normal(name), info.module(file))
}

// Builtin reports whether name is part of the kernel itself.
func (x *Index) Builtin(name string) bool { return x.builtin[Normal(name)] }

// Has reports whether name is built in or there as a module.
func (x *Index) Has(name string) bool {
	_, ok := x.modules[Normal(name)]
	return ok || x.Builtin(name)
}

// Closure returns the files to load, in that order, so that all of names work.
// What is built in is left out. Soft dependencies are followed where the kernel
// has them. The error is a *MissingError if a module or one that it needs is
// not there.
func (x *Index) Closure(names ...string) ([]string, error) {
	c := closure{index: x, seen: map[string]bool{}}
	for _, name := range names {
		if err := c.add(name, ""); err != nil {
			return nil, err
		}
	}
	return c.paths, nil
}

type closure struct {
	index *Index
	seen  map[string]bool
	paths []string
}

// add visits a module after what it depends on. A circle of dependencies,
// which depmod refuses, ends where it closes.
func (c *closure) add(name, neededBy string) error {
	name = Normal(name)
	if c.index.builtin[name] || c.seen[name] {
		return nil
	}
	m, ok := c.index.modules[name]
	switch {
	case !ok && c.index.dir == "":
		return nil
	case !ok:
		return &MissingError{Name: name, NeededBy: neededBy}
	}
	c.seen[name] = true
	if err := c.addSoft(m.pre, name); err != nil {
		return err
	}
	for _, dep := range m.deps {
		if err := c.add(dep, name); err != nil {
			return err
		}
	}
	c.paths = append(c.paths, c.index.file(m))
	return c.addSoft(m.post, name)
}

// addSoft follows soft dependencies. The crypto modules have several providers
// of one algorithm; the portable one works on every processor, so it alone is
// taken. For ext4 that is crc32c, which crc32c_generic provides. Where a name is that of
// an algorithm and of a library too (crc32, of f2fs), the algorithm is meant: it is what
// the kernel would ask modprobe for, which a guest does not have.
func (c *closure) addSoft(names []string, neededBy string) error {
	for _, name := range names {
		provider := c.index.provider("crypto-" + name)
		if provider == "" {
			provider = c.index.provider(name)
		}
		if provider != "" {
			if err := c.add(provider, neededBy); err != nil {
				return err
			}
		}
	}
	return nil
}

// provider returns the module behind a name or alias; "" if there is none, or
// if it is built in.
func (x *Index) provider(name string) string {
	if x.Has(name) {
		return Normal(name)
	}
	candidates := x.aliases[name]
	for _, c := range candidates {
		if x.builtin[c] {
			return ""
		}
	}
	for _, c := range candidates {
		if strings.HasSuffix(c, "_generic") {
			return c
		}
	}
	if len(candidates) > 0 {
		return candidates[0]
	}
	return ""
}

func (x *Index) readBuiltin() error {
	err := readLines(filepath.Join(x.dir, "modules.builtin"), func(line string) error {
		x.builtin[Normal(line)] = true
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readDepmod reads depmod's text files.
func (x *Index) readDepmod() error {
	if err := readLines(filepath.Join(x.dir, "modules.dep"), x.parseDep); err != nil {
		return err
	}
	for name, parse := range map[string]func(string) error{
		"modules.softdep": x.parseSoftdep,
		"modules.alias":   x.parseAlias,
	} {
		err := readLines(filepath.Join(x.dir, name), parse)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// parseDep reads "PATH: PATH PATH …".
func (x *Index) parseDep(line string) error {
	file, deps, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("line %q has no colon: run depmod again", line)
	}
	if !filepath.IsLocal(file) {
		return fmt.Errorf("%s leads out of the folder", file)
	}
	m := module{path: file}
	for _, dep := range strings.Fields(deps) {
		m.deps = append(m.deps, Normal(dep))
	}
	return x.put(Normal(file), m)
}

// parseSoftdep reads "softdep NAME pre: A B post: C".
func (x *Index) parseSoftdep(line string) error {
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "softdep" {
		return nil
	}
	name := Normal(words[1])
	if m, ok := x.modules[name]; ok {
		m.addSoftdep(words[2:])
		x.modules[name] = m
	}
	return nil
}

// parseAlias reads "alias PATTERN NAME". Aliases with wildcards stand for
// devices, which nobody asks for here.
func (x *Index) parseAlias(line string) error {
	words := strings.Fields(line)
	if len(words) == 3 && words[0] == "alias" {
		x.addAlias(words[1], Normal(words[2]))
	}
	return nil
}

func (x *Index) addAlias(alias, name string) {
	if !strings.ContainsAny(alias, "*?[") && !slices.Contains(x.aliases[alias], name) {
		x.aliases[alias] = append(x.aliases[alias], name)
	}
}

func (x *Index) put(name string, m module) error {
	if len(x.modules) >= MaxModules {
		return fmt.Errorf("more than %d modules", MaxModules)
	}
	x.modules[name] = m
	return nil
}

// addSoftdep takes "pre: A B post: C" as words. Words before the first mark
// count as pre, as for modprobe.
func (m *module) addSoftdep(words []string) {
	list := &m.pre
	for _, w := range words {
		switch w {
		case "pre:":
			list = &m.pre
		case "post:":
			list = &m.post
		default:
			*list = append(*list, w)
		}
	}
}

func readLines(path string, each func(line string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := each(line); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
