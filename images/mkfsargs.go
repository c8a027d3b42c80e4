package images

import (
	"fmt"
	"slices"
	"strings"
)

// Options of mke2fs(8) with and without a value. Others, and words that are no
// option, are refused: mkfs would take such a word for the disk.
const (
	mkfsValued = "bCeEgGiIJLmMNoOrTU"
	mkfsPlain  = "DFjqSv"
)

// mkfsOption is one option; Value is "" for one without.
type mkfsOption struct {
	flag  byte
	value string
}

// arguments returns all arguments of mkfs but the disk: the defaults, and the
// user's options after them, so that the user's win. -E options are merged.
func (f Format) arguments() ([]string, error) {
	if !slices.Contains(Formats(), f.Type) {
		return nil, fmt.Errorf("unknown file system %q: it may be one of %s", f.Type, strings.Join(Formats(), ", "))
	}
	if f.Size < MinDisk || f.Size > MaxDisk || f.Size%DiskUnit != 0 {
		return nil, fmt.Errorf("size is %d bytes: it must be from %d to %d and a multiple of %d", f.Size, int64(MinDisk), int64(MaxDisk), DiskUnit)
	}
	options, err := parseMkfs(f.Options)
	if err != nil {
		return nil, err
	}
	args := []string{"-q", "-F", "-U", diskUUID, "-L", diskLabel}
	if !slices.ContainsFunc(options, func(o mkfsOption) bool { return o.flag == 'b' }) {
		args = append(args, "-b", "4096")
	}
	extended := []string{"hash_seed=" + diskHashSeed, "lazy_itable_init=0", "lazy_journal_init=0", "nodiscard"}
	var rest []string
	for _, o := range options {
		switch {
		case o.flag == 'E':
			extended = mergeExtended(extended, strings.Split(o.value, ","))
		case strings.IndexByte(mkfsValued, o.flag) >= 0:
			rest = append(rest, "-"+string(o.flag), o.value)
		default:
			rest = append(rest, "-"+string(o.flag))
		}
	}
	args = append(args, "-E", strings.Join(extended, ","))
	return append(args, rest...), nil
}

// parseMkfs splits arguments into options: "-b", "1024" and "-b1024" are the
// same, as for getopt(3).
func parseMkfs(args []string) ([]mkfsOption, error) {
	var options []mkfsOption
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' {
			return nil, fmt.Errorf("mkfs option %q does not begin with a dash", arg)
		}
		o := mkfsOption{flag: arg[1], value: arg[2:]}
		switch {
		case strings.IndexByte(mkfsPlain, o.flag) >= 0 && o.value == "":
		case strings.IndexByte(mkfsValued, o.flag) < 0:
			return nil, fmt.Errorf("mkfs option %q is not allowed: the allowed ones are -%s with a value, -%s without", arg, strings.Join(strings.Split(mkfsValued, ""), " -"), strings.Join(strings.Split(mkfsPlain, ""), " -"))
		case o.value == "":
			if i++; i == len(args) {
				return nil, fmt.Errorf("mkfs option %q needs a value", arg)
			}
			o.value = args[i]
		}
		options = append(options, o)
	}
	return options, nil
}

// mergeExtended adds the user's -E options to the defaults. One of the same
// name takes a default's place; discard is the opposite of nodiscard.
func mergeExtended(defaults, user []string) []string {
	merged := slices.Clone(defaults)
	for _, option := range user {
		if option == "" {
			continue
		}
		name := extendedName(option)
		merged = slices.DeleteFunc(merged, func(o string) bool { return extendedName(o) == name })
		merged = append(merged, option)
	}
	return merged
}

func extendedName(option string) string {
	name, _, _ := strings.Cut(option, "=")
	if name == "discard" {
		return "nodiscard"
	}
	return name
}
