package images

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// kernelConfig maps "CONFIG_X" to its value: "y", "m" or a literal. Options
// that are off are not in it.
type kernelConfig map[string]string

func parseConfig(text []byte) kernelConfig {
	config := kernelConfig{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "=")
		if ok && strings.HasPrefix(name, "CONFIG_") {
			config[name] = value
		}
	}
	return config
}

func readConfig(path string) (kernelConfig, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseConfig(text), nil
}

// findConfig looks for the configuration of a user's kernel: inside it, beside
// it as in /boot, in the build tree that a bzImage or vmlinux lies in, or
// behind the "build" link of its modules. nil means that there is none.
func findConfig(embedded []byte, image, modulesDir, release string) (kernelConfig, error) {
	if embedded != nil {
		return parseConfig(embedded), nil
	}
	dir := filepath.Dir(image)
	candidates := []string{filepath.Join(dir, "config-"+release)}
	switch filepath.Base(image) {
	case "vmlinux":
		candidates = append(candidates, filepath.Join(dir, ".config"))
	case "bzImage": // arch/x86/boot/bzImage
		candidates = append(candidates, filepath.Join(dir, "../../../.config"))
	}
	if modulesDir != "" {
		candidates = append(candidates, filepath.Join(modulesDir, "config"), filepath.Join(modulesDir, "build/.config"))
	}
	for _, path := range candidates {
		config, err := readConfig(path)
		if err == nil {
			return config, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("read kernel configuration: %w", err)
		}
	}
	return nil, nil
}

// Feature is something that a guest needs of its kernel.
type Feature struct {
	Name   string // as it is called in messages; "" means Module, or else Config
	Module string // module that provides it; "" if it can only be built in
	Config string // option that provides it, "CONFIG_ATA_PIIX"; "" if not known
}

// FeatureOf returns what is known about a module by its name: the option that
// builds it. An unknown name gives a feature without option. The options are
// those of the Makefiles of Linux 6.12.
func FeatureOf(module string) Feature {
	options := map[string]string{
		"ahci":           "CONFIG_SATA_AHCI",
		"ata_piix":       "CONFIG_ATA_PIIX",
		"bfq":            "CONFIG_IOSCHED_BFQ",
		"btrfs":          "CONFIG_BTRFS_FS",
		"ext2":           "CONFIG_EXT2_FS",
		"ext4":           "CONFIG_EXT4_FS",
		"f2fs":           "CONFIG_F2FS_FS",
		"jfs":            "CONFIG_JFS_FS",
		"kyber_iosched":  "CONFIG_MQ_IOSCHED_KYBER",
		"mq_deadline":    "CONFIG_MQ_IOSCHED_DEADLINE",
		"nilfs2":         "CONFIG_NILFS2_FS",
		"nvme":           "CONFIG_BLK_DEV_NVME",
		"sd_mod":         "CONFIG_BLK_DEV_SD",
		"virtio_blk":     "CONFIG_VIRTIO_BLK",
		"virtio_console": "CONFIG_VIRTIO_CONSOLE",
		"virtio_pci":     "CONFIG_VIRTIO_PCI",
		"virtio_scsi":    "CONFIG_SCSI_VIRTIO",
		"xfs":            "CONFIG_XFS_FS",
	}
	return Feature{Module: module, Config: options[strings.ReplaceAll(module, "-", "_")]}
}

// DevMem is the access to physical memory that the ledger uses.
func DevMem() Feature { return Feature{Name: "/dev/mem", Config: "CONFIG_DEVMEM"} }

// String names the feature, and the option that would bring it.
func (f Feature) String() string {
	name := f.Name
	if name == "" {
		name = f.Module
	}
	switch {
	case name == "":
		return f.Config
	case f.Config == "":
		return name
	}
	return fmt.Sprintf("%s (%s)", name, f.Config)
}

// Missing returns those of features that the kernel has neither built in nor as
// a module, each as "ata_piix (CONFIG_ATA_PIIX)". Where the kernel does not
// reveal its configuration, a feature that is no module counts as there.
func (k Kernel) Missing(features ...Feature) []string {
	var missing []string
	for _, f := range features {
		if !k.has(f) {
			missing = append(missing, f.String())
		}
	}
	return missing
}

func (k Kernel) has(f Feature) bool {
	if f.Module != "" && k.index.Has(f.Module) {
		return true
	}
	if k.config != nil && f.Config != "" {
		value := k.config[f.Config]
		return value == "y" || value == "m" && f.Module == ""
	}
	// Without a configuration, a kernel without modules may have all built in.
	return f.Module == "" || k.Modules == ""
}
