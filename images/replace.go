package images

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"powercut/images/kbuild"
	"powercut/images/modules"
)

// Replacement is a module that a guest loads in place of the kernel's own, or that
// the kernel does not have.
type Replacement struct {
	Module  string // its name: "ext4"
	Variant string // which of ours it is: "ext4-2.4-fsync"; "" for one of the user's
	Path    string // of the file; absolute
	BuildID string // what tells it from others of its name, see guest/buildid
	Added   bool   // the kernel has no such module, as far as is known
}

// MisfitError says that a module cannot be used with a kernel.
type MisfitError struct {
	Module string // file or variant
	Kernel string // release
	Reason string // with what is allowed
}

func (e *MisfitError) Error() string {
	return fmt.Sprintf("module %s does not fit kernel %s: %s", e.Module, e.Kernel, e.Reason)
}

// UnusedError says that a guest would not load the module that one of the user's is in
// place of.
type UnusedError struct {
	Module string
	Path   string
	Loads  []string // modules that it loads
}

func (e *UnusedError) Error() string {
	loads := "none: leave it out"
	if len(e.Loads) > 0 {
		loads = strings.Join(e.Loads, ", ") + "; give one of these"
	}
	return fmt.Sprintf("module %s would not be used, and a run would say nothing about it: guests of this scenario do not need %s, and load %s, or choose a scenario that needs %s",
		e.Path, e.Module, loads, e.Module)
}

// CheckUsed demands that a guest, which needs the modules called names, loads all those
// that are in place of the kernel's own. Those in addition it loads because they are given.
func (k Kernel) CheckUsed(names []string) error {
	names = slices.Clone(names)
	for _, r := range k.Replaced {
		if r.Added {
			names = append(names, r.Module)
		}
	}
	paths, err := k.index.Closure(names...)
	if err != nil {
		return fmt.Errorf("kernel %s has %w", k.Release, err)
	}
	for _, r := range k.Replaced {
		if r.Added || slices.Contains(paths, r.Path) {
			continue
		}
		var loads []string
		for _, path := range paths {
			loads = append(loads, modules.Normal(path))
		}
		return &UnusedError{r.Module, r.Path, loads}
	}
	return nil
}

// WithVariant returns the kernel with a module of ours, which package modules
// lists. The first call builds it; stages is told so.
func (k Kernel) WithVariant(ctx context.Context, name string, stages func(text string)) (Kernel, error) {
	v, err := modules.FindVariant(name)
	if err != nil {
		return Kernel{}, err
	}
	target, err := k.target(v.Name)
	if err != nil {
		return Kernel{}, err
	}
	if err := k.fits(v); err != nil {
		return Kernel{}, err
	}
	if err := k.mayReplace(v.Module, v.Name); err != nil {
		return Kernel{}, err
	}
	file, err := kbuild.Build(ctx, target, v, stages)
	if err != nil {
		return Kernel{}, err
	}
	return k.replace(file, v.Name)
}

// fits demands that the variant was made for kernels of this series.
func (k Kernel) fits(v modules.Variant) error {
	if v.Series == "" || strings.HasPrefix(k.Release, v.Series+".") {
		return nil
	}
	return &MisfitError{v.Name, k.Release, fmt.Sprintf("it is a patch of Linux %s: use debian:%s, or change %s in the source of "+
		"this kernel, which 'powercut modules source' unpacks, and give the file with --module", v.Series, v.Series, v.Module)}
}

// ModuleSource fills dir, which is made, with what modules of the kernel are built
// from: its headers and build scripts, and below source/ the folders of its source
// that modules of ours change. It returns the folder for make -C. The kernel is one
// of Debian that is named.
func (k Kernel) ModuleSource(ctx context.Context, dir string) (headers string, err error) {
	target, err := k.target("source")
	if err != nil {
		return "", err
	}
	return kbuild.Unpack(ctx, target, dir)
}

// target is the kernel as package kbuild wants it.
func (k Kernel) target(module string) (kbuild.Target, error) {
	if k.suite == "" {
		return kbuild.Target{}, &MisfitError{module, k.Release, "such modules are built for kernels of Debian that are named (" +
			strings.Join(Specs(), ", ") + "); build it yourself for a kernel of your own, and give the file with --module"}
	}
	_, version, _ := strings.Cut(k.Package, " ")
	compiler, _, _ := strings.Cut(strings.Trim(k.config["CONFIG_CC_VERSION_TEXT"], `"`), " ")
	return kbuild.Target{Release: k.Release, Version: version, Suite: k.suite, Compiler: compiler}, nil
}

// WithModule returns the kernel with a module of the user's, a file that
// modules.Load can read.
func (k Kernel) WithModule(file string) (Kernel, error) {
	return k.replace(file, "")
}

func (k Kernel) replace(file, variant string) (Kernel, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return Kernel{}, err
	}
	info, err := modules.FileInfo(file)
	if err != nil {
		return Kernel{}, err
	}
	r := Replacement{Module: info.NameIn(file), Variant: variant, Path: file, BuildID: info.BuildID}
	if err := errors.Join(k.mayReplace(r.Module, file), k.accepts(r, info)); err != nil {
		return Kernel{}, err
	}
	// A kernel of one's own may be given without the folder of its modules: then it is
	// known by their names alone that Linux has them.
	r.Added = k.index.Path(r.Module) == "" && FeatureOf(r.Module).Config == ""
	k.Replaced = append(slices.Clone(k.Replaced), r)
	k.index, err = k.index.Replace(r.Module, file, info)
	return k, err
}

// mayReplace demands that a module of that name can be loaded at all.
func (k Kernel) mayReplace(module, file string) error {
	option := FeatureOf(module).Config
	switch {
	case slices.ContainsFunc(k.Replaced, func(r Replacement) bool { return r.Module == module }):
		return &MisfitError{file, k.Release, "another " + module + " is given already"}
	case k.index.Builtin(module) && option != "", option != "" && k.config[option] == "y":
		return &MisfitError{file, k.Release, module + " is part of the kernel itself, and cannot be replaced: build the kernel with " + option + "=m"}
	case k.index.Builtin(module):
		return &MisfitError{file, k.Release, module + " is part of the kernel itself, and cannot be replaced"}
	}
	return nil
}

// accepts demands that the kernel will load the module: it was built for this
// release, and with the same switches (vermagic) as the one in whose place it is.
func (k Kernel) accepts(r Replacement, info modules.Info) error {
	if r.BuildID == "" {
		return &MisfitError{r.Path, k.Release, "it has no build ID, so that a guest could not prove that it has loaded this very module: link it with --build-id, as the kernel's build does"}
	}
	if info.Release() != k.Release {
		return &MisfitError{r.Path, k.Release, fmt.Sprintf("it was built for release %s: build it against this kernel", info.Release())}
	}
	own := k.index.Path(r.Module)
	if own == "" {
		return nil
	}
	stock, err := modules.FileInfo(own)
	if err != nil {
		return err
	}
	if stock.Vermagic != info.Vermagic {
		return &MisfitError{r.Path, k.Release, fmt.Sprintf("its vermagic is %q, and that of the kernel's own %s is %q: build it with the configuration of this kernel", info.Vermagic, r.Module, stock.Vermagic)}
	}
	return nil
}
