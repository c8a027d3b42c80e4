package modules

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// sources holds what the variants are made of. Unlike powercut they are derived
// from Linux, or linked to it, and so under the GPL, version 2.
//
//go:embed *.patch fsync_range
var sources embed.FS

// Variant is a module of ours that takes the place of one of the kernel's own, or
// that the kernel does not have. Its name is that of a patch, NAME.patch, or of a
// folder with sources.
type Variant struct {
	Name   string
	Module string // the module that it becomes: "ext4"
	Folder string // of that module in the kernel's source, which the patch changes; "" where all of the source is ours
	Series string // of the kernels that the patch was made for: "6.1"; "" where it is for any
	About  string // what it does, in one line
}

// Variants lists them all, by name.
func Variants() []Variant {
	return []Variant{
		{"ext4-2.4-fsync", "ext4", "fs/ext4", "6.1", "fsync and fdatasync always commit, O_SYNC waits for the data alone, as ext3 in Linux 2.4"},
		{"ext4-fdatasync-commits", "ext4", "fs/ext4", "6.1", "fdatasync always commits the journal"},
		{"ext4-fdatasync-skips-all", "ext4", "fs/ext4", "6.1", "broken on purpose: fdatasync never commits the journal, and loses appends"},
		{"fsync_range", "fsync_range", "", "", "a device that syncs a range of a file, as fsync_range(2) would"},
		{"jbd2-async-writes", "jbd2", "fs/jbd2", "6.1", "journal blocks are written without the mark of a synchronous write"},
		{"jbd2-external-fsync-flushes", "jbd2", "fs/jbd2", "6.1", "with an external journal fsync flushes the file system's disk itself, and does not leave that to a commit which may not"},
		{"jbd2-external-unflushed", "jbd2", "fs/jbd2", "6.1", "broken on purpose: an external journal commits without a flush of the file system's disk, and loses appends"},
	}
}

// VariantNames lists the names of Variants.
func VariantNames() []string {
	var names []string
	for _, v := range Variants() {
		names = append(names, v.Name)
	}
	return names
}

// FindVariant returns the variant of that name.
func FindVariant(name string) (Variant, error) {
	all := Variants()
	i := slices.IndexFunc(all, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return Variant{}, fmt.Errorf("unknown module %q: it may be one of %s", name, strings.Join(VariantNames(), ", "))
	}
	return all[i], nil
}

// Siblings lists the variants of the same module, v among them. They are built
// together, since most of what is compiled is the same.
func (v Variant) Siblings() []Variant {
	return slices.DeleteFunc(Variants(), func(o Variant) bool { return o.Module != v.Module })
}

// Files is what the variant is made of: its patch, or the files of its folder.
// The error is of this program itself.
func (v Variant) Files() (map[string][]byte, error) {
	if v.Folder != "" {
		name := v.Name + ".patch"
		text, err := sources.ReadFile(name)
		return map[string][]byte{name: text}, err
	}
	files := map[string][]byte{}
	err := fs.WalkDir(sources, v.Name, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[path.Base(name)], err = sources.ReadFile(name)
		}
		return err
	})
	return files, err
}
