// Command init is PID 1 of the guests that package qemu's tests boot. It loads
// the modules in /lib/modules in the order of /lib/modules/order, opens the control
// port and answers one line with one line.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ledgerBase = 0x0B000000
	ledgerSize = 1 << 20
)

func main() {
	if err := run(); err != nil {
		fmt.Println("init:", err)
	}
	// PID 1 must not return by accident: the kernel panics then.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	mounts := []struct{ fs, dir string }{{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}}
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.fs, m.dir, m.fs, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	fmt.Println("init: ready")
	if _, err := fmt.Fprintln(port, "ready"); err != nil {
		return err
	}
	return serve(port)
}

func loadModules() error {
	order, err := os.ReadFile("/lib/modules/order")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(order)) {
		f, err := os.Open(filepath.Join("/lib/modules", name))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// openPort opens the port named powercut. Devices appear in their own time.
func openPort() (*os.File, error) {
	for range 1000 {
		files, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, f := range files {
			name, _ := os.ReadFile(f)
			if strings.TrimSpace(string(name)) != "powercut" {
				continue
			}
			fd, err := unix.Open("/dev/"+filepath.Base(filepath.Dir(f)), unix.O_RDWR, 0)
			if err != nil {
				return nil, err
			}
			return os.NewFile(uintptr(fd), "port"), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, errors.New("no control port")
}

func serve(port *os.File) error {
	in := bufio.NewScanner(port)
	for in.Scan() {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		answer, err := do(verb, rest)
		if err != nil {
			answer = "error: " + err.Error()
		}
		if _, err := fmt.Fprintln(port, answer); err != nil {
			return err
		}
	}
	return in.Err()
}

func do(verb, rest string) (string, error) {
	switch verb {
	case "echo":
		return rest, nil
	case "print":
		_, err := fmt.Println(rest)
		return "printed", err
	case "poke":
		return "poked", poke(rest)
	case "sync-write":
		return "written", syncWrite(rest)
	case "flood":
		for range 3000 {
			fmt.Println(strings.Repeat(rest, 20))
		}
		return "flooded", nil
	case "hang":
		time.Sleep(time.Hour) // not select: the runtime calls that a deadlock
	case "crash":
		return "", os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	}
	return "", fmt.Errorf("unknown verb %q", verb)
}

// poke stores text at the start of the reserved memory.
func poke(text string) error {
	fd, err := unix.Open("/dev/mem", unix.O_RDWR|unix.O_SYNC, 0)
	if err != nil {
		return err
	}
	mem, err := unix.Mmap(fd, ledgerBase, ledgerSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(mem, text)
	return nil
}

// syncWrite puts a sector holding text at the start of the first disk.
func syncWrite(text string) error {
	var f *os.File
	err := errors.New("no disk")
	for range 1000 {
		if f, err = os.OpenFile("/dev/sda", os.O_WRONLY|os.O_SYNC, 0); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sector := make([]byte, 4096)
	copy(sector, text)
	_, err = f.Write(sector)
	return err
}
