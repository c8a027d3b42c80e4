package logwrites

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"powercut/harness/blocklog"
	"powercut/harness/crash"
	"powercut/harness/disk"
	"powercut/harness/nbd"
	"powercut/harness/qemu"
	"powercut/images"
)

// half is the size of the file system, and of the room for its log, in bytes.
const half = 32 << 20

// TestKernel: a log of the kernel's dm-log-writes is read to its end; imported, it
// leaves at its end what the drive holds; and a cut at each of its marks leaves a
// file system with what was synced by then.
func TestKernel(t *testing.T) {
	before, after, console := dmLog(t)
	r, err := NewReader(bytes.NewReader(after[half:]), half)
	if err != nil {
		t.Fatalf("%v; console:\n%s", err, console)
	}
	r.Drive = half
	path := filepath.Join(t.TempDir(), "log")
	w, err := blocklog.Create(path, half)
	check(t, err)
	found, err := Import(w, r)
	if err != nil {
		t.Fatal(err)
	}
	check(t, w.Close())
	l, err := blocklog.Open(path)
	check(t, err)
	defer l.Close()
	state := func(at int) []byte {
		s, err := crash.Build(bytes.NewReader(before), l, at, crash.Lose, 1)
		check(t, err)
		b := make([]byte, half)
		_, err = s.Media.ReadAt(b, 0)
		check(t, err)
		return b
	}
	if !bytes.Equal(state(len(l.Events)), after[:half]) {
		t.Error("at its end the log leaves something else than the drive holds")
	}
	var marks []string
	for _, m := range found.Marks {
		marks = append(marks, m.Text)
		if op, ok := strings.CutPrefix(m.Text, "fsync-"); ok {
			checkFile(t, state(m.Position), int(op[0]-'0'))
		}
	}
	if got := strings.Join(marks, " "); got != "fsync-1 fsync-2 fsync-3 fsync-4 fsync-5 dm-log-writes-end" {
		t.Errorf("marks: %s", got)
	}
	kinds := map[Flags]int{}
	entries, err := read(after[half:], half)
	if err != io.EOF {
		t.Errorf("the log ends with %v", err)
	}
	for _, e := range entries {
		for f := Flush; f <= Metadata; f <<= 1 {
			if e.Flags&f != 0 {
				kinds[f]++
			}
		}
	}
	t.Logf("%d entries with flags: %v", len(entries), kinds)
	if kinds[Flush] < 5 || kinds[Metadata] < 5 || kinds[Mark] != 6 {
		t.Error("these are not the flags of that many fsyncs and marks")
	}
}

// checkFile lets debugfs read the file of a crash state, whose journal it replays
// first.
func checkFile(t *testing.T, image []byte, ops int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	check(t, os.WriteFile(path, image, 0o644))
	tool(t, "e2fsck", "-E", "journal_only", "-y", path)
	tool(t, "e2fsck", "-fn", path)
	got := tool(t, "debugfs", "-R", "cat /file", path)
	for op := 1; op <= ops; op++ {
		if !strings.Contains(got, strings.Repeat(string(rune('0'+op)), 4096)) {
			t.Errorf("at the mark of fsync %d the block of fsync %d is missing", ops, op)
		}
	}
}

// tool runs a program of e2fsprogs.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/sbin/" + name)
	}
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// dmLog runs a guest that lets dm-log-writes log what it does to the first half of
// its drive into the second. It returns the first half as it was, the drive as it
// is afterwards, and the console.
func dmLog(t *testing.T) (before, after []byte, console string) {
	t.Helper()
	if _, err := qemu.Version(t.Context(), ""); err != nil {
		t.Skipf("no virtual machine can be run here: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	base, err := images.MakeFS(ctx, images.Format{Type: "ext4", Size: half})
	check(t, err)
	before, err = os.ReadFile(base)
	check(t, err)
	dir := t.TempDir()
	log, err := blocklog.Create(filepath.Join(dir, "block.log"), 2*half)
	check(t, err)
	defer log.Close()
	drive := disk.New(disk.Config{Base: bytes.NewReader(append(bytes.Clone(before), make([]byte, half)...)), Size: 2 * half, Log: log, WriteCache: true})
	defer drive.Close()
	cfg := dmGuest(ctx, t, dir)
	console = boot(ctx, t, cfg, drive)
	if !strings.Contains(console, "dmlog done") {
		t.Fatalf("the guest failed:\n%s", console)
	}
	return before, content(t, filepath.Join(dir, "block.log"), before), console
}

// dmGuest is a guest whose init is testdata/dmlog.
func dmGuest(ctx context.Context, t *testing.T, dir string) qemu.Config {
	t.Helper()
	kernel, err := images.Fetch(ctx, images.DefaultKernel)
	check(t, err)
	modules, err := kernel.Closure("virtio_pci", "virtio_console", "ata_piix", "sd_mod", "ext4", "dm_log_writes")
	check(t, err)
	init := filepath.Join(dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-o", init, "./testdata/dmlog")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build init: %v\n%s", err, out)
	}
	initramfs := filepath.Join(dir, "initramfs")
	f, err := os.Create(initramfs)
	check(t, err)
	check(t, errors.Join(images.WriteInitramfs(f, kernel, modules, init), f.Close()))
	return qemu.Config{
		Dir: dir, Kernel: kernel.Vmlinux, Initramfs: initramfs, Timeout: 2 * time.Minute,
		Disk: &qemu.Disk{Socket: "nbd.sock", WriteCache: true},
	}
}

// boot runs the guest on the drive until it powers off, and returns its console.
func boot(ctx context.Context, t *testing.T, cfg qemu.Config, drive *disk.Drive) string {
	t.Helper()
	l, err := nbd.Listen(filepath.Join(cfg.Dir, cfg.Disk.Socket))
	check(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if conn, err := l.Accept(); err == nil {
			_ = nbd.Serve(ctx, conn, drive.Export(), drive) // the guest says whether it worked
		}
	}()
	vm, err := qemu.Start(ctx, cfg)
	if err != nil {
		l.Close()
		t.Fatal(err)
	}
	_, err = vm.Wait(ctx)
	console, readErr := os.ReadFile(vm.ConsolePath())
	check(t, errors.Join(readErr, vm.Close(), l.Close()))
	<-served
	if err != nil {
		t.Fatalf("%v; console:\n%s", err, console)
	}
	return string(console)
}

// content is what a drive holds at the end of its log.
func content(t *testing.T, path string, before []byte) []byte {
	t.Helper()
	l, err := blocklog.Open(path)
	check(t, err)
	defer l.Close()
	base := append(bytes.Clone(before), make([]byte, half)...)
	s, err := crash.Build(bytes.NewReader(base), l, len(l.Events), crash.Keep, 1)
	check(t, err)
	b := make([]byte, 2*half)
	_, err = s.Media.ReadAt(b, 0)
	check(t, err)
	return b
}
