package scenarios

import (
	"fmt"
	"slices"
	"strings"

	"powercut/guest/workload"
	"powercut/images/modules"
)

// Module is a kernel module of ours, see package images/modules.
type Module string

// checkModule refuses a module that cannot be built for the kernel, one that nothing would
// use, and a call that needs another one.
func (s Scenario) checkModule(d *decoder) error {
	if err := s.checkCalls(d); err != nil || s.Guest.Module == "" {
		return err
	}
	if strings.Contains(s.Kernel, "/") {
		return d.at("guest.module").errorf("guest.module: %s is built for kernels of Debian, and kernel is the path of another; give a module built for it with --module", s.Guest.Module)
	}
	used := []FilesystemType{Ext2, Ext3, Ext4} // by the module ext4, and that uses jbd2
	v, err := modules.FindVariant(string(s.Guest.Module))
	if err == nil && v.Folder != "" && !slices.Contains(used, s.Filesystem.Type) {
		return d.at("guest.module").errorf("guest.module: %s changes %s, which %s does not use; allowed with it: %s", v.Name, v.Module, s.Filesystem.Type, strings.Join(words(used...), ", "))
	}
	return nil
}

// checkCalls refuses a call that needs a module which guests are not given. A kernel of the
// user's own may have anything.
func (s Scenario) checkCalls(d *decoder) error {
	const module = "fsync_range"
	if !d.alone || s.Guest.Module == module || strings.Contains(s.Kernel, "/") {
		return nil
	}
	for i, call := range s.Workload.Calls {
		if call == workload.FsyncRangeFile || call == workload.FsyncRangeData {
			return d.at(fmt.Sprintf("workload.calls.%d", i)).errorf("workload.calls: %s is no system call of Linux, and needs a module: add guest.module: %s, or give one that brings it with --module; msync and io_uring-fsync sync a range as well", call, module)
		}
	}
	return nil
}
