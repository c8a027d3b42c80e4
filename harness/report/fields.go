package report

import (
	"fmt"
	"reflect"
	"strings"

	"powercut/harness/trace"
)

// Fields describes every field of the JSON documents as Markdown: its path, its
// type and its meaning. It reads the types themselves: the json tags, and the
// doc tags or, for types of the packages that judge, meanings.
func Fields() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# JSON of a run\n\n")
	fmt.Fprintf(&b, "One run is one object. `[]` in a path stands for each element of a list; a field marked optional\nis absent where there is nothing to say.\n\n")
	describe(&b, reflect.TypeFor[Document](), "")
	fmt.Fprintf(&b, "\n# JSON of several runs\n\n")
	describe(&b, reflect.TypeFor[Combined](), "")
	return b.String()
}

// FieldsOf describes every field of a struct that is written as JSON, in the same way.
func FieldsOf(t reflect.Type) string {
	var b strings.Builder
	describe(&b, t, "")
	return b.String()
}

// describe writes a line for each field of the struct t, whose path is prefix,
// and for the fields below it.
func describe(b *strings.Builder, t reflect.Type, prefix string) {
	for f := range fieldsOf(t) {
		if f.Anonymous {
			describe(b, f.Type, prefix)
			continue
		}
		name, optional := jsonName(f)
		kind, below := kindOf(f.Type)
		if optional {
			kind += ", optional"
		}
		fmt.Fprintf(b, "- `%s%s` (%s): %s\n", prefix, name, kind, meaning(t, f))
		// The runs of a Combined are described in full before it.
		if below == nil || below == reflect.TypeFor[Document]() {
			continue
		}
		describe(b, below, prefix+name+step(f.Type))
	}
}

// fieldsOf yields the exported fields of a struct.
func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

func step(t reflect.Type) string {
	if t.Kind() == reflect.Slice {
		return "[]."
	}
	return "."
}

func jsonName(f reflect.StructField) (name string, optional bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, strings.Contains(options, "omit")
}

// kindOf names a type as JSON has it; below is the struct inside, if any.
func kindOf(t reflect.Type) (kind string, below reflect.Type) {
	switch t.Kind() {
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Float64:
		return "number", nil
	case reflect.Uint64:
		return "integer, up to 2^64-1", nil
	case reflect.Struct:
		return "object", t
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Slice:
		kind, below = kindOf(t.Elem())
		kind, limit, _ := strings.Cut(kind, ",")
		return strings.TrimSuffix("list of "+kind+"s,"+limit, ","), below
	}
	return "integer", nil
}

// meaning says what the field f of the struct t means, or "" if nobody says so.
func meaning(t reflect.Type, f reflect.StructField) string {
	s := f.Tag.Get("doc")
	if s == "" {
		s = meanings()[t.String()+"."+f.Name]
	}
	if f.Type == reflect.TypeFor[trace.Reason]() {
		return s + "; one of " + quoted(append(trace.LostReasons(), trace.Unknown))
	}
	return s
}

// quoted lists the values of a field.
func quoted[S ~string](values []S) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprintf("`%s`", v))
	}
	return strings.Join(list, ", ")
}

// meanings describes the fields of types that other packages define without doc tags.
func meanings() map[string]string {
	return map[string]string{
		"verdict.Counts.Ops":        "ops that had begun",
		"verdict.Counts.Acked":      "of these, ops whose sync call returned success before the cut",
		"verdict.Counts.Kept":       "acked, and each byte is the op's own or that of a later op",
		"verdict.Counts.Lost":       "acked, and at least one byte that was promised is older than the op, or the file is too short for it",
		"verdict.Counts.Unpromised": "acked, and at least one byte is older than the op, but none of those that the call promised: FAULT_MODEL.md, section 2",
		"verdict.Counts.Early":      "not acked, yet there in full",
		"verdict.Counts.Absent":     "not acked, and not there",
		"verdict.Counts.Torn":       "not acked, and there in part",
		"verdict.Counts.Foreign":    "acked or not: at least one byte that no op ever wrote there",
		"verdict.Counts.Failed":     "the write or the sync call returned an error",
		"verdict.Counts.Ambiguous":  "of the kept, ops of which each byte could also be older content with an equal stamp",

		"verdict.Recovery.Class":   "recovered, mount failed, fsck failed, read failed, oops or hang; empty where no recovery was attempted",
		"verdict.Recovery.Detail":  "the error, in words",
		"verdict.Recovery.Console": "the console's last lines, where the class is not recovered",

		"verdict.OpVerdict.Op":      "number of the op, from 1",
		"verdict.OpVerdict.Extent":  "the bytes of the file that it wrote",
		"verdict.OpVerdict.Acked":   "its sync call returned success before the cut",
		"verdict.OpVerdict.Class":   "lost or foreign",
		"verdict.OpVerdict.Missing": "from the first to the last of its bytes that is older than the op or, where the class is foreign, that no op wrote",
		"verdict.OpVerdict.Found":   "what is there instead, in words",

		"promise.Result.Counts":      "adds up",
		"promise.Result.Findings":    "all that is not as it was at the cut, the gravest first",
		"promise.Result.Doubted":     "the ops, from 1, that are sync calls which succeeded after an error of the drive or of a sync call, and so promise nothing",
		"promise.Result.Unsupported": "the op that the kernel or the file system does not know; nothing is judged then",

		"promise.Unsupported.Op":     "its number, from 1",
		"promise.Unsupported.Text":   "the op",
		"promise.Unsupported.Errno":  "its error, such as EOPNOTSUPP",
		"promise.Unsupported.Partly": "it is known, and may have done a part of its work: a write that ran out of room, say",

		"promise.Counts.Ops":       "ops that had begun",
		"promise.Counts.Syncs":     "sync calls that succeeded before the cut",
		"promise.Counts.Failed":    "ops with an error that they do not allow",
		"promise.Counts.Kept":      "things (names, and of each inode its aspects) as they were at the cut, because that was promised",
		"promise.Counts.Custom":    "the same, because that is custom",
		"promise.Counts.Luck":      "the same, though nothing promised it",
		"promise.Counts.Lost":      "findings of class `lost, promised`",
		"promise.Counts.Customary": "findings of class `lost, customary`",
		"promise.Counts.Forbidden": "findings of class `never allowed`",
		"promise.Counts.Undone":    "findings of class `lost, not promised`",

		"promise.Finding.Class":  "`lost, promised`, `lost, customary`, `never allowed` or `lost, not promised`",
		"promise.Finding.Path":   "the path below the root of the file system",
		"promise.Finding.Aspect": "what of it: name, rename, size, content, mode, owner, mtime, blocks, link count, an attribute ...",
		"promise.Finding.Found":  "what is there, in words",
		"promise.Finding.Want":   "what was promised, in words",
		"promise.Finding.Sync":   "the op that promised it, from 1; absent where none did",

		"workload.Extent.Offset": "bytes from the start of the file",
		"workload.Extent.Length": "bytes",

		"trace.Bill.Ops":            "completed ops that the bill is for",
		"trace.Bill.DataWrites":     "write requests that carry the file's data",
		"trace.Bill.JournalWrites":  "writes to the journal",
		"trace.Bill.MetadataWrites": "writes of other metadata",
		"trace.Bill.Flushes":        "flush requests",
		"trace.Bill.FUAWrites":      "writes with the FUA flag, of whatever class",
		"trace.Bill.DriveTime":      "time in which a request of the op was between arrival and reply, nanoseconds",
		"trace.Bill.GuestTime":      "time that the op took besides, nanoseconds: the guest's processor and its queue; the median over the ops. 0 where ops run at the same time",
	}
}
