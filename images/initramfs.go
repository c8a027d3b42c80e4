package images

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cavaliergopher/cpio"

	"powercut/images/modules"
)

const (
	// ModulesFolder is where the initramfs keeps its modules.
	ModulesFolder = "/lib/modules"
	// ModulesOrder is the file that lists them: one file name of ModulesFolder
	// a line, in the order in which to load them.
	ModulesOrder = ModulesFolder + "/order"
	// maxExtra bounds one file that goes into an initramfs, in bytes: newc has
	// 32-bit sizes, and the guest little memory.
	maxExtra = 1 << 30
)

// File is a regular file for an initramfs.
type File struct {
	Name string // absolute path in the guest, "/sbin/e2fsck"
	Path string // file on the host
	Mode uint32 // permission bits; 0 means 0755
}

// ErrDynamic says that a program cannot run in a guest, which has no libraries.
var ErrDynamic = errors.New("it is linked dynamically, and the guest has no libraries: build it with CGO_ENABLED=0")

// WriteInitramfs writes an initramfs for k, uncompressed, in the format "newc"
// (Documentation/driver-api/early-userspace/buffer-format.rst). binary, the
// powercut program itself, becomes /init. modules are files as Closure returns
// them; they become /lib/modules/NN-NAME.ko, by the names that they have in the
// kernel, decompressed, and are listed in /lib/modules/order. Equal input gives
// equal bytes.
func WriteInitramfs(w io.Writer, k Kernel, modules []string, binary string, extra ...File) error {
	if err := checkStatic(binary); err != nil {
		return fmt.Errorf("make initramfs for %s: use %s as /init: %w", k.Release, binary, err)
	}
	a := newArchive(w)
	a.folder("/dev")
	a.console()
	for _, dir := range []string{"/proc", "/sys", "/tmp", "/mnt"} {
		a.folder(dir)
	}
	a.file(File{Name: "/init", Path: binary})
	a.modules(modules)
	extra = slices.SortedFunc(slices.Values(extra), func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	for _, f := range extra {
		a.file(f)
	}
	if err := a.close(); err != nil {
		return fmt.Errorf("make initramfs for %s: %w", k.Release, err)
	}
	return nil
}

// checkStatic accepts a statically linked ELF program of x86-64.
func checkStatic(binary string) error {
	f, err := elf.Open(binary)
	var file *fs.PathError
	switch {
	case errors.As(err, &file):
		return err
	case err != nil:
		return fmt.Errorf("it is no ELF program: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("it is built for %v, not for x86-64", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return ErrDynamic
		}
	}
	return nil
}

// archive writes a cpio archive. The first error stays and makes the rest do
// nothing.
type archive struct {
	w       io.Writer
	cpio    *cpio.Writer
	folders map[string]bool
	names   map[string]bool
	inode   int64
	err     error
}

func newArchive(w io.Writer) *archive {
	return &archive{w: w, cpio: cpio.NewWriter(w), folders: map[string]bool{"/": true}, names: map[string]bool{}}
}

// folder adds a folder and those above it, once.
func (a *archive) folder(name string) {
	if a.err != nil || a.folders[name] {
		return
	}
	a.folder(path.Dir(name))
	a.folders[name] = true
	a.header(name, cpio.TypeDir|0o755, 0)
}

func (a *archive) header(name string, mode cpio.FileMode, size int64) {
	if a.err != nil {
		return
	}
	a.inode++
	links := 1
	if mode&cpio.ModeType == cpio.TypeDir {
		links = 2
	}
	a.err = a.cpio.WriteHeader(&cpio.Header{
		Name: strings.TrimPrefix(name, "/"), Mode: mode, Size: size, Links: links, Inode: a.inode,
	})
}

// console adds the character device 5:1, which the kernel opens for /init. The
// cpio library has no device numbers, so this one record is written by hand.
func (a *archive) console() {
	const name = "dev/console"
	if a.err != nil {
		return
	}
	if a.err = a.cpio.Flush(); a.err != nil {
		return
	}
	a.inode++
	var record bytes.Buffer
	record.WriteString("070701")
	for _, field := range []int64{
		a.inode, cpio.TypeChar | 0o600, 0, 0, 1, 0, 0, // inode, mode, uid, gid, links, mtime, size
		0, 0, 5, 1, int64(len(name) + 1), 0, // device of the file, device number, name size, check
	} {
		fmt.Fprintf(&record, "%08X", field)
	}
	record.WriteString(name + "\x00")
	for record.Len()%4 != 0 {
		record.WriteByte(0)
	}
	_, a.err = a.w.Write(record.Bytes())
}

// file adds a file of the host.
func (a *archive) file(f File) {
	if a.err != nil {
		return
	}
	if !path.IsAbs(f.Name) || path.Clean(f.Name) != f.Name || f.Name == "/" {
		a.err = fmt.Errorf("file name %q is not a clean absolute path", f.Name)
		return
	}
	info, err := os.Stat(f.Path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", f.Path)
	}
	if err == nil && info.Size() > maxExtra {
		err = fmt.Errorf("%s has %d bytes, over %d", f.Path, info.Size(), maxExtra)
	}
	if err != nil {
		a.err = err
		return
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		a.err = err
		return
	}
	mode := f.Mode & 0o7777
	if mode == 0 {
		mode = 0o755
	}
	a.data(f.Name, mode, data)
}

func (a *archive) data(name string, mode uint32, data []byte) {
	if a.err == nil && a.names[name] {
		a.err = fmt.Errorf("file %s is given twice", name)
	}
	a.names[name] = true
	a.folder(path.Dir(name))
	a.header(name, cpio.TypeReg|cpio.FileMode(mode), int64(len(data)))
	if a.err == nil {
		_, a.err = a.cpio.Write(data)
	}
}

// modules adds module files, numbered, and their list.
func (a *archive) modules(paths []string) {
	var order strings.Builder
	for i, path := range paths {
		if a.err != nil {
			return
		}
		data, err := modules.Load(path)
		if err != nil {
			a.err = err
			return
		}
		info, err := modules.ReadInfo(data)
		if err != nil {
			a.err = fmt.Errorf("read module %s: %w", path, err)
			return
		}
		name := fmt.Sprintf("%02d-%s.ko", i, info.NameIn(path))
		order.WriteString(name + "\n")
		a.data(ModulesFolder+"/"+name, 0o644, data)
	}
	a.data(ModulesOrder, 0o644, []byte(order.String()))
}

func (a *archive) close() error {
	if a.err != nil {
		return a.err
	}
	return a.cpio.Close()
}
