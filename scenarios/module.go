package scenarios

import (
	"slices"
	"strings"

	"powercut/images/modules"
)

// Module is a kernel module of ours, see package images/modules.
type Module string

// checkModule refuses a module that cannot be built for the kernel, and one that
// nothing would use.
func (s Scenario) checkModule(d *decoder) error {
	if s.Guest.Module == "" {
		return nil
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
