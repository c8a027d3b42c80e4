// Package jbd2 finds out which blocks of its journal the guest's kernel looks at while
// it recovers a file system.
//
// Recovery takes each block that it looks at from jread (fs/jbd2/recovery.c), which
// also asks the drive for the 128 KiB behind it (do_readahead): a drive sees both alike.
// So jread is probed, by a kprobe event whose histogram (Documentation/trace/histogram.rst)
// collects the numbers that it is called with. That the compiler has not put a copy of jread
// into one of its callers, where no probe would see it, a second probe shows: whoever
// reads a block of the journal asks jbd2_journal_bmap for its place first, and that
// is exported, so it is called. Its callers may be jread and those that write.
package jbd2

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Where the kernel's tracing is mounted, and where probes are defined.
const (
	tracefs     = "/sys/kernel/tracing"
	definitions = tracefs + "/kprobe_events"
)

// most is how many blocks of a journal are told apart; of one that looks at more nothing
// is known.
const most = 4096

// lineBytes is the room that is kept for an entry of a histogram. Of one that is longer the
// end is missing, and so it is refused.
const lineBytes = 64

// The probes, and the histogram of each.
const (
	looked  = "looked"
	callers = "callers"
)

var probes = []struct{ name, function, arguments, keys string }{
	{looked, "jread", "block=$arg3:u32", fmt.Sprintf("hist:keys=block:size=%d", most)},
	{callers, "jbd2_journal_bmap", "caller=+0($stack):x64", "hist:keys=caller.sym:size=128"},
}

// known are the functions that call jbd2_journal_bmap and, but for jread, take no block's
// content: the read ahead of jread, those that find the place of a block to be written, and
// that of the journal's own superblock.
var known = []string{
	"jread", "do_readahead",
	"jbd2_journal_next_log_block", "jbd2_journal_get_descriptor_buffer", "jbd2_journal_commit_transaction",
	"jbd2_fc_get_buf", "jbd2_journal_flush", "__jbd2_journal_erase", "jbd2_journal_init_inode", "journal_init_inode",
}

// Probe watches recoveries.
type Probe struct {
	text []byte // of a histogram; used again
}

// Open sets the probes. It fails where the kernel has no such thing: a kernel without
// kprobe events or histograms, or with another journal.
func Open() (*Probe, error) {
	if err := unix.Mount("tracefs", tracefs, "tracefs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("mount tracefs: %w", err)
	}
	for _, p := range probes {
		err := write(definitions, fmt.Sprintf("p:powercut/%s jbd2:%s %s", p.name, p.function, p.arguments))
		if err != nil { // jbd2 may be no module
			err = write(definitions, fmt.Sprintf("p:powercut/%s %s %s", p.name, p.function, p.arguments))
		}
		if err == nil {
			err = write(event(p.name, "trigger"), p.keys)
		}
		if err != nil {
			return nil, fmt.Errorf("probe %s: %w", p.function, err)
		}
	}
	return &Probe{text: make([]byte, most*lineBytes)}, nil
}

// write adds a line to what a file of tracefs says; truncated, it would say nothing else.
func write(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

func event(name, file string) string { return filepath.Join(tracefs, "events/powercut", name, file) }

// Begin forgets what was looked at before.
func (*Probe) Begin() error {
	if err := write(event(looked, "trigger"), probes[0].keys+":clear"); err != nil {
		return fmt.Errorf("forget looked-at blocks: %w", err)
	}
	return nil
}

// Looked returns the blocks that were looked at since Begin, by their place in the
// journal, ascending. It fails where there may be others.
func (p *Probe) Looked() (blocks []uint32, err error) {
	by, err := p.histogram(callers)
	if err != nil {
		return nil, err
	}
	for _, c := range by {
		if name := symbol(c); !slices.Contains(known, name) {
			return nil, fmt.Errorf("watch recovery: %s asks for the journal's blocks, and may look at them", name)
		}
	}
	seen, err := p.histogram(looked)
	if err != nil {
		return nil, err
	}
	for _, text := range seen {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("watch recovery: %q is no block", text)
		}
		blocks = append(blocks, uint32(n))
	}
	slices.Sort(blocks)
	return blocks, nil
}

// symbol is the name in a text such as "[ffffffffc0123456] jread [jbd2]".
func symbol(text string) string {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return text
	}
	return fields[1]
}

// histogram reads the keys of a probe's histogram, all of them.
func (p *Probe) histogram(name string) (keys []string, err error) {
	f, err := os.Open(event(name, "hist"))
	if err != nil {
		return nil, fmt.Errorf("watch recovery: %w", err)
	}
	defer f.Close()
	n, err := io.ReadFull(f, p.text)
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("watch recovery: %w", err)
	}
	return parse(p.text[:n])
}

// parse reads a histogram with one key, of which each entry is a line such as
//
//	{ block:          7 } hitcount:          3
//
// and which ends with the number of entries, and of those for which there was no room.
func parse(text []byte) (keys []string, err error) {
	entries, dropped := -1, -1
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if rest, ok := strings.CutPrefix(line, "{"); ok {
			key, _, closed := strings.Cut(rest, "}")
			_, value, named := strings.Cut(key, ":")
			if !closed || !named {
				return nil, fmt.Errorf("watch recovery: %q is no entry of a histogram", line)
			}
			keys = append(keys, strings.TrimSpace(value))
		}
		for prefix, n := range map[string]*int{"Entries:": &entries, "Dropped:": &dropped} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				if *n, err = strconv.Atoi(strings.TrimSpace(rest)); err != nil {
					return nil, fmt.Errorf("watch recovery: %w", err)
				}
			}
		}
	}
	if dropped != 0 || entries != len(keys) {
		return nil, fmt.Errorf("watch recovery: %d of %d entries of a histogram, %d dropped", len(keys), entries, dropped)
	}
	return keys, nil
}
