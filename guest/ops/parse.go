package ops

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ParseError says what is wrong with an op, and where in its text.
type ParseError struct {
	At      int // bytes from the beginning
	Message string
}

func (e *ParseError) Error() string { return e.Message }

// Offset is where in the op's text the error is, in bytes.
func (e *ParseError) Offset() int { return e.At }

// word is a word of an op's text, and where it begins.
type word struct {
	text string
	at   int
}

// split cuts a line into words at blanks.
func split(line string) (out []word) {
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' {
			i++
			continue
		}
		end := i
		for end < len(line) && line[end] != ' ' && line[end] != '\t' {
			end++
		}
		out = append(out, word{line[i:end], i})
		i = end
	}
	return out
}

func failAt(at int, format string, args ...any) error {
	return &ParseError{at, fmt.Sprintf(format, args...)}
}

// Parse reads one op. Its error is a *ParseError.
func Parse(line string) (Op, error) {
	words := split(line)
	if len(words) == 0 {
		return Op{}, failAt(0, "is empty; write an op such as: fsync FILE")
	}
	f, ok := formOf(words[0].text)
	if !ok {
		return Op{}, failAt(words[0].at, "%q is no op%s; allowed: %s", words[0].text, near(words[0].text), strings.Join(Verbs(), ", "))
	}
	o := Op{Verb: f.Verb}
	rest := words[1:]
	for _, a := range f.args {
		n := len(strings.Fields(string(a)))
		if len(rest) < n {
			at := len(strings.TrimRight(line, " \t"))
			if len(rest) > 0 {
				at = rest[0].at
			}
			return Op{}, failAt(at, "%s lacks %s; it is written: %s", f.Verb, a, f)
		}
		if err := o.take(a, rest[:n]); err != nil {
			return Op{}, err
		}
		rest = rest[n:]
	}
	return o, o.takeWords(f, rest)
}

// takeWords reads what follows the arguments.
func (o *Op) takeWords(f Form, rest []word) error {
	for i, w := range rest {
		if w.text == "allow" {
			return o.takeAllowed(rest[i+1:], w)
		}
		if !slices.Contains(f.flags, w.text) {
			return failAt(w.at, "%q does not belong to %s; it is written: %s", w.text, f.Verb, f)
		}
		if o.Has(w.text) {
			return failAt(w.at, "%q is there twice", w.text)
		}
		o.Flags = append(o.Flags, w.text)
	}
	modes := slices.DeleteFunc(slices.Clone(o.Flags), func(w string) bool {
		return w != Collapse && w != Insert && w != Exchange && w != NoReplace && (w != KeepSize || o.Has(Unshare))
	})
	if len(modes) > 1 {
		return failAt(rest[len(o.Flags)-1].at, "%s and %s contradict each other", modes[0], modes[1])
	}
	return nil
}

func (o *Op) takeAllowed(rest []word, allow word) error {
	if len(rest) == 0 {
		return failAt(allow.at, "allow names no error; write one or more, such as: allow ENOENT")
	}
	for _, w := range rest {
		if !knownError(w.text) {
			return failAt(w.at, "%q is no error of errno(3), such as ENOENT", w.text)
		}
		o.Allow = append(o.Allow, w.text)
	}
	return nil
}

// knownError tells whether Linux has an error of that name.
func knownError(name string) bool {
	for n := unix.Errno(1); n < 134; n++ {
		if unix.ErrnoName(n) == name {
			return true
		}
	}
	return false
}

