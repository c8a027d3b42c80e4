package qemu

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// diskSize is that of the test drives.
const diskSize = 8 << 20

// serveDisk serves a zero drive as dir/name by qemu-nbd, and returns the file
// that holds its content.
func serveDisk(t *testing.T, dir, name string) string {
	t.Helper()
	media, _ := serveDiskUntil(t, dir, name)
	return media
}

// serveDiskUntil is serveDisk, with a function that ends the server.
func serveDiskUntil(t *testing.T, dir, name string) (media string, stop func()) {
	t.Helper()
	binary, err := exec.LookPath("qemu-nbd")
	if err != nil {
		t.Skip("no NBD server to test with: install the Debian package qemu-utils: ", err)
	}
	media = filepath.Join(t.TempDir(), "media")
	must(t, os.WriteFile(media, make([]byte, diskSize), 0o600))
	socket := filepath.Join(dir, name)
	cmd := exec.Command(binary, "--format=raw", "--persistent", "--shared=4", "--socket="+socket, media)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr := &tail{limit: stderrLimit}
	cmd.Stderr = stderr
	must(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return media, stop
		}
	}
	t.Fatal("qemu-nbd does not listen: ", stderr)
	return "", nil
}

// writesBack asks QEMU whether the drive has its write cache on.
func writesBack(t *testing.T, vm *VM) bool {
	t.Helper()
	var drives []struct {
		Inserted struct {
			Cache struct {
				Writeback bool `json:"writeback"`
				NoFlush   bool `json:"no-flush"`
			}
			NodeName string `json:"node-name"`
		}
	}
	must(t, vm.Monitor().Execute(t.Context(), "query-block", nil, &drives))
	for _, d := range drives {
		if d.Inserted.NodeName == "disk" {
			if d.Inserted.Cache.NoFlush {
				t.Error("qemu drops flushes")
			}
			return d.Inserted.Cache.Writeback
		}
	}
	t.Fatalf("no disk among %v", drives)
	return false
}

// A guest booted with one drive, saved, and forked with another of the same
// size writes to that other one, with the write cache as asked for.
func TestDiskAcrossFork(t *testing.T) {
	for _, cache := range []bool{true, false} {
		t.Run("write-cache="+onOff(cache), func(t *testing.T) {
			cfg := testConfig(t)
			serveDisk(t, cfg.Dir, "first")
			cfg.Disk = &Disk{Socket: "first", WriteCache: cache}
			vm := start(t, cfg)
			if err := awaitReady(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
			if got := writesBack(t, vm); got != cache {
				t.Errorf("write cache on after boot: %v", got)
			}
			template := t.TempDir()
			must(t, Save(t.Context(), vm, template))

			media := serveDisk(t, cfg.Dir, "second")
			cfg.Template, cfg.ConsolePath = template, "console-2"
			cfg.Disk = &Disk{Socket: "second", WriteCache: cache}
			fork := start(t, cfg)
			if got := writesBack(t, fork); got != cache {
				t.Errorf("write cache on after fork: %v", got)
			}
			if got := ask(t, fork, "sync-write precious"); got != "written" {
				t.Fatalf("guest answers %q", got)
			}
			must(t, fork.Kill())
			data, err := os.ReadFile(media)
			must(t, err)
			if !strings.HasPrefix(string(data), "precious") {
				t.Errorf("the drive starts with %q", data[:16])
			}
		})
	}
}

// QEMU takes each bus's options as they are composed.
func TestDiskBuses(t *testing.T) {
	for _, bus := range Buses() {
		t.Run(string(bus), func(t *testing.T) {
			cfg := testConfig(t)
			serveDisk(t, cfg.Dir, "drive")
			cfg.Disk = &Disk{Socket: "drive", Bus: bus, WriteCache: true}
			vm := start(t, cfg)
			must(t, vm.plugDisk(t.Context()))
			// SeaBIOS uses a virtio-blk drive as one that has no flush, so that QEMU has
			// its cache off until the kernel's driver resets it.
			if !writesBack(t, vm) && bus != VirtioBlk {
				t.Error("write cache is off")
			}
		})
	}
}

// A drive that goes away is an error in the guest, not the end of it, and the
// kernel says so.
func TestDriveGone(t *testing.T) {
	cfg := testConfig(t)
	media, stop := serveDiskUntil(t, cfg.Dir, "drive")
	cfg.Disk = &Disk{Socket: "drive", WriteCache: true}
	vm := start(t, cfg)
	if err := awaitReady(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, vm, "sync-write before"); got != "written" {
		t.Fatalf("guest answers %q", got)
	}
	stop()
	if got := ask(t, vm, "sync-write after"); !strings.Contains(got, "input/output error") {
		t.Errorf("guest answers %q", got)
	}
	if data, err := os.ReadFile(media); err != nil || !strings.HasPrefix(string(data), "before") {
		t.Errorf("the drive starts with %.16q, %v", data, err)
	}
	if !slices.ContainsFunc(classifyFile(vm.ConsolePath()), func(f Finding) bool { return f.Kind == IOError }) {
		t.Errorf("no error on the console: %q", Tail(vm.ConsolePath(), 10))
	}
}
