package kbuild

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"powercut/images/cache"
	"powercut/images/command"
	"powercut/images/modules"
)

const (
	moduleKind = "module"
	// layout changes when modules are built in another way, so that older entries
	// are not taken for new ones.
	layout = 1
	// keepModules is the number of entries that stay in the cache.
	keepModules = 16
	// makeTimeout bounds the build of one module: about 70 seconds for ext4 on a
	// processor of its own, several times that on a busy one.
	makeTimeout = 30 * time.Minute
)

// Stages is told what is being done, in a few words, as it begins.
type Stages func(text string)

// Build returns the module file of a variant for the kernel t. The first call
// builds it, and with it the other variants of the same module; later ones take it
// from the cache.
func Build(ctx context.Context, t Target, v modules.Variant, stages Stages) (string, error) {
	file, err := t.build(ctx, v, stages)
	if err != nil {
		return "", fmt.Errorf("build module %s for kernel %s: %w", v.Name, t.Release, err)
	}
	return file, nil
}

func (t Target) build(ctx context.Context, v modules.Variant, stages Stages) (string, error) {
	c, err := openCache()
	if err != nil {
		return "", err
	}
	cc, err := findCompiler(ctx, t.Compiler)
	if err != nil {
		return "", err
	}
	key, err := t.key(v, cc)
	if err != nil {
		return "", err
	}
	dir, err := c.Entry(ctx, moduleKind, key, func(ctx context.Context, dir string) error {
		if err := CheckTools(); err != nil {
			return err
		}
		stages("building the module " + v.Module + ", once")
		kit, err := t.kit(ctx, c)
		if err != nil {
			return err
		}
		return t.buildAll(ctx, kit, dir, cc, v.Siblings())
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, v.Name+".ko"), c.Prune(ctx, moduleKind, keepModules, key)
}

// openCache is the cache, which compares the hashes of what it hands out: the entries are
// small, and a module with a flipped bit might well be loaded, and do something else.
func openCache() (*cache.Cache, error) {
	c, err := cache.Default()
	if err == nil {
		c.Verify = true
	}
	return c, err
}

// Unpack makes the folder dir with what modules for t are built from: below source/ the
// parts of the kernel's source that variants change, and the headers, whose folder it
// returns, for make -C. The folder appears once all is there.
func Unpack(ctx context.Context, t Target, dir string) (headers string, err error) {
	c, err := openCache()
	if err != nil {
		return "", err
	}
	kit, err := t.kit(ctx, c)
	if err != nil {
		return "", err
	}
	return t.unpack(ctx, kit, dir)
}

func (t Target) unpack(ctx context.Context, kit, dir string) (headers string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*")
	if err != nil {
		return "", err
	}
	w := workshop{dir: dir, release: t.Release}
	err = w.fill(ctx, kit, tmp)
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	return w.headers(), nil
}

// key names everything that the modules of one entry depend on.
func (t Target) key(v modules.Variant, cc compiler) (string, error) {
	h := xxhash.New()
	for _, s := range v.Siblings() {
		files, err := s.Files()
		if err != nil {
			return "", err
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(h, "%s %s %d\n%s", s.Name, name, len(files[name]), files[name])
		}
	}
	return fmt.Sprintf("%s %s %s layout=%d %s sources=%016x", v.Module, t.Release, t.Version, layout, cc.version, h.Sum64()), nil
}

// compiler is a C compiler of the host.
type compiler struct{ path, version string }

// findCompiler looks for the kernel's own compiler, and takes gcc where the host
// has another one: the kernel allows that, if this one knows the options that the
// kernel was configured with. An older one does not.
func findCompiler(ctx context.Context, own string) (compiler, error) {
	for _, name := range []string{own, "gcc"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := command.Command{Path: path, Args: []string{"--version"}}.Output(ctx)
		if err != nil {
			return compiler{}, err
		}
		line, _, _ := strings.Cut(version, "\n")
		if wants, has := majorOf(compilerName, own), majorOf(compilerLine, line); name != own && has > 0 && has < wants {
			return compiler{}, fmt.Errorf("the kernel was built with %s, and the host has an older one, %s: install the package gcc-%d", own, line, wants)
		}
		return compiler{path, line}, nil
	}
	return compiler{}, missing("gcc")
}

// compilerName and compilerLine find a compiler's major version: in its name,
// "x86_64-linux-gnu-gcc-14", and in the first line of what it says of itself, "gcc (Debian
// 12.2.0-14) 12.2.0".
var (
	compilerName = regexp.MustCompile(`-([0-9]+)$`)
	compilerLine = regexp.MustCompile(` ([0-9]+)\.[0-9.]+(?: [0-9]+)?$`)
)

// majorOf is 0 where none is found.
func majorOf(form *regexp.Regexp, text string) int {
	m := form.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// Tool is a program of the host that builds modules.
type Tool struct{ Name, Package string }

// Tools lists them all, with the Debian packages that bring them.
func Tools() []Tool {
	return []Tool{{"gcc", "gcc"}, {"make", "make"}, {"patch", "patch"}, {"strip", "binutils"}, {"tar", "tar"}, {"xz", "xz-utils"}}
}

// CheckTools says which of them is missing, before a long download.
func CheckTools() error {
	for _, t := range Tools() {
		if _, err := exec.LookPath(t.Name); err != nil {
			return missing(t.Name)
		}
	}
	return nil
}

func missing(tool string) error {
	return fmt.Errorf("there is no %s: scripts/build-modules installs what builds modules", tool)
}

// buildAll leaves NAME.ko of each variant in dir.
func (t Target) buildAll(ctx context.Context, kit, dir string, cc compiler, variants []modules.Variant) error {
	w := workshop{dir: filepath.Join(dir, "work"), release: t.Release, cc: cc.path}
	if err := w.fill(ctx, kit, w.dir); err != nil {
		return err
	}
	for _, v := range variants {
		if err := w.build(ctx, v, filepath.Join(dir, v.Name+".ko")); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return os.RemoveAll(w.dir)
}

// workshop is a folder in which modules of one kernel are built, one after the
// other: what two of them have in common is compiled once.
type workshop struct {
	dir     string // as an absolute path without spaces and colons, which make cannot bear
	release string
	cc      string
}

func (w workshop) source() string { return filepath.Join(w.dir, sourceFolder) }

func (w workshop) headers() string {
	return filepath.Join(w.dir, "usr/src/linux-headers-"+w.release)
}

// CheckFolder says why modules cannot be built in a folder.
func CheckFolder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil && strings.ContainsAny(dir, " :") {
		err = fmt.Errorf("%s has a space or a colon in its name, with which the kernel's build system cannot work", dir)
	}
	return err
}

// fill puts into a folder what the workshop has, once that is called w.dir.
func (w workshop) fill(ctx context.Context, kit, folder string) error {
	if err := CheckFolder(w.dir); err != nil {
		return fmt.Errorf("%w: set %s to another folder", err, cache.Variable)
	}
	debs, err := filepath.Glob(filepath.Join(kit, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := unpack(ctx, deb, folder); err != nil {
			return err
		}
	}
	at := workshop{dir: folder, release: w.release}
	if err := os.CopyFS(at.source(), os.DirFS(filepath.Join(kit, sourceFolder))); err != nil {
		return err
	}
	return at.moveHeaders(w.dir)
}

// moveHeaders tells the headers in which folder they will be. Their makefile consists of one
// line, which names the place where the package would have been installed.
func (w workshop) moveHeaders(to string) error {
	const installed = "/usr/src/"
	path := filepath.Join(w.headers(), "Makefile")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	moved := strings.ReplaceAll(string(text), installed, filepath.Join(to, installed)+"/")
	return os.WriteFile(path, []byte(moved), 0o644)
}

// build makes one module, without debug information, and leaves the source as it
// was.
func (w workshop) build(ctx context.Context, v modules.Variant, target string) error {
	files, err := v.Files()
	if err != nil {
		return err
	}
	ours := filepath.Join(w.source(), v.Name)
	if err := os.MkdirAll(ours, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(ours, name), text, 0o644); err != nil {
			return err
		}
	}
	if v.Folder == "" {
		return w.make(ctx, ours, v.Module, target)
	}
	patch := filepath.Join(ours, v.Name+".patch")
	if err := w.patch(ctx, patch); err != nil {
		return fmt.Errorf("the kernel's source is not what the patch was made for: %w", err)
	}
	if err := w.make(ctx, filepath.Join(w.source(), v.Folder), v.Module, target); err != nil {
		return err
	}
	return w.patch(ctx, patch, "--reverse")
}

// patch applies a patch as it stands, or not at all: lines may have moved, but none
// that it names may differ.
func (w workshop) patch(ctx context.Context, file string, more ...string) error {
	args := append([]string{"--directory", w.source(), "--strip=1", "--fuzz=0", "--batch", "--no-backup-if-mismatch", "--input", file}, more...)
	if !slices.Contains(more, "--reverse") {
		args = append(args, "--forward")
	}
	return command.Command{Path: "patch", Args: args}.Run(ctx)
}

// make builds the module of a folder. It has the same bytes wherever that is.
func (w workshop) make(ctx context.Context, folder, module, target string) error {
	args := []string{
		"-C", w.headers(), fmt.Sprintf("-j%d", runtime.NumCPU()), "M=" + folder, "CC=" + w.cc,
		"CONFIG_DEBUG_INFO=", "CONFIG_DEBUG_INFO_BTF_MODULES=", "KCFLAGS=-ffile-prefix-map=" + w.dir + "/=", "modules",
	}
	err := command.Command{Path: "make", Args: args, Env: []string{"MAKEFLAGS=", "ARCH=", "CROSS_COMPILE="}, Timeout: makeTimeout}.Run(ctx)
	if err != nil {
		return err
	}
	strip := []string{"--strip-debug", "-o", target, filepath.Join(folder, module+".ko")}
	return command.Command{Path: "strip", Args: strip}.Run(ctx)
}
