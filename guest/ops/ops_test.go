package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawOp makes any op that can be written.
func drawOp(t *rapid.T) Op {
	f := rapid.SampledFrom(Forms()).Draw(t, "form")
	o := Op{Verb: f.Verb}
	names := []string{"a", "d/b", "d/e/c-1", "as", "allow"}
	if f.Verb.namesRoot() {
		names = append(names, ".")
	}
	path := rapid.SampledFrom(names)
	handle := rapid.SampledFrom([]string{"@h", "@x1"})
	size := rapid.Custom(func(t *rapid.T) int64 {
		return rapid.Int64Range(0, 1000).Draw(t, "n") << rapid.SampledFrom([]int{0, 10, 20}).Draw(t, "unit")
	})
	length := rapid.Int64Range(1, MaxLength)
	for _, a := range f.args {
		switch a {
		case argFile:
			o.File = rapid.OneOf(path, handle).Draw(t, "file")
		case argPath:
			o.File = path.Draw(t, "path")
		case argTo:
			o.To = path.Draw(t, "to")
		case argInto:
			o.To = rapid.OneOf(path, handle).Draw(t, "into")
		case argDesc:
			o.File = handle.Draw(t, "descriptor")
		case argAs:
			o.Handle = handle.Draw(t, "handle")
		case argRange:
			o.Offset, o.Length = size.Draw(t, "offset"), length.Draw(t, "length")
		case argSize:
			o.Offset = size.Draw(t, "size")
		case argLength:
			o.Length = length.Draw(t, "length")
		case argAt:
			o.At = size.Draw(t, "at")
		case argMode:
			o.Mode = rapid.Uint32Range(0, 0o7777).Draw(t, "mode")
		case argOwner:
			id := rapid.Uint32Max(math.MaxUint32 - 1) // the one above is none, to chown(2)
			o.UID, o.GID = id.Draw(t, "uid"), id.Draw(t, "gid")
		case argTime:
			o.Seconds = rapid.Int64Range(0, 1<<31-1).Draw(t, "seconds")
		case argDelay:
			o.Delay = time.Duration(rapid.Int64Range(0, int64(maxWait)).Draw(t, "delay"))
		case argNode:
			o.Word = rapid.SampledFrom([]string{"fifo", "socket", "char", "block"}).Draw(t, "node")
			if o.Word == "char" || o.Word == "block" {
				o.Major, o.Minor = rapid.Uint32Range(0, 511).Draw(t, "major"), rapid.Uint32Range(0, 255).Draw(t, "minor")
			}
		case argName:
			o.Word = rapid.SampledFrom([]string{"user.x", "trusted.y"}).Draw(t, "name")
		case argValue:
			o.Value = rapid.StringMatching(`[!-~]{1,8}`).Draw(t, "value")
		case argText:
			o.Word = rapid.StringMatching(`[!-~]{1,8}`).Draw(t, "text")
		case argMount:
			o.Word = rapid.SampledFrom([]string{"ro", "rw,noatime"}).Draw(t, "options")
		}
	}
	if len(f.flags) > 0 && rapid.Bool().Draw(t, "flagged") {
		o.Flags = []string{rapid.SampledFrom(f.flags).Draw(t, "flag")}
	}
	if rapid.Bool().Draw(t, "allowing") {
		o.Allow = []string{"ENOENT", "EIO"}
	}
	return o
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawOp(t)
		got, err := Parse(want.String())
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("%q is read as (-want +got), %v:\n%s", want, err, d)
		}
		text, err := json.Marshal(Plan{Ops: []Op{want}, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		var p Plan
		if err := json.Unmarshal(text, &p); err != nil || !cmp.Equal(p, Plan{Ops: []Op{want}, Seed: 3}) {
			t.Fatalf("%s is read as %+v, %v", text, p, err)
		}
	})
}

