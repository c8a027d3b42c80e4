// Command init is PID 1 of a guest that only tries what the initramfs brings.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := try(); err != nil {
		fmt.Println("guest: failed:", err)
	}
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) //nolint:errcheck // nothing is left to do
}

func try() error {
	if err := unix.Mount("dev", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	const folder = "/lib/modules"
	order, err := os.ReadFile(path.Join(folder, "order"))
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(order)) {
		if err := load(path.Join(folder, name)); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	fmt.Println("guest: loaded all modules")
	const disk = "/dev/sda"
	if err := waitFor(disk); err != nil {
		return err
	}
	out, err := exec.Command("/sbin/e2fsck", "-f", "-n", disk).CombinedOutput()
	if err != nil {
		return fmt.Errorf("e2fsck: %w: %s", err, out)
	}
	fmt.Println("guest: e2fsck says 0")
	if err := unix.Mount(disk, "/mnt", "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount disk: %w", err)
	}
	fmt.Println("guest: mounted")
	return unix.Unmount("/mnt", 0)
}

func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// waitFor waits for a disk that the kernel is still looking for.
func waitFor(path string) error {
	var err error
	for range 1000 {
		if _, err = os.Stat(path); err == nil {
			return nil
		}
		<-time.After(10 * time.Millisecond)
	}
	return err
}
