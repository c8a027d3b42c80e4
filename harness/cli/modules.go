package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"powercut/images"
	"powercut/images/kbuild"
	"powercut/images/modules"
)

// modulesCommand is about kernel modules of ours, which guest.module names.
type modulesCommand struct {
	List   modulesList   `cmd:"" default:"1" help:"List the modules that guest.module may name."`
	Build  modulesBuild  `cmd:"" help:"Build modules, and keep them in the cache. A run builds what it needs by itself."`
	Source modulesSource `cmd:"" help:"Unpack what modules of one's own are built from: a kernel's headers, and its source of ext4 and jbd2."`
}

type modulesList struct{}

// Run lists the modules.
func (modulesList) Run(s Streams) error {
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, v := range modules.Variants() {
		place := "in place of " + v.Module
		if v.Folder == "" {
			place = "in addition"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.Name, place, v.About)
	}
	return t.Flush()
}

type modulesBuild struct {
	Names  []string `arg:"" optional:"" name:"module" help:"Which; all by default."`
	Kernel string   `help:"The kernel: debian:VERSION." predictor:"kernel" default:"debian:6.1" placeholder:"KERNEL"`
}

// Run builds the modules.
func (c *modulesBuild) Run(ctx context.Context, s Streams) error {
	if len(c.Names) == 0 {
		c.Names = modules.VariantNames()
	}
	for _, name := range c.Names {
		if _, err := modules.FindVariant(name); err != nil {
			return &usageError{err}
		}
	}
	if err := checkNamed(c.Kernel); err != nil {
		return err
	}
	k, err := images.Fetch(ctx, c.Kernel)
	if err != nil {
		return err
	}
	stages := func(text string) { fmt.Fprintln(s.Err, text) }
	slices.Sort(c.Names)
	for _, name := range slices.Compact(c.Names) {
		with, err := k.WithVariant(ctx, name, stages)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.Out, "%s  %s\n", name, with.Replaced[0].Path); err != nil {
			return err
		}
	}
	return nil
}

type modulesSource struct {
	Dir    string `arg:"" help:"A folder, which is made."`
	Kernel string `predictor:"kernel" help:"The kernel: debian:VERSION." default:"debian:6.1" placeholder:"KERNEL"`
}

// Help says how to go on.
func (*modulesSource) Help() string {
	return "It prints the folder of the headers, which is for make: make -C HEADERS M=$PWD CC=gcc modules, and then powercut run --module FILE.ko."
}

// Run unpacks.
func (c *modulesSource) Run(ctx context.Context, s Streams) error {
	if err := checkNamed(c.Kernel); err != nil {
		return err
	}
	if _, err := os.Lstat(c.Dir); err == nil {
		return &usageError{fmt.Errorf("%s is there already: give the name of a new folder", c.Dir)}
	}
	if wrong := cannotMake("new", c.Dir); wrong != "" {
		return &usageError{fmt.Errorf("%s: %s", c.Dir, wrong)}
	}
	if err := kbuild.CheckFolder(c.Dir); err != nil {
		return &usageError{fmt.Errorf("%w: give the name of another one", err)}
	}
	k, err := images.Fetch(ctx, c.Kernel)
	if err != nil {
		return err
	}
	headers, err := k.ModuleSource(ctx, c.Dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, headers)
	return err
}

// checkNamed demands a kernel whose headers and source Debian has.
func checkNamed(kernel string) error {
	if err := images.CheckSpec(kernel); err != nil {
		return &usageError{fmt.Errorf("%w; for a kernel of your own build the module in its tree, and give the file with powercut run --module", err)}
	}
	return nil
}

// checkModules says what is wrong with the files of --module.
func checkModules(files []string) error {
	for _, file := range files {
		if _, err := modules.FileInfo(file); err != nil {
			return &usageError{fmt.Errorf("--module %w", err)}
		}
	}
	return nil
}
