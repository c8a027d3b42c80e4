package qemu

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
)

// Limits on what is looked at of a console.
const (
	tailBytes     = 64 << 10 // of a file's end, for its last lines
	classifyBytes = 4 << 20  // of a file's start, for a failure's findings
	maxLine       = 250      // bytes of a line in a tail
)

// Tail gives the last n lines of the file at path, without line ends or other
// control characters, long lines cut. A file that cannot be read has none.
func Tail(path string, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	start := max(0, size-tailBytes)
	data := make([]byte, size-start)
	got, _ := f.ReadAt(data, start) // the file may have been cut meanwhile; what was read counts
	data = data[:got]
	if start > 0 {
		_, data, _ = bytes.Cut(data, []byte("\n")) // the first line is only the end of one
	}
	lines := consoleText(data)
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if len(line) > maxLine {
			lines[i] = strings.ToValidUTF8(line[:maxLine], "") + " ..."
		}
	}
	return lines
}

// classifyFile classifies the start of a console file: the first trouble is the
// one that explains the rest.
func classifyFile(path string) []Finding {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, classifyBytes)) // what was read counts
	return Classify(data)
}

// consoleText splits a console into lines and makes them fit to print.
func consoleText(data []byte) []string {
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return lines
}

// terminal is a sequence that moves a terminal's cursor or sets its colours;
// the firmware writes some before the kernel starts.
var terminal = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[@-~]|[@-Z\\-_a-z])`)

// printable drops terminal sequences and control characters; tabs become
// spaces, broken UTF-8 a question mark.
func printable(line string) string {
	line = strings.ToValidUTF8(terminal.ReplaceAllString(line, ""), "?")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r == 0x7f:
			return -1
		}
		return r
	}, line)
}
