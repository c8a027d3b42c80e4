package qemu

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The whole command line, as a contract: what a template was made with must
// not change unnoticed.
func TestCommandLine(t *testing.T) {
	cfg, _ := Config{
		Kernel: "vmlinux", Initramfs: "initramfs", Dir: "/run",
		Reserve: Reserve{Base: 0x0B000000, Size: 1 << 20},
		Disk:    &Disk{Socket: "a,b.sock", Export: "x"},
		Devices: []Device{Raw{Arguments: []string{"-device", "virtio-rng-pci"}, Parameters: []string{"debug"}}},
		Cmdline: []string{"powercut.x=1", "loglevel=7"},
	}.withDefaults() // the files are not there
	cfg.Template = "template"
	want := strings.Fields(`
		-M pc,hpet=off,graphics=off,usb=off,vmport=off,memory-backend=ram
		-nodefaults -no-user-config -no-reboot -display none -nic none
		-accel tcg -cpu qemu64 -smp 1
		-object memory-backend-file,id=ram,size=201326592,mem-path=/proc/self/fd/3,share=on -m 201326592B
		-kernel vmlinux -initrd initramfs
		-chardev file,id=console,path=console -serial chardev:console
		-chardev socket,id=qmp,fd=4 -mon chardev=qmp,mode=control
		-chardev socket,id=control,fd=5
		-device virtio-serial-pci,id=serial
		-device virtserialport,bus=serial.0,chardev=control,name=powercut
		-blockdev driver=nbd,node-name=disk,server.type=unix,server.path=a,,b.sock,export=x,discard=unmap,cache.direct=off,cache.no-flush=off
		-device ide-hd,bus=ide.0,unit=0,drive=disk,write-cache=off,werror=report,rerror=report,model=MODEL
		-incoming defer
		-device virtio-rng-pci
		-append`)
	for i, arg := range want {
		want[i] = strings.Replace(arg, "MODEL", "POWERCUT emulated drive write Cache off", 1)
	}
	want = append(want, "quiet loglevel=5 panic=-1 nokaslr mitigations=off nopti no_timer_check console=ttyS0 memmap=1024K$0xB000000 debug powercut.x=1 loglevel=7")
	if diff := cmp.Diff(want, cfg.args()); diff != "" {
		t.Error(diff)
	}
}

func TestDiskFronts(t *testing.T) {
	tests := map[Bus]string{
		"":        "-device ide-hd,bus=ide.0,unit=0,drive=disk,write-cache=on,werror=report,rerror=report,model=POWERCUT emulated drive write cache on",
		IDE:       "-device ide-hd,bus=ide.0,unit=0,drive=disk,write-cache=on,werror=report,rerror=report,model=POWERCUT emulated drive write cache on",
		AHCI:      "-device ahci,id=ahci -device ide-hd,bus=ahci.0,drive=disk,write-cache=on,werror=report,rerror=report,model=POWERCUT emulated drive write cache on",
		SCSI:      "-device virtio-scsi-pci,id=scsi -device scsi-hd,bus=scsi.0,dpofua=on,drive=disk,write-cache=on,werror=report,rerror=report",
		VirtioBlk: "-device virtio-blk-pci,drive=disk,write-cache=on,werror=report,rerror=report",
		NVMe:      "", // plugged into a running machine
	}
	for bus, want := range tests {
		d := Disk{Socket: "s", Bus: bus, WriteCache: true}
		if err := d.check(); err != nil {
			t.Error(err)
		}
		if got := strings.Join(d.front(), " "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", bus, got, want)
		}
	}
}

// A second drive hangs on the same bus, and which socket serves it is no part of a template.
func TestSecondDisk(t *testing.T) {
	const rest = ",write-cache=on,werror=report,rerror=report"
	const model = ",model=POWERCUT emulated drive write cache on"
	for bus, want := range map[Bus]string{
		IDE:       "-device ide-hd,bus=ide.0,unit=0,drive=disk" + rest + model + " -device ide-hd,bus=ide.1,unit=0,drive=second" + rest + model,
		AHCI:      "-device ahci,id=ahci -device ide-hd,bus=ahci.0,drive=disk" + rest + model + " -device ide-hd,bus=ahci.1,drive=second" + rest + model,
		SCSI:      "-device virtio-scsi-pci,id=scsi -device scsi-hd,bus=scsi.0,dpofua=on,drive=disk" + rest + " -device scsi-hd,bus=scsi.0,dpofua=on,scsi-id=1,drive=second" + rest,
		VirtioBlk: "-device virtio-blk-pci,drive=disk" + rest + " -device virtio-blk-pci,drive=second" + rest,
	} {
		d := Disk{Socket: "s", Second: "t", Bus: bus, WriteCache: true, NoFlush: true}
		if err := d.check(); err != nil {
			t.Error(err)
		}
		back := "-blockdev driver=nbd,node-name=disk,server.type=unix,server.path=s,discard=unmap,cache.direct=off,cache.no-flush=on " +
			"-blockdev driver=nbd,node-name=second,server.type=unix,server.path=t,discard=unmap,cache.direct=off,cache.no-flush=on "
		if diff := cmp.Diff(back+want, strings.Join(d.Args(), " ")); diff != "" {
			t.Errorf("%s: %s", bus, diff)
		}
		other := d
		other.Second = "elsewhere"
		if diff := cmp.Diff(Config{Disk: &d}.identity(), Config{Disk: &other}.identity()); diff != "" {
			t.Errorf("the second socket is part of the template:\n%s", diff)
		}
		other.Second = ""
		if cmp.Equal(Config{Disk: &d}.identity(), Config{Disk: &other}.identity()) {
			t.Error("the second disk is no part of the template")
		}
	}
}

