package cli

import (
	"fmt"
	"os"
	"runtime"

	"powercut/harness/campaign"
)

// workFlags are those of commands that put many guests of a scenario to work.
type workFlags struct {
	Jobs    int      `help:"Guests at work at the same time. Default: one for each processor." needs:"run" positive:"" placeholder:"N"`
	JSON    bool     `name:"json" help:"Print one JSON document in place of the text." needs:"run"`
	Set     []string `help:"Override a value of the scenario. May be repeated." placeholder:"a.b=value" sep:"none"`
	Kernel  string   `predictor:"kernel" help:"A kernel, in place of the scenario's: debian:VERSION, or a bzImage or vmlinux of one's own." placeholder:"KERNEL"`
	Modules string   `help:"The modules of one's own kernel: a lib/modules/RELEASE folder." placeholder:"DIR" type:"existingdir"`
	Runs    string   `help:"Where run folders go." default:"runs" needs:"run" placeholder:"DIR" makes:"folder"`
	QEMU    string   `name:"qemu" help:"The QEMU binary." needs:"run" placeholder:"PATH"`
}

// lab is where the guests work. Of Kernel it has what scenarios cannot say: see
// runCommand.scenarios.
func (f workFlags) lab(p campaign.Progress) (*campaign.Lab, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find powercut itself: %w", err)
	}
	return &campaign.Lab{Runs: f.Runs, Binary: binary, QEMU: f.QEMU, Kernel: f.Kernel, Modules: f.Modules, Progress: p}, nil
}

// jobs is how many guests work at the same time.
func (f workFlags) jobs() int {
	if f.Jobs > 0 {
		return f.Jobs
	}
	return runtime.NumCPU()
}
