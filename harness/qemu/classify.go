package qemu

import (
	"fmt"
	"regexp"
)

// Kind is a class of trouble that a kernel reports on its console.
type Kind string

// The kinds, gravest first.
const (
	Panic   Kind = "panic"    // the kernel gave up; the machine is gone
	Oops    Kind = "oops"     // a bug was hit: fault, BUG(), sanitizer report
	Hang    Kind = "hang"     // a task, processor or lock does not get on
	OOM     Kind = "oom"      // memory ran out and something was killed
	FSError Kind = "fs error" // a file system or its journal found damage or could not go on
	IOError Kind = "io error" // the drive, or the way to it, failed a request
	Warning Kind = "warning"  // WARN(), lockdep, a file system's warning
)

// Finding is one line of a console that tells of trouble.
type Finding struct {
	Kind Kind
	Line int    // counted from 1
	Text string // the line, without time stamp and level
}

// String gives kind, line number and text.
func (f Finding) String() string { return fmt.Sprintf("%s, line %d: %s", f.Kind, f.Line, f.Text) }

// maxFindings bounds what Classify reports: a broken drive fills a console with
// one and the same line.
const maxFindings = 1000

// stamped is what the kernel puts before a message: a level if printed raw, the
// time in seconds (printk.time), and task or processor (CONFIG_PRINTK_CALLER).
// The message may stand behind an unfinished line of firmware or a program.
var stamped = regexp.MustCompile(`^.*?(?:<\d+>)?\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? `)

// rules are tried in order, the first that matches a line names its kind. They
// match at the start of a message: a guest that prints such words elsewhere is
// not in trouble. Sources of the texts: kernel/panic.c, arch/x86/mm/fault.c,
// arch/x86/kernel/traps.c and dumpstack.c, kernel/hung_task.c,
// kernel/watchdog.c, kernel/rcu/tree_stall.h, lib/bug.c, mm/oom_kill.c,
// mm/kasan/report.c, lib/ubsan.c, block/blk-core.c, fs/buffer.c,
// drivers/ata/libata-*.c, fs/{ext2,ext4}/super.c, fs/jbd2, fs/xfs/xfs_error.c
// and xfs_mount.c, fs/btrfs/messages.c, fs/f2fs, fs/jfs and fs/nilfs2.
var rules = []struct {
	kind    Kind
	pattern *regexp.Regexp
}{
	{Panic, starts(`Kernel panic - not syncing`)},
	{Hang, starts(`(?:watchdog: )?BUG: (?:soft lockup|workqueue lockup)`, `(?:watchdog: )?Watchdog detected hard LOCKUP`)},
	{Hang, starts(`INFO: task .+ blocked (?:for more than|in I/O wait for more than) \d+ seconds`)},
	{Hang, starts(`(?:rcu: )?INFO: rcu\w* (?:self-)?detected (?:expedited )?stalls?`, `rcu: \w+ kthread starved for`)},
	{Warning, starts(`BUG: (?:sleeping function called from invalid context|using \w+\(\) in preemptible)`, `BUG: workqueue leaked`)},
	{Oops, starts(`BUG: `, `Oops: `, `kernel BUG at `, `general protection fault`, `stack segment: `, `divide error: `, `invalid opcode: `)},
	{Oops, starts(`Unable to handle kernel `, `Internal error: Oops`, `UBSAN: `, `kernel tried to execute NX-protected page`, `refcount_t: .*(?:use-after-free|memory leak)`)},
	{OOM, starts(`(?:Memory cgroup o|O)ut of memory: Killed process`, `.+ invoked oom-killer: `, `oom-kill:`, `Out of memory and no killable processes`)},
	{Warning, starts(`WARNING: `, `INFO: trying to register non-static key`, `EXT[234]-fs warning`, `BTRFS warning`, `possible (?:circular|recursive) locking`)},
	{FSError, starts(
		`EXT[234]-fs error`,
		`EXT[234]-fs \([^)]*\): (?:error|Remounting filesystem read-only|failed to |group descriptors corrupted|bad |ext4_check_descriptors|no journal found|journal inode is deleted|[Dd]elayed block allocation failed|initial error at|last error at|write access unavailable|This should not happen|warning: mounting)`,
		`EXT[234]-fs \([^)]*\): .*(?:[Cc]an't |[Cc]orrupt|[Cc]hecksum|unable to |[Ii]nvalid |Failed )`,
		`Aborting journal on device`,
		`JBD2?: .*(?:[Ee]rror|no valid |[Ff]ailed|[Ii]nvalid|[Cc]orrupt|[Cc]hecksum|Detected)`,
		`XFS \([^)]*\): .*(?:[Cc]orrupt|[Ee]rror|[Ff]ail|Shutting down|shut down|[Mm]ismatch|Invalid|Bad )`,
		`XFS: Assertion failed`,
		`BTRFS(?: \([^)]*\))?: (?:error|failed|critical)`, `BTRFS (?:error|critical)`,
		`F2FS-fs \([^)]*\): .*(?:[Cc]orrupt|[Ii]nvalid|[Cc]an't |[Ff]ail|[Ii]nconsistent|[Mm]ismatch)`,
		`ERROR: \(device [^)]*\): `, // jfs_error, fs/jfs/super.c
		`NILFS error \(device `, `NILFS(?: \([^)]*\))?: .*(?:error|broken|[Ii]nvalid|corrupt|unable to)`,
		`VFS: (?:Can't find|Cannot open root device|Busy inodes after unmount)`,
	)},
	{IOError, starts(
		`(?:blk_update_request: )?(?:I/O|critical (?:target|nexus|medium|space allocation)) error, dev `,
		`blk_update_request: .* error`, `blk_print_req_error: `,
		`Buffer I/O error on dev`, `lost page write due to I/O error`,
		`ata\d+(?:\.\d+)?: (?:exception Emask|failed command|status: \{.*ERR|error: \{|SRST failed|COMRESET failed|disabled|lost interrupt)`,
		`sd \S+ \[\w+\] (?:tag#\d+ )?(?:FAILED Result|Sense Key : (?:Medium|Hardware) Error)`,
		`nvme nvme\d+: (?:I/O .*timeout|controller is down|Device not ready)`,
	)},
}

// starts matches a message that begins with one of the patterns.
func starts(patterns ...string) *regexp.Regexp {
	all := ""
	for i, p := range patterns {
		if i > 0 {
			all += "|"
		}
		all += p
	}
	return regexp.MustCompile(`^(?:` + all + `)`)
}

// Classify finds the lines of a console on which the kernel reports trouble, in
// order, at most 1000 of them. A console without any is an empty answer, and no
// proof that all was well: a kernel that hangs may say nothing.
func Classify(console []byte) []Finding {
	var out []Finding
	for i, line := range consoleText(console) {
		text := line[len(stamped.FindString(line)):]
		kind, ok := classifyLine(text)
		if !ok {
			continue
		}
		out = append(out, Finding{Kind: kind, Line: i + 1, Text: text})
		if len(out) == maxFindings {
			break
		}
	}
	return out
}

// classifyLine gives the kind of one message.
func classifyLine(text string) (Kind, bool) {
	for _, r := range rules {
		if r.pattern.MatchString(text) {
			return r.kind, true
		}
	}
	return "", false
}
