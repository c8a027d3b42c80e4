package modules

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"powercut/guest/buildid"
	"powercut/images/regular"
)

// MaxFile bounds one module, decompressed, in bytes. One with debug information
// may well have some 100 MiB.
const MaxFile = 512 << 20

// Info is what a module says of itself: its .modinfo section, which modinfo(8)
// shows, and its build ID.
type Info struct {
	Name     string   // "ext4"; "" in modules older than Linux 4.12
	Depends  []string // modules that it needs
	Softdeps []string // in the form "pre: A B post: C"
	Aliases  []string
	Vermagic string // "6.1.0-57-amd64 SMP preempt mod_unload modversions"
	BuildID  string // the linker's hash of the module, in hexadecimal; "" where it has none
}

// Release returns the kernel release that the module was built for.
func (i Info) Release() string {
	release, _, _ := strings.Cut(i.Vermagic, " ")
	return release
}

// NameIn returns the name that the module has in the kernel; file is where it is.
func (i Info) NameIn(file string) string {
	if i.Name != "" {
		return i.Name
	}
	return Normal(file)
}

// ErrNotModule says that a file is not what the guest's kernel could load.
var ErrNotModule = errors.New("it is no kernel module: give the FILE.ko that the kernel's build makes, an ELF object for x86-64, as it is or compressed (.ko.xz, .ko.zst, .ko.gz)")

// Load reads a module and decompresses it as the ending of its name asks.
func Load(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	data, err := load(path, f)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", path, err)
	}
	return data, nil
}

func load(path string, f io.Reader) ([]byte, error) {
	r, err := Decompress(path, f)
	if err != nil {
		return nil, fmt.Errorf("decompress it: %w: %w", err, ErrNotModule)
	}
	defer r.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("decompress it: %w: %w", err, ErrNotModule)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("over %d bytes", MaxFile)
	}
	return data, nil
}

// Plain returns a module's file name without the ending of a compression.
func Plain(path string) string {
	for _, ending := range []string{".xz", ".zst", ".gz"} {
		path = strings.TrimSuffix(path, ending)
	}
	return path
}

// Decompress returns a reader of the module in r, which is compressed as the
// ending of its name says.
func Decompress(name string, r io.Reader) (io.ReadCloser, error) {
	switch filepath.Ext(name) {
	case ".xz":
		x, err := xz.NewReader(r)
		return io.NopCloser(x), err
	case ".zst":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case ".gz":
		return gzip.NewReader(r)
	}
	return io.NopCloser(r), nil
}

// FileInfo is ReadInfo of a file that Load can read.
func FileInfo(path string) (Info, error) {
	data, err := Load(path)
	if err != nil {
		return Info{}, err
	}
	info, err := ReadInfo(data)
	if err != nil {
		return Info{}, fmt.Errorf("read module %s: %w", path, err)
	}
	return info, nil
}

// ReadInfo reads what a decompressed module says of itself.
func ReadInfo(data []byte) (Info, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	switch {
	case len(data) == 0:
		return Info{}, fmt.Errorf("the file is empty: %w", ErrNotModule)
	case err != nil && !bytes.HasPrefix(data, []byte(elf.ELFMAG)):
		return Info{}, ErrNotModule
	case err != nil:
		return Info{}, damaged(err)
	case f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 || f.Type != elf.ET_REL:
		return Info{}, fmt.Errorf("it is an ELF file of %v, %v and %v: %w", f.Class, f.Machine, f.Type, ErrNotModule)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return Info{}, fmt.Errorf("it has no section .modinfo: %w", ErrNotModule)
	}
	text, err := section.Data()
	if err != nil {
		return Info{}, damaged(err)
	}
	info := parseInfo(string(text))
	if note := f.Section(buildid.Section); note != nil {
		data, err := note.Data()
		if err != nil {
			return Info{}, damaged(err)
		}
		info.BuildID = buildid.Parse(data)
	}
	return info, nil
}

func damaged(err error) error {
	return fmt.Errorf("it is cut short or damaged (%w): %w", err, ErrNotModule)
}

// parseInfo reads "key=value" strings, each ended by a zero byte.
func parseInfo(text string) Info {
	var info Info
	for field := range strings.SplitSeq(text, "\x00") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "name":
			info.Name = Normal(value)
		case "depends":
			for dep := range strings.SplitSeq(value, ",") {
				if dep != "" {
					info.Depends = append(info.Depends, Normal(dep))
				}
			}
		case "softdep":
			info.Softdeps = append(info.Softdeps, value)
		case "alias":
			info.Aliases = append(info.Aliases, value)
		case "vermagic":
			info.Vermagic = strings.TrimSpace(value)
		}
	}
	return info
}

// scan reads the index from the modules themselves.
func (x *Index) scan() error {
	return filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || !IsModule(path) {
			return nil
		}
		rel, err := filepath.Rel(x.dir, path)
		if err != nil {
			return err
		}
		info, err := FileInfo(path)
		if err != nil {
			return err
		}
		return x.putInfo(rel, info)
	})
}

func (x *Index) putInfo(rel string, info Info) error {
	name := Normal(rel)
	for _, a := range info.Aliases {
		x.addAlias(a, name)
	}
	return x.put(name, info.module(rel))
}

// module is what the index keeps of a module in a file.
func (i Info) module(file string) module {
	m := module{path: file, deps: i.Depends}
	for _, s := range i.Softdeps {
		m.addSoftdep(strings.Fields(s))
	}
	return m
}

// Write leaves the index in the folder as depmod's text files, so that the next
// Open is quick. modules.dep names direct dependencies only, and modules.alias
// only aliases without wildcards; Open needs no more.
func (x *Index) Write() error {
	var dep, soft, alias strings.Builder
	for _, name := range sortedKeys(x.modules) {
		m := x.modules[name]
		dep.WriteString(m.path + ":")
		for _, d := range m.deps {
			if file, ok := x.modules[d]; ok {
				dep.WriteString(" " + file.path)
			} else if !x.builtin[d] {
				dep.WriteString(" " + d + ".ko") // known to be absent
			}
		}
		dep.WriteByte('\n')
		if len(m.pre)+len(m.post) > 0 {
			fmt.Fprintf(&soft, "softdep %s pre: %s post: %s\n", name, strings.Join(m.pre, " "), strings.Join(m.post, " "))
		}
	}
	for _, a := range sortedKeys(x.aliases) {
		for _, name := range x.aliases[a] {
			fmt.Fprintf(&alias, "alias %s %s\n", a, name)
		}
	}
	for name, text := range map[string]string{
		"modules.dep": dep.String(), "modules.softdep": soft.String(), "modules.alias": alias.String(),
	} {
		if err := os.WriteFile(filepath.Join(x.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
