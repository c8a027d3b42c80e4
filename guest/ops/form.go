package ops

import (
	"fmt"
	"strings"
)

// Form says how the ops of a verb are written.
type Form struct {
	Verb    Verb
	Meaning string
	args    []arg
	flags   []string
}

// arg is a kind of argument, by the name that messages and the reference give it.
type arg string

const (
	argFile   arg = "FILE"          // a path or a descriptor
	argPath   arg = "PATH"          // a path
	argTo     arg = "NEW"           // a path, into To
	argInto   arg = "INTO"          // a path or a descriptor, into To
	argDesc   arg = "@NAME"         // a descriptor
	argAs     arg = "as @NAME"      // two words
	argRange  arg = "OFFSET+LENGTH" // bytes
	argSize   arg = "SIZE"          // into Offset
	argLength arg = "LENGTH"
	argAt     arg = "OFFSET" // into At
	argMode   arg = "MODE"   // octal
	argOwner  arg = "UID:GID"
	argTime   arg = "SECONDS"
	argDelay  arg = "DURATION"
	argText   arg = "TARGET"
	argName   arg = "NAME"
	argValue  arg = "VALUE"
	argNode   arg = "TYPE" // fifo, socket, or char:MAJOR:MINOR, block:MAJOR:MINOR
	argMount  arg = "OPTIONS"
)

// forms lists all verbs, in the order of the reference.
var forms = []Form{
	{Create, "a new, empty file of mode 644; EEXIST where the name is taken", []arg{argPath}, nil},
	{Mkdir, "a new directory of mode 755", []arg{argPath}, nil},
	{Write, "the file as the shell's > writes it: created or truncated, LENGTH bytes from offset 0, closed", []arg{argFile, argLength}, nil},
	{Append, "LENGTH bytes at the end of an existing file", []arg{argFile, argLength}, []string{Direct, OSync, ODsync}},
	{Pwrite, "the bytes of a range of an existing file", []arg{argFile, argRange}, []string{Direct, OSync, ODsync}},
	{MmapWrite, "the same through a shared mapping, within the file's size", []arg{argFile, argRange}, nil},
	{Truncate, "the file's size", []arg{argFile, argSize}, nil},
	{Fallocate, "blocks reserved for a range; or with a word another mode of fallocate(2)", []arg{argFile, argRange}, []string{KeepSize, Collapse, Insert, Unshare}},
	{Punch, "a hole (FALLOC_FL_PUNCH_HOLE, with KEEP_SIZE)", []arg{argFile, argRange}, nil},
	{ZeroRange, "zeros, with blocks reserved (FALLOC_FL_ZERO_RANGE)", []arg{argFile, argRange}, []string{KeepSize}},
	{Clone, "all of a file shared with another, created or truncated (FICLONE)", []arg{argFile, argTo}, nil},
	{CloneRange, "a range of a file shared with another existing one (FICLONERANGE)", []arg{argFile, argRange, argInto, argAt}, nil},
	{Link, "a further name of a file; of a descriptor, as linkat of /proc/self/fd", []arg{argFile, argTo}, nil},
	{Symlink, "a symbolic link that holds TARGET", []arg{argText, argTo}, nil},
	{Rename, "another name, in place of what is there", []arg{argPath, argTo}, []string{Exchange, NoReplace}},
	{Unlink, "a name less", []arg{argPath}, nil},
	{Rmdir, "an empty directory less", []arg{argPath}, nil},
	{SetXattr, "an extended attribute, such as user.x", []arg{argFile, argName, argValue}, nil},
	{RemoveXattr, "one less", []arg{argFile, argName}, nil},
	{Chmod, "permission bits, octal", []arg{argFile, argMode}, nil},
	{Chown, "owner and group, as numbers", []arg{argFile, argOwner}, nil},
	{Utimes, "both time stamps, in seconds since the epoch", []arg{argFile, argTime}, nil},
	{Mknod, "a special file: fifo, socket, char:MAJOR:MINOR or block:MAJOR:MINOR", []arg{argPath, argNode}, nil},
	{Tmpfile, "a file without a name in that directory (O_TMPFILE)", []arg{argPath, argAs}, nil},
	{Open, "a descriptor that stays open", []arg{argPath, argAs}, []string{OCreat, OTrunc, Direct}},
	{Close, "it closed", []arg{argDesc}, nil},
	{DropCaches, "clean pages, names and inodes forgotten (/proc/sys/vm/drop_caches)", nil, nil},
	{Wait, "time, for the kernel's own writeback", []arg{argDelay}, nil},
	{Remount, "other mount options; ro is a sync call too", []arg{argMount}, nil},
	{Freeze, "the file system frozen (FIFREEZE), which is a sync call too", nil, nil},
	{Thaw, "and thawed", nil, nil},
	{Fsync, "fsync of a file or directory", []arg{argFile}, nil},
	{Fdatasync, "fdatasync", []arg{argFile}, nil},
	{Msync, "msync(MS_SYNC) of a shared mapping of a range", []arg{argFile, argRange}, nil},
	{SyncFileRange, "sync_file_range with all its flags, which promises nothing", []arg{argFile, argRange}, nil},
	{Syncfs, "syncfs of the file system", nil, nil},
	{Sync, "sync of all file systems", nil, nil},
}

// Forms lists how each op is written, for a reference.
func Forms() []Form { return forms }

// String is the form in one line: "pwrite FILE OFFSET+LENGTH [O_DIRECT] …".
func (f Form) String() string {
	text := string(f.Verb)
	for _, a := range f.args {
		text += " " + string(a)
	}
	for _, w := range f.flags {
		text += " [" + w + "]"
	}
	return text
}

func formOf(v string) (Form, bool) {
	for _, f := range forms {
		if string(f.Verb) == v {
			return f, true
		}
	}
	return Form{}, false
}

// Verbs lists all verbs.
func Verbs() []string {
	out := make([]string, len(forms))
	for i, f := range forms {
		out[i] = string(f.Verb)
	}
	return out
}

// String is the op as Parse reads it.
func (o Op) String() string {
	f, ok := formOf(string(o.Verb))
	if !ok {
		return string(o.Verb)
	}
	words := []string{string(o.Verb)}
	for _, a := range f.args {
		words = append(words, o.argument(a))
	}
	words = append(words, o.Flags...)
	if len(o.Allow) > 0 {
		words = append(append(words, "allow"), o.Allow...)
	}
	return strings.Join(words, " ")
}

// argument prints one argument.
func (o Op) argument(a arg) string {
	switch a {
	case argFile, argPath, argDesc:
		return o.File
	case argTo, argInto:
		return o.To
	case argAs:
		return "as " + o.Handle
	case argRange:
		return formatBytes(o.Offset) + "+" + formatBytes(o.Length)
	case argSize:
		return formatBytes(o.Offset)
	case argLength:
		return formatBytes(o.Length)
	case argAt:
		return formatBytes(o.At)
	case argMode:
		return fmt.Sprintf("%03o", o.Mode)
	case argOwner:
		return fmt.Sprintf("%d:%d", o.UID, o.GID)
	case argTime:
		return fmt.Sprint(o.Seconds)
	case argDelay:
		return o.Delay.String()
	case argValue:
		return o.Value
	case argNode:
		if o.Word == "char" || o.Word == "block" {
			return fmt.Sprintf("%s:%d:%d", o.Word, o.Major, o.Minor)
		}
		return o.Word
	}
	return o.Word
}

// MarshalText is String, for JSON.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText is Parse.
func (o *Op) UnmarshalText(b []byte) (err error) {
	*o, err = Parse(string(b))
	return err
}