// QEMU's own log stands between the drive and its server.
func TestDiskLog(t *testing.T) {
	got := strings.Join(Disk{Socket: "s", Log: "a,b", WriteCache: true}.Args(), " ")
	want := "-blockdev driver=nbd,node-name=logged,server.type=unix,server.path=s,discard=unmap,cache.direct=off,cache.no-flush=off " +
		"-blockdev driver=blklogwrites,node-name=disk,file=logged,log.driver=file,log.filename=a,,b,discard=unmap,cache.direct=off,cache.no-flush=off " +
		"-device ide-hd,bus=ide.0,unit=0,drive=disk,"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// An image file has a node for the file and one for its format, and what differs
// between back ends is no part of a template.
func TestDiskImage(t *testing.T) {
	d := Disk{Image: &Image{Path: "a,b.img", Format: "qcow2", AIO: "io_uring", Limit: 1}, Bus: VirtioBlk, WriteCache: true, Direct: true, NoFlush: true}
	if err := d.check(); err != nil {
		t.Error(err)
	}
	want := "-blockdev driver=file,node-name=file,filename=a,,b.img,aio=io_uring,discard=unmap,cache.direct=on,cache.no-flush=on " +
		"-blockdev driver=qcow2,node-name=disk,file=file,discard=unmap,cache.direct=on,cache.no-flush=on " +
		"-device virtio-blk-pci,drive=disk,write-cache=on,werror=report,rerror=report"
	if got := strings.Join(d.Args(), " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	onFile, onNBD := Config{Disk: &d}, Config{Disk: &Disk{Socket: "s", Bus: VirtioBlk, WriteCache: true}}
	if diff := cmp.Diff(onNBD.identity(), onFile.identity()); diff != "" {
		t.Errorf("the back end is part of the template:\n%s", diff)
	}
}

// The model's 31st character stands for the write cache when a drive is
// restored, and QEMU takes 40 characters at most.
func TestDiskModel(t *testing.T) {
	for _, cache := range []bool{true, false} {
		model := Disk{WriteCache: cache}.model()
		if len(model) > 40 {
			t.Errorf("%q has %d characters", model, len(model))
		}
		if on := model[30]&(1<<5) != 0; on != cache {
			t.Errorf("%q says %v for %v", model, on, cache)
		}
	}
}

func TestDiskCheck(t *testing.T) {
	tests := map[string]struct {
		disk Disk
		want string
	}{
		"no socket":      {Disk{}, "no socket"},
		"long socket":    {Disk{Socket: strings.Repeat("x", 108)}, "the limit is 107"},
		"no image":       {Disk{Image: &Image{Format: "raw", AIO: "native", Limit: 1}}, "no image file"},
		"image format":   {Disk{Image: &Image{Path: "p", Format: "vdi", AIO: "native", Limit: 1}}, "raw and qcow2"},
		"image aio":      {Disk{Image: &Image{Path: "p", Format: "raw", AIO: "posix", Limit: 1}}, "threads, native"},
		"image no limit": {Disk{Image: &Image{Path: "p", Format: "raw", AIO: "native"}}, "no limit"},
		"second, nvme":   {Disk{Socket: "s", Second: "t", Bus: NVMe}, "goes with neither"},
		"second, logged": {Disk{Socket: "s", Second: "t", Log: "l"}, "goes with neither"},
		"second, long":   {Disk{Socket: "s", Second: strings.Repeat("x", 108)}, "the limit is 107"},
		"unknown bus":    {Disk{Socket: "s", Bus: "isa"}, "there are ide, ahci, scsi-hd, virtio-blk, nvme"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.disk.check(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := (Disk{Socket: strings.Repeat("x", 107)}).check(); err != nil {
		t.Error(err)
	}
}

// What may differ between a template and its fork is not part of a machine's
// identity; what must not is.
func TestIdentity(t *testing.T) {
	base := Config{Memory: DefaultMemory, Accel: TCG, Disk: &Disk{Socket: "a", WriteCache: true}}
	tests := map[string]struct {
		change func(*Config)
		same   bool
	}{
		"console":     {func(c *Config) { c.ConsolePath = "elsewhere" }, true},
		"folder":      {func(c *Config) { c.Dir = "elsewhere" }, true},
		"template":    {func(c *Config) { c.Template = "elsewhere" }, true},
		"socket":      {func(c *Config) { c.Disk.Socket = "elsewhere" }, true},
		"disk's log":  {func(c *Config) { c.Disk.Log = "elsewhere" }, true},
		"kernel path": {func(c *Config) { c.Kernel = "elsewhere" }, true},
		"write cache": {func(c *Config) { c.Disk.WriteCache = false }, false},
		"bus":         {func(c *Config) { c.Disk.Bus = AHCI }, false},
		"no disk":     {func(c *Config) { c.Disk = nil }, false},
		"memory":      {func(c *Config) { c.Memory *= 2 }, false},
		"accelerator": {func(c *Config) { c.Accel = KVM }, false},
		"cpu":         {func(c *Config) { c.CPUModel = "host" }, false},
		"cmdline":     {func(c *Config) { c.Cmdline = []string{"x"} }, false},
		"reserve":     {func(c *Config) { c.Reserve.Size = pageSize }, false},
		"devices":     {func(c *Config) { c.Devices = []Device{Raw{Arguments: []string{"-s"}}} }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			changed := base
			disk := *base.Disk
			changed.Disk = &disk
			tt.change(&changed)
			if same := cmp.Equal(base.identity(), changed.identity()); same != tt.same {
				t.Errorf("same machine: %v", same)
			}
			if base.Disk.Socket != "a" {
				t.Error("identity changed the disk")
			}
		})
	}
}