// TestParseErrors: each message says what is wrong, and points at it.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ op, at, message string }{
		{"", "", "is empty"},
		{"fsnc a", "fsnc a", "is no op"},
		{"sync-file a", "sync-file a", "did you mean"},
		{"rename a", "", "rename lacks NEW; it is written: rename PATH NEW [exchange] [noreplace]"},
		{"unlink .", ".", "the root"},
		{"create /a", "/a", "outside of the tree"},
		{"create d/../a", "../a", "outside of the tree"},
		{"create a//b", "/b", "not a path"},
		{"create @h", "@h", "a path is wanted"},
		{"pwrite a 4096", "4096", "such as 4KiB+512"},
		{"pwrite a 4KiB+4K", "4K", "not a number of bytes"},
		{"pwrite a 0+17MiB", "0+17MiB", "allowed: from 1 to 16MiB"},
		{"pwrite a 0+0", "0+0", "allowed: from 1"},
		{"truncate a -1", "-1", "not a number of bytes"},
		{"chmod a 8", "8", "such as 644"},
		{"chown a 1", "1", "such as 1000:1000"},
		{"chown a 0:4294967295", "0:4294967295", "changes nothing"},
		{"open a @h", "@h", "open lacks as @NAME"},
		{"open a with @h", "with @h", "as, and a name"},
		{"open a as h", "h", "not a descriptor"},
		{"mknod a pipe", "pipe", "allowed: fifo"},
		{"mknod a char:1", "char:1", "char:MAJOR:MINOR"},
		{"setxattr a x y", "x y", "such as user.x"},
		{"fsync a twice", "twice", "does not belong to fsync"},
		{"rename a b exchange noreplace", "noreplace", "contradict"},
		{"unlink a allow", "allow", "names no error"},
		{"unlink a allow ENONE", "ENONE", "no error of errno(3)"},
		{"wait 2h", "2h", "at most 1m0s"},
	} {
		_, err := Parse(c.op)
		var e *ParseError
		if !errors.As(err, &e) || !strings.Contains(e.Message, c.message) || c.op[min(e.At, len(c.op)):] != c.at {
			t.Errorf("%q: %+v; want one with %q at %q", c.op, err, c.message, c.at)
		}
	}
}

func TestCheck(t *testing.T) {
	parse := func(lines ...string) (out []Op) {
		for _, l := range lines {
			o, err := Parse(l)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, o)
		}
		return out
	}
	var many []string
	for range MaxOps + 1 {
		many = append(many, "sync")
	}
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"open a as @h", "fsync @h", "close @h", "open b as @h"}, ""},
		{[]string{"create a", "fsync @h"}, "1 at 6: the descriptor @h is not open here"},
		{[]string{"open a as @h", "close @h", "clone-range a 0+1 @h 0"}, "2 at 18: the descriptor @h is not open"},
		{[]string{"open a as @h", "tmpfile . as @h"}, "1 at 13: the descriptor @h is open already"},
		{[]string{"freeze", "fsync .", "open a as @h", "thaw", "create a", "thaw allow EINVAL"}, ""},
		{[]string{"freeze", "create a"}, "1 at 0: the file system is frozen here"},
		{[]string{"freeze", "open a as @h O_CREAT"}, "1 at 0: the file system is frozen here"},
		{[]string{"freeze", "thaw", "thaw"}, "2 at 0: the file system is not frozen here"},
		{[]string{"create a", "pwrite a 0+100 O_DIRECT"}, "1 at 15: O_DIRECT needs a range of whole sectors"},
		{[]string{"create a", "pwrite a 256+512 O_DIRECT O_DSYNC"}, "1 at 17: O_DIRECT needs a range of whole sectors"},
		{many, "200 at 0: is op 201"},
	} {
		err, got := Check(parse(c.lines...)), ""
		var e *ListError
		if errors.As(err, &e) {
			got = fmt.Sprintf("%d at %d: %s", e.Index, e.At, e.Message)
		}
		if !strings.HasPrefix(got, c.want) || (err == nil) != (c.want == "") {
			t.Errorf("%q: %q, %v; want %q", c.lines, got, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, form := range Forms() {
		f.Add(form.String())
	}
	f.Add("rename a b exchange allow ENOENT")
	f.Fuzz(func(t *testing.T, line string) {
		o, err := Parse(line)
		if err != nil {
			var e *ParseError
			if !errors.As(err, &e) || e.At < 0 || e.At > len(line) {
				t.Fatalf("error %+v", err)
			}
			return
		}
		again, err := Parse(o.String())
		if err != nil || !cmp.Equal(o, again) {
			t.Fatalf("%q is printed as %q and read as %+v, %v", line, o, again, err)
		}
	})
}