var (
	pathPart   = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`)
	handleForm = regexp.MustCompile(`^@[A-Za-z0-9_]+$`)
	attrForm   = regexp.MustCompile(`^(user|trusted|security)\.[A-Za-z0-9_.-]+$`)
	mountForm  = regexp.MustCompile(`^[A-Za-z0-9_.:+=-]+(,[A-Za-z0-9_.:+=-]+)*$`)
	plainForm  = regexp.MustCompile(`^[!-~]+$`)
)

// unchanged is the owner or group that chown(2) leaves as it is.
const unchanged = 1<<32 - 1

// maxText bounds a link's target and an attribute's value, in bytes.
const maxText = 1024

// take reads one argument.
func (o *Op) take(a arg, words []word) (err error) {
	w := words[0]
	wrong := func(example string) error { return failAt(w.at, "%q is not %s, such as %s", w.text, a, example) }
	switch a {
	case argFile, argPath:
		o.File = w.text
		return o.checkFile(w, a == argFile)
	case argTo, argInto:
		o.To = w.text
		return o.checkFile(w, a == argInto)
	case argDesc:
		o.File = w.text
		return checkHandle(w)
	case argAs:
		if w.text != "as" {
			return failAt(w.at, "%q stands where %s is wanted: as, and a name for the descriptor", w.text, a)
		}
		o.Handle = words[1].text
		return checkHandle(words[1])
	case argRange, argSize, argLength, argAt:
		return o.takeBytes(a, w)
	case argMode:
		mode, err := strconv.ParseUint(w.text, 8, 32)
		if err != nil || mode > 0o7777 {
			return wrong("644")
		}
		o.Mode = uint32(mode)
	case argOwner:
		if _, err := fmt.Sscanf(w.text+" ", "%d:%d ", &o.UID, &o.GID); err != nil || fmt.Sprintf("%d:%d", o.UID, o.GID) != w.text {
			return wrong("1000:1000")
		}
		if o.UID == unchanged || o.GID == unchanged {
			return failAt(w.at, "%q is not %s: chown(2) takes %d for none, and changes nothing", w.text, a, uint32(unchanged))
		}
	case argTime:
		if o.Seconds, err = strconv.ParseInt(w.text, 10, 64); err != nil || o.Seconds < 0 || o.Seconds > 1<<31-1 {
			return wrong("1000000000")
		}
	case argDelay:
		if o.Delay, err = time.ParseDuration(w.text); err != nil || o.Delay < 0 || o.Delay > maxWait {
			return wrong("500ms, of at most " + maxWait.String())
		}
	case argNode:
		return o.takeNode(w)
	default:
		return o.takeText(a, w)
	}
	return nil
}

// takeText reads an argument that is a text.
func (o *Op) takeText(a arg, w word) error {
	example := map[arg]string{argName: "user.x", argMount: "ro", argText: "a", argValue: "x"}[a]
	into, form := &o.Word, plainForm
	switch a {
	case argName:
		form = attrForm
	case argMount:
		form = mountForm
	case argValue:
		into = &o.Value
	}
	if !form.MatchString(w.text) || len(w.text) > maxText {
		return failAt(w.at, "%q is not %s, such as %s", w.text, a, example)
	}
	*into = w.text
	return nil
}

func (o *Op) takeNode(w word) error {
	kind, device, has := strings.Cut(w.text, ":")
	switch {
	case (kind == "fifo" || kind == "socket") && !has:
	case kind == "char" || kind == "block":
		if _, err := fmt.Sscanf(device+" ", "%d:%d ", &o.Major, &o.Minor); err != nil ||
			fmt.Sprintf("%d:%d", o.Major, o.Minor) != device || o.Major > 511 || o.Minor > 1<<19 {
			return failAt(w.at, "%q is not %s:MAJOR:MINOR, such as %s:1:3", w.text, kind, kind)
		}
	default:
		return failAt(w.at, "%q is no special file; allowed: fifo, socket, char:MAJOR:MINOR, block:MAJOR:MINOR", w.text)
	}
	o.Word = kind
	return nil
}

// namesRoot tells whether an op of the verb may be about the root itself.
func (v Verb) namesRoot() bool {
	switch v {
	case Open, Tmpfile, SetXattr, RemoveXattr, Chmod, Chown, Utimes, Fsync, Fdatasync:
		return true
	}
	return false
}

// checkFile demands a path below the root, or a descriptor where one may stand.
func (o *Op) checkFile(w word, handle bool) error {
	if strings.HasPrefix(w.text, "@") {
		if !handle {
			return failAt(w.at, "%q is a descriptor, and a path is wanted here", w.text)
		}
		return checkHandle(w)
	}
	if w.text == "." && !o.Verb.namesRoot() {
		return failAt(w.at, "%s cannot be done to the root of the file system", o.Verb)
	}
	if w.text == "." {
		return nil
	}
	if strings.HasPrefix(w.text, "/") {
		return failAt(w.at, "%q is outside of the tree: a path begins at the root of the file system under test, without a slash", w.text)
	}
	at := w.at
	for part := range strings.SplitSeq(w.text, "/") {
		switch {
		case part == ".." || part == ".":
			return failAt(at, "%q is outside of the tree, or may be: write paths without . and ..", w.text)
		case !pathPart.MatchString(part) || len(part) > 255:
			return failAt(at, "%q is not a path below the root; write names of letters, digits, _ . and -, with a slash between them", w.text)
		}
		at += len(part) + 1
	}
	return nil
}

func checkHandle(w word) error {
	if !handleForm.MatchString(w.text) {
		return failAt(w.at, "%q is not a descriptor, such as @a", w.text)
	}
	return nil
}

// takeBytes reads sizes and offsets.
func (o *Op) takeBytes(a arg, w word) error {
	into := []*int64{&o.Offset}
	parts := []string{w.text}
	switch a {
	case argLength:
		into[0] = &o.Length
	case argAt:
		into[0] = &o.At
	case argRange:
		into, parts = []*int64{&o.Offset, &o.Length}, strings.Split(w.text, "+")
	}
	if len(parts) != len(into) {
		return failAt(w.at, "%q is not %s, such as 4KiB+512", w.text, a)
	}
	at := w.at
	for i, p := range parts {
		n, ok := parseBytes(p)
		if !ok {
			return failAt(at, "%q is not a number of bytes, such as 512 or 4KiB, of at most %s", p, formatBytes(MaxOffset))
		}
		*into[i], at = n, at+len(p)+1
	}
	writes := o.Verb == Write || o.Verb == Append || o.Verb == Pwrite || o.Verb == MmapWrite
	if (a == argRange || a == argLength) && (o.Length == 0 && o.Verb != Write || writes && o.Length > MaxLength) {
		return failAt(w.at, "%s of %s bytes; allowed: from 1 to %s", o.Verb, formatBytes(o.Length), formatBytes(MaxLength))
	}
	return nil
}

var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func parseBytes(text string) (int64, bool) {
	unit := int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = rest, u.size
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || text[0] == '+' || n > MaxOffset/unit {
		return 0, false
	}
	return n * unit, true
}

func formatBytes(n int64) string {
	for _, u := range byteUnits {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprint(n/u.size) + u.name
		}
	}
	return fmt.Sprint(n)
}

// near proposes the verb that begins like word, or ends like it.
func near(word string) string {
	for _, v := range Verbs() {
		if len(word) > 2 && (strings.HasPrefix(v, word[:3]) || strings.HasSuffix(v, word)) {
			return fmt.Sprintf(" (did you mean %s?)", v)
		}
	}
	return ""
}
