package promise

import "fmt"

// Class is what a finding breaks.
type Class string

// The classes.
const (
	// Promised: what a sync call promised by the letter is lost.
	Promised Class = "lost, promised"
	// Customary: what file systems of this kind keep by custom is lost, and no manual
	// page promises it: the name of a new file that was synced, say.
	Customary Class = "lost, customary"
	// Forbidden: what may never be found, whatever was synced: a renamed file under
	// both names or under none, bytes that nobody wrote, a link count that is wrong, a
	// directory that cannot be removed.
	Forbidden Class = "never allowed"
	// Unpromised: older than it was at the cut, as it may be.
	Unpromised Class = "lost, not promised"
)

// Finding is one thing that is not as it was at the cut.
type Finding struct {
	Class  Class  `json:"class"`
	Path   string `json:"path"`
	Aspect string `json:"aspect"` // name, type, size, content, mode, owner, mtime, an attribute …
	Found  string `json:"found"`
	Want   string `json:"want,omitempty"`
	// Sync is the op, from 1, that promised it; 0 where none did.
	Sync int `json:"sync,omitempty"`
}

// Text says what was found, what should have been, and which of the ops promised it.
func (f Finding) Text(ops []string) string {
	text := fmt.Sprintf("%s: %s", f.Aspect, f.Found)
	if f.Want != "" {
		text += ", not " + f.Want
	}
	if f.Sync > 0 && f.Sync <= len(ops) {
		text += fmt.Sprintf(" (op %d: %s)", f.Sync, ops[f.Sync-1])
	}
	return text
}

// Counts adds up. A thing is a name, or of an inode one of its aspects.
type Counts struct {
	Ops       int `json:"ops"`       // begun
	Syncs     int `json:"syncs"`     // sync calls that succeeded
	Failed    int `json:"failed"`    // ops with an error that they do not allow
	Kept      int `json:"kept"`      // things as they were at the cut, because that was promised
	Custom    int `json:"custom"`    // … because that is custom
	Luck      int `json:"luck"`      // … though nothing promised it
	Lost      int `json:"lost"`      // Promised
	Customary int `json:"customary"` // Customary
	Forbidden int `json:"forbidden"`
	Undone    int `json:"undone"` // Unpromised
}

// Result is the verdict on one recovered tree.
type Result struct {
	Counts      Counts       `json:"counts"`
	Findings    []Finding    `json:"findings"` // the gravest first
	Unsupported *Unsupported `json:"unsupported,omitempty"`
	// Doubted are the ops, from 1, that are sync calls which succeeded after an error, and
	// promise nothing: an error is reported once, what could not be written may be dropped,
	// a journal that was given up commits nothing (fsync(2), EIO), and sync(2) tells of none.
	Doubted []int `json:"doubted,omitempty"`
}

// Broken tells whether anything was lost that should not be, or found that may not be.
func (r Result) Broken() bool { return r.Counts.Lost+r.Counts.Customary+r.Counts.Forbidden > 0 }

// add counts a finding.
func (c *Counts) add(class Class) {
	switch class {
	case Promised:
		c.Lost++
	case Customary:
		c.Customary++
	case Forbidden:
		c.Forbidden++
	case Unpromised:
		c.Undone++
	}
}

// weight orders findings, and readings of a tree: the one that accuses least is right.
func (c Class) weight() int {
	switch c {
	case Forbidden:
		return 1_000_000
	case Promised:
		return 1_000_000 - 1
	case Customary:
		return 1000
	}
	return 1
}
