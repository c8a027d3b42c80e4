package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"powercut/harness/doctor"
)

type doctorCommand struct {
	JSON bool   `name:"json" help:"Print one JSON document in place of the table."`
	Runs string `help:"Where run folders are to go." default:"runs" placeholder:"DIR" makes:"folder"`
	QEMU string `name:"qemu" help:"The QEMU binary." placeholder:"PATH"`
}

// Help says what the exit code means.
func (*doctorCommand) Help() string {
	return "Exits with 0 where everything that powercut needs is there, else with 125. " +
		"It changes nothing and starts no guest."
}

// errNotReady ends the command where something is missing; it has said so.
var errNotReady = errors.New("this machine is not ready")

// Run looks at this machine.
func (c *doctorCommand) Run(ctx context.Context, s Streams) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find powercut itself: %w", err)
	}
	d := doctor.Examine(ctx, doctor.Options{Binary: binary, QEMU: c.QEMU, Runs: c.Runs})
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.JSON {
		err = doctor.JSON(s.Out, d)
	} else {
		err = doctor.Table(s.Out, d)
	}
	if err == nil && !d.Ready {
		return errNotReady
	}
	return err
}
