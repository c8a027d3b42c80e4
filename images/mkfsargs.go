package images

import (
	"fmt"
	"slices"
	"strings"
)

// mkfsOption is one option; Value is "" for one without.
type mkfsOption struct {
	flag  byte
	value string
}

// arguments returns all arguments of mkfs but the disk: the defaults, and the
// user's options after them, so that the user's win. -E options are merged.
func (f Format) arguments() ([]string, error) {
	kind, err := familyOf(f.Type)
	if err != nil {
		return nil, err
	}
	if f.Size < kind.least || f.Size > MaxDisk || f.Size%DiskUnit != 0 {
		return nil, fmt.Errorf("size is %d bytes: it must be from %d to %d and a multiple of %d", f.Size, kind.least, int64(MaxDisk), DiskUnit)
	}
	options, err := kind.parse(f.Options)
	if err != nil {
		return nil, err
	}
	if f.Journal > 0 {
		if f.Type != "ext3" && f.Type != "ext4" || f.Journal%DiskUnit != 0 {
			return nil, fmt.Errorf("a journal of %d bytes on a disk of its own: it must be of ext3 or ext4, and a multiple of %d", f.Journal, DiskUnit)
		}
		// It is given one afterwards. What is called mkfs.ext3 makes one of its own all the same.
		options = append([]mkfsOption{{'t', f.Type}}, withoutJournal(options)...)
	}
	return append(slices.Clone(kind.fixed), kind.spell(options)...), nil
}

// withoutJournal adds to the features that are asked for that there is no journal. Of
// several lists of features mke2fs takes the last.
func withoutJournal(options []mkfsOption) []mkfsOption {
	for i := len(options) - 1; i >= 0; i-- {
		if options[i].flag == 'O' {
			options[i].value += ",^has_journal"
			return options
		}
	}
	return append(options, mkfsOption{'O', "^has_journal"})
}

// spell returns options as arguments.
func spell(options []mkfsOption) (args []string) {
	for _, o := range options {
		args = append(args, "-"+string(o.flag))
		if o.value != "" {
			args = append(args, o.value)
		}
	}
	return args
}

// spellExt adds to options for mke2fs what is set unless they set it.
func spellExt(options []mkfsOption) (args []string) {
	if !slices.ContainsFunc(options, func(o mkfsOption) bool { return o.flag == 'b' }) {
		args = append(args, "-b", "4096")
	}
	extended := []string{"hash_seed=" + diskHashSeed, "lazy_itable_init=0", "lazy_journal_init=0", "nodiscard"}
	var rest []mkfsOption
	for _, o := range options {
		if o.flag == 'E' {
			extended = mergeExtended(extended, strings.Split(o.value, ","))
		} else {
			rest = append(rest, o)
		}
	}
	args = append(args, "-E", strings.Join(extended, ","))
	return append(args, spell(rest)...)
}

// parse splits arguments into options: "-b", "1024" and "-b1024" are the same, as for
// getopt(3). Words that are no option are refused: mkfs would take such a word for
// the disk.
func (k family) parse(args []string) ([]mkfsOption, error) {
	var options []mkfsOption
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' {
			return nil, fmt.Errorf("mkfs option %q does not begin with a dash", arg)
		}
		o := mkfsOption{flag: arg[1], value: arg[2:]}
		switch {
		case strings.IndexByte(k.plain, o.flag) >= 0 && o.value == "":
		case strings.IndexByte(k.valued, o.flag) < 0:
			return nil, fmt.Errorf("mkfs option %q is not allowed: the allowed ones are -%s with a value, -%s without", arg, strings.Join(strings.Split(k.valued, ""), " -"), strings.Join(strings.Split(k.plain, ""), " -"))
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
