package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each console in testdata/console has a file that says what is to be found in
// it. Those named panic-sysrq, boot-clean and drive-gone were recorded from
// guests, the others are put together of messages as the kernel's sources word
// them.
func TestClassifyCorpus(t *testing.T) {
	logs, err := filepath.Glob("testdata/console/*.log")
	if err != nil || len(logs) < 10 {
		t.Fatalf("corpus of %d consoles, %v", len(logs), err)
	}
	for _, path := range logs {
		name := strings.TrimSuffix(filepath.Base(path), ".log")
		t.Run(name, func(t *testing.T) {
			console, err := os.ReadFile(path)
			must(t, err)
			want, err := os.ReadFile(strings.TrimSuffix(path, ".log") + ".want")
			must(t, err)
			var got strings.Builder
			for _, f := range Classify(console) {
				fmt.Fprintln(&got, f)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every kind is in the corpus.
func TestCorpusIsComplete(t *testing.T) {
	wants, err := filepath.Glob("testdata/console/*.want")
	must(t, err)
	var all strings.Builder
	for _, path := range wants {
		data, err := os.ReadFile(path)
		must(t, err)
		all.Write(data)
	}
	for _, kind := range []Kind{Panic, Oops, Hang, OOM, FSError, IOError, Warning} {
		if !strings.Contains(all.String(), string(kind)+", line ") {
			t.Errorf("no console with %s", kind)
		}
	}
}

func TestClassifyIsBounded(t *testing.T) {
	console := strings.Repeat("Kernel panic - not syncing: again\n", 3*maxFindings)
	if got := Classify([]byte(console)); len(got) != maxFindings {
		t.Errorf("%d findings", len(got))
	}
}

func FuzzClassify(f *testing.F) {
	f.Add([]byte("[    1.0] Kernel panic - not syncing: x\r\n\x1b[2J\xff\x00"))
	f.Fuzz(func(t *testing.T, console []byte) {
		lines := 1 + strings.Count(string(console), "\n")
		last := 0
		for _, found := range Classify(console) {
			if found.Line <= last || found.Line > lines {
				t.Errorf("line %d of %d after %d", found.Line, lines, last)
			}
			last = found.Line
			if strings.ContainsAny(found.Text, "\x1b\r\n\x00") {
				t.Errorf("unprintable: %q", found.Text)
			}
		}
	})
}

func TestTail(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("ä", 1000)
	tests := map[string]struct {
		content string
		n       int
		want    []string
	}{
		"empty":           {"", 3, nil},
		"fewer":           {"a\nb\n", 3, []string{"a", "b"}},
		"more":            {"a\nb\nc\nd\n", 2, []string{"c", "d"}},
		"no newline":      {"a\nb", 1, []string{"b"}},
		"carriage return": {"a\r\nb\r\n", 2, []string{"a", "b"}},
		"terminal":        {"\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS\x07\n", 1, []string{"SeaBIOS"}},
		"tabs":            {"a\tb\n", 1, []string{"a b"}},
		"broken utf-8":    {"a\xffb\n", 1, []string{"a?b"}},
		"long line":       {long + "\n", 1, []string{strings.Repeat("ä", maxLine/2) + " ..."}},
		"large file":      {strings.Repeat("some line or other\n", 10_000) + "end\n", 2, []string{"some line or other", "end"}},
		"one huge line":   {strings.Repeat("x", 2*tailBytes), 2, nil},
		"none wanted":     {"a\n", 0, []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			must(t, os.WriteFile(path, []byte(tt.content), 0o600))
			if diff := cmp.Diff(tt.want, Tail(path, tt.n)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := Tail(filepath.Join(dir, "missing"), 3); got != nil {
		t.Errorf("tail of nothing: %q", got)
	}
}
