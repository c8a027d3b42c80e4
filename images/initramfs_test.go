package images

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"

	"powercut/images/internal/kerneltest"
)

// member is one record of an archive.
type member struct {
	Mode cpio.FileMode
	Data string
}

func unpack(t *testing.T, archive []byte) (names []string, members map[string]member) {
	t.Helper()
	r, members := cpio.NewReader(bytes.NewReader(archive)), map[string]member{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, members
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		members[h.Name] = member{h.Mode, string(data)}
	}
}

func initramfsFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	writeFiles(t, dir, map[string][]byte{
		"static":          kerneltest.Program(false),
		"dynamic":         kerneltest.Program(true),
		"text":            []byte("#!/bin/sh\n"),
		"m/kernel/b-1.ko": kerneltest.Module("depends="),
		"m/a.ko.gz":       gzipped(t, kerneltest.Module("name=the_a")),
		"tool":            []byte("tool"),
	})
	return dir
}

func TestWriteInitramfs(t *testing.T) {
	dir := initramfsFiles(t)
	mods := []string{filepath.Join(dir, "m/kernel/b-1.ko"), filepath.Join(dir, "m/a.ko.gz")}
	extra := []File{{Name: "/usr/z", Path: filepath.Join(dir, "tool"), Mode: 0o600}, {Name: FsckPath, Path: filepath.Join(dir, "tool")}}
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := WriteInitramfs(w, Kernel{}, mods, filepath.Join(dir, "static"), extra...); err != nil {
			t.Fatal(err)
		}
		extra[0], extra[1] = extra[1], extra[0] // their order must not matter
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("equal input gave different archives")
	}
	if first.Len()%4 != 0 {
		t.Errorf("length %d is not a multiple of 4", first.Len())
	}
	names, members := unpack(t, first.Bytes())
	wantNames := []string{
		"dev", "dev/console", "proc", "sys", "tmp", "mnt", "init", "lib", "lib/modules",
		"lib/modules/00-b_1.ko", "lib/modules/01-the_a.ko", "lib/modules/order", "sbin", "sbin/e2fsck", "usr", "usr/z",
	}
	if d := cmp.Diff(wantNames, names); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]member{
		"dev":                     {cpio.TypeDir | 0o755, ""},
		"dev/console":             {cpio.TypeChar | 0o600, ""},
		"init":                    {cpio.TypeReg | 0o755, string(kerneltest.Program(false))},
		"lib/modules/00-b_1.ko":   {cpio.TypeReg | 0o644, string(kerneltest.Module("depends="))},
		"lib/modules/01-the_a.ko": {cpio.TypeReg | 0o644, string(kerneltest.Module("name=the_a"))},
		"lib/modules/order":       {cpio.TypeReg | 0o644, "00-b_1.ko\n01-the_a.ko\n"},
		"sbin/e2fsck":             {cpio.TypeReg | 0o755, "tool"},
		"usr/z":                   {cpio.TypeReg | 0o600, "tool"},
	} {
		if d := cmp.Diff(want, members[name]); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	// The device number is what the cpio library cannot show.
	if at := bytes.Index(first.Bytes(), []byte("dev/console")); string(first.Bytes()[at-32:at-16]) != "0000000500000001" {
		t.Errorf("console is device %s", first.Bytes()[at-32:at-16])
	}
}

func TestWriteInitramfsRefuses(t *testing.T) {
	dir := initramfsFiles(t)
	static, tool := filepath.Join(dir, "static"), filepath.Join(dir, "tool")
	tests := map[string]struct {
		binary  string
		modules []string
		extra   []File
		want    string
		is      error
	}{
		"dynamic":       {filepath.Join(dir, "dynamic"), nil, nil, "CGO_ENABLED=0", ErrDynamic},
		"script":        {filepath.Join(dir, "text"), nil, nil, "no ELF program", nil},
		"no binary":     {filepath.Join(dir, "gone"), nil, nil, "gone", fs.ErrNotExist},
		"no module":     {static, []string{filepath.Join(dir, "x.ko")}, nil, "x.ko", fs.ErrNotExist},
		"not a module":  {static, []string{tool}, nil, "tool: it is no kernel module", nil},
		"bad module":    {static, []string{filepath.Join(dir, "m/kernel/b-1.ko.xz")}, nil, "b-1", nil},
		"relative name": {static, nil, []File{{Name: "sbin/x", Path: tool}}, "clean absolute", nil},
		"climbing name": {static, nil, []File{{Name: "/sbin/../x", Path: tool}}, "clean absolute", nil},
		"twice":         {static, nil, []File{{Name: "/init", Path: tool}}, "given twice", nil},
		"folder":        {static, nil, []File{{Name: "/x", Path: dir}}, "not a file", nil},
	}
	for name, tt := range tests {
		err := WriteInitramfs(io.Discard, Kernel{}, tt.modules, tt.binary, tt.extra...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: error %v does not say %q", name, err, tt.want)
		}
	}
	full := errors.New("full")
	if err := WriteInitramfs(failing{full}, Kernel{}, nil, static); !errors.Is(err, full) {
		t.Errorf("failing writer: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
