package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"powercut/images"
)

// kernelsCommand is about the kernels that come by name.
type kernelsCommand struct {
	List   kernelsList   `cmd:"" default:"1" help:"List the kernels that come by name, and what the cache has of each."`
	Fetch  kernelsFetch  `cmd:"" help:"Fetch kernels into the cache, where they are not there. A run fetches what it needs by itself."`
	Verify kernelsVerify `cmd:"" help:"Compare every file of the kernels in the cache with what was fetched."`
	Prune  kernelsPrune  `cmd:"" help:"Take kernels out of the cache: those that are named, or else those that are damaged or that no run has used for long."`
}

// kernelNames are the kernels that a command is about.
type kernelNames struct {
	Names []string `arg:"" predictor:"kernel" optional:"" name:"kernel" help:"Which, such as debian:6.1; all by default."`
}

// specs checks the names; without any all are meant.
func (n kernelNames) specs() ([]string, error) {
	if len(n.Names) == 0 {
		return images.Specs(), nil
	}
	for _, name := range n.Names {
		if err := images.CheckSpec(name); err != nil {
			return nil, &usageError{err}
		}
	}
	return n.Names, nil
}

type kernelsList struct{}

// Run lists the kernels.
func (kernelsList) Run(s Streams) error {
	list, err := images.Kernels()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kernel\tsuite\trelease\tpackage\tMiB\tused")
	for _, k := range list {
		if k.Dir == "" {
			state := "not fetched"
			if k.Damaged {
				state = "damaged"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", k.Spec, k.Suite, state)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n", k.Spec, k.Suite, k.Release, k.Package, k.Bytes>>20, k.Used.Format(time.DateOnly))
	}
	return t.Flush()
}

type kernelsFetch struct{ kernelNames }

// Run fetches kernels.
func (c *kernelsFetch) Run(ctx context.Context, s Streams) error {
	specs, err := c.specs()
	if err != nil {
		return err
	}
	for _, spec := range specs {
		k, err := images.Fetch(ctx, spec)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.Out, "%s  %s  %s\n", spec, k.Release, k.Package); err != nil {
			return err
		}
	}
	return nil
}

type kernelsVerify struct{ kernelNames }

// Run verifies kernels. One that is damaged is fetched again by the next run that
// notices; what is named and not there is an error.
func (c *kernelsVerify) Run(s Streams) error {
	specs, err := c.specs()
	if err != nil {
		return err
	}
	var damaged []error
	for _, spec := range specs {
		err := images.VerifyKernel(spec)
		absent := errors.Is(err, images.ErrNoKernel)
		if absent && len(c.Names) == 0 {
			continue
		}
		state := "whole"
		if absent {
			state = "not fetched"
		} else if err != nil {
			state = "damaged"
		}
		fmt.Fprintf(s.Out, "%s  %s\n", spec, state)
		if err != nil {
			damaged = append(damaged, err)
		}
	}
	if len(damaged) > 0 {
		return fmt.Errorf("%w\n  to mend it: powercut kernels prune KERNEL, then powercut kernels fetch KERNEL", errors.Join(damaged...))
	}
	return nil
}

type kernelsPrune struct {
	Names  []string      `arg:"" predictor:"kernel" optional:"" name:"kernel" help:"Which, such as debian:6.1."`
	Unused time.Duration `help:"Without names, those that have not been used for so long." default:"720h" placeholder:"TIME"`
}

// Run removes kernels.
func (c *kernelsPrune) Run(ctx context.Context, s Streams) error {
	specs := c.Names
	for _, name := range specs {
		if err := images.CheckSpec(name); err != nil {
			return &usageError{err}
		}
	}
	if len(specs) == 0 {
		list, err := images.Kernels()
		if err != nil {
			return err
		}
		for _, k := range list {
			if k.Damaged || k.Dir != "" && time.Since(k.Used) > c.Unused {
				specs = append(specs, k.Spec)
			}
		}
	}
	for _, spec := range specs {
		if err := images.RemoveKernel(ctx, spec); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.Out, "%s  removed\n", spec); err != nil {
			return err
		}
	}
	return nil
}
