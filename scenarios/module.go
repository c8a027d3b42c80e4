package scenarios

import "strings"

// Module is a kernel module of ours, see package images/modules.
type Module string

// checkModule refuses what can be built for kernels of Debian alone.
func (s Scenario) checkModule(d *decoder) error {
	if s.Guest.Module != "" && strings.Contains(s.Kernel, "/") {
		return d.at("guest.module").errorf("guest.module: %s is built for kernels of Debian, and kernel is the path of another; give a module built for it with --module", s.Guest.Module)
	}
	return nil
}
