package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"
)

// filled is kong's type of that name, which is for paths, but refuses an empty one, which
// kong would take for the folder that the program runs in, and what cannot be read at any
// place: a pipe would be waited for, and a device such as /dev/zero has no end. Disks can.
func filled(name string) kong.Option {
	own := kong.NewRegistry().RegisterDefaults().ForNamedType(name, reflect.TypeFor[string]())
	return kong.NamedMapper(name, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		if ctx.Scan.Peek().Value == "" {
			return errors.New("it is empty; give it a value, or leave it out")
		}
		if err := own.Decode(ctx, target); err != nil || target.Kind() != reflect.String {
			return err
		}
		info, err := os.Stat(target.String())
		if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeCharDevice) != 0 {
			return fmt.Errorf("%s is neither a file nor a disk", target)
		}
		return nil
	}))
}

// sound says what is wrong with a command line that kong has no word for.
func sound(k *kong.Context) error {
	for _, check := range []func(*kong.Context) error{noneEmpty, noneAlone, noneZero, canBeMade} {
		if err := check(k); err != nil {
			return err
		}
	}
	return nil
}

// noneEmpty refuses flags and arguments that are there and say nothing, as of a shell
// variable that is not set: --kernel "$KERNEL" must not run another kernel.
func noneEmpty(k *kong.Context) error {
	for _, p := range k.Path {
		var v reflect.Value
		var name string
		switch {
		case p.Flag != nil:
			v, name = p.Flag.Target, "--"+p.Flag.Name
		case p.Positional != nil:
			v, name = p.Positional.Target, p.Positional.Summary()
		default:
			continue
		}
		empty := v.Kind() == reflect.String && v.Len() == 0
		if list, ok := v.Interface().([]string); ok {
			empty = len(list) == 0 || slices.Contains(list, "")
		}
		if empty {
			return fmt.Errorf("%s is empty; give it a value, or leave it out", name)
		}
	}
	return nil
}

// noneAlone refuses flags that mean nothing without another one, which the tag needs of
// their field names, and which is not there. It says nothing to commands without that one.
func noneAlone(k *kong.Context) error {
	has, given := map[string]bool{}, map[string]bool{}
	for _, f := range k.Selected().Flags {
		has[f.Name] = true
	}
	for _, p := range k.Path {
		if p.Flag != nil {
			given[p.Flag.Name] = true
		}
	}
	for _, p := range k.Path {
		if p.Flag == nil {
			continue
		}
		if other := p.Flag.Tag.Get("needs"); has[other] && !given[other] {
			return fmt.Errorf("--%s goes with --%s", p.Flag.Name, other)
		}
	}
	return nil
}

// noneZero refuses flags with a number that is not above 0, where the tag positive of
// their field asks for one. Left out they may well be 0: without a limit, say.
func noneZero(k *kong.Context) error {
	for _, p := range k.Path {
		if p.Flag == nil || !p.Flag.Tag.Has("positive") {
			continue
		}
		if p.Flag.Target.Int() <= 0 {
			return fmt.Errorf("--%s %v: it is a number above 0", p.Flag.Name, p.Flag.Target)
		}
	}
	return nil
}

// canBeMade refuses a flag for a file or a folder that cannot be made where it is asked
// for. What such a flag makes is in its tag makes: a file, a folder with those above it, or
// a new folder, which must not be there.
func canBeMade(k *kong.Context) error {
	for _, f := range k.Flags() {
		if !f.Tag.Has("makes") || f.Target.String() == "" {
			continue
		}
		if wrong := cannotMake(f.Tag.Get("makes"), f.Target.String()); wrong != "" {
			return fmt.Errorf("--%s %s: %s", f.Name, f.Target, wrong)
		}
	}
	return nil
}

// cannotMake says why something of a kind cannot be made at a path; empty: it can, as far
// as can be seen.
func cannotMake(kind, path string) string {
	info, err := os.Stat(path)
	there, above := err == nil, filepath.Dir(filepath.Clean(path))
	switch {
	case kind == "folder" && (errors.Is(err, unix.ENOTDIR) || there && !info.IsDir()):
		return "it is a file, or below one; give the name of a folder"
	case kind == "folder":
		return ""
	case kind == "new" && there:
		return "it is there already; give another name"
	case kind == "file" && there && info.IsDir():
		return "it is a folder; give the name of a file"
	}
	if info, err := os.Stat(above); err != nil || !info.IsDir() {
		return "there is no folder " + above
	}
	return ""
}
