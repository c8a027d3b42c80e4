package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"powercut/harness/qemu"
	"powercut/images"
)

// The configuration fragment that the documentation gives has all that any guest
// needs of its kernel.
func TestMinimalConfig(t *testing.T) {
	fragment, err := os.ReadFile(filepath.Join("..", "..", "images", "minimal.config"))
	if err != nil {
		t.Fatal(err)
	}
	want := []images.Feature{images.DevMem(), {Config: "CONFIG_PVH"}, {Config: "CONFIG_IKCONFIG"}}
	for _, bus := range []qemu.Bus{qemu.IDE, qemu.AHCI, qemu.SCSI, qemu.VirtioBlk, qemu.NVMe} {
		for _, fs := range images.Formats() {
			want = append(want, Spec{Bus: bus, Modules: []string{images.Module(fs)}}.features()...)
		}
	}
	for _, f := range want {
		if f.Config == "" || !strings.Contains(string(fragment), "\n"+f.Config+"=y\n") {
			t.Errorf("images/minimal.config has no %s", f)
		}
	}
}
