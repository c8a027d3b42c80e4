package nbd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nbdExport is what nbdinfo --json says of an export.
type nbdExport struct {
	Name           string `json:"export-name"`
	Size           int64  `json:"export-size"`
	ReadOnly       bool   `json:"is_read_only"`
	CanFlush       bool   `json:"can_flush"`
	CanFUA         bool   `json:"can_fua"`
	CanTrim        bool   `json:"can_trim"`
	CanZero        bool   `json:"can_zero"`
	CanFastZero    bool   `json:"can_fast_zero"`
	CanMultiConn   bool   `json:"can_multi_conn"`
	CanCache       bool   `json:"can_cache"`
	CanDF          bool   `json:"can_df"`
	MinBlock       int64  `json:"block_size_minimum"`
	PreferredBlock int64  `json:"block_size_preferred"`
	MaxBlock       int64  `json:"block_size_maximum"`
}

func TestNbdInfo(t *testing.T) {
	name := nbdInfo(t)
	readOnly := all(strangerSize)
	readOnly.ReadOnly = true
	tests := []struct {
		name string
		e    Export
		want nbdExport
	}{
		{"all", all(strangerSize), nbdExport{CanFlush: true, CanFUA: true, CanTrim: true, CanZero: true}},
		{"no cache", Export{Size: strangerSize, FUA: true}, nbdExport{CanFUA: true}},
		{"bare", Export{Size: strangerSize}, nbdExport{}},
		{"read only", readOnly, nbdExport{ReadOnly: true, CanFlush: true, CanFUA: true, CanMultiConn: false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serveStrangers(t, tt.e, newMemory(strangerSize))
			tt.want.Size = strangerSize
			tt.want.MinBlock, tt.want.PreferredBlock, tt.want.MaxBlock = 512, 4096, 32<<20
			for _, args := range [][]string{{"--json"}, {"--json", "--list"}} {
				out := must(t, name, append(args, s.uri)...)
				var info struct {
					Protocol   string
					Structured bool
					Exports    []nbdExport
				}
				if err := json.Unmarshal([]byte(out), &info); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if info.Protocol != "newstyle-fixed" || info.Structured {
					t.Errorf("protocol %q, structured %v", info.Protocol, info.Structured)
				}
				if d := cmp.Diff([]nbdExport{tt.want}, info.Exports); d != "" {
					t.Errorf("%v: %s", args, d)
				}
			}
		})
	}
}

func TestNbdInfoSizeAndAbilities(t *testing.T) {
	name := nbdInfo(t)
	s := serveStrangers(t, all(strangerSize), newMemory(strangerSize))
	if out := must(t, name, "--size", s.uri); strings.TrimSpace(out) != fmt.Sprint(strangerSize) {
		t.Errorf("size %q", out)
	}
	for _, ability := range []string{"connect", "flush", "fua", "trim", "zero", "read", "write"} {
		must(t, name, "--can", ability, s.uri)
	}
	for _, ability := range []string{"multi-conn", "structured-reply", "fast-zero", "cache", "df"} {
		if out, err := run(t, name, "--can", ability, s.uri); err == nil {
			t.Errorf("can %s: %s", ability, out)
		}
	}
	other := strings.Replace(s.uri, "///?", "///other?", 1)
	if out, err := run(t, name, "--size", other); err == nil || !strings.Contains(out, "no export named 'other'") {
		t.Errorf("another export: %v\n%s", err, out)
	}
}

func TestNbdCopy(t *testing.T) {
	name := nbdCopy(t)
	want := image(strangerSize)
	eachManner(t, strangerSize, func(t *testing.T, m *memory) {
		source := writeFile(t, "source", want)
		back := filepath.Join(t.TempDir(), "back")
		copy(m.data, bytes.Repeat([]byte{0xff}, strangerSize)) // zeroes must be written too
		s := serveStrangers(t, all(strangerSize), m)
		must(t, name, "--flush", source, s.uri)
		same(t, "the disk", m.content(), want)
		log := m.log()
		if n := len(commands(log, Flush)); n == 0 || log[len(log)-1].Command != Flush {
			t.Errorf("%d flushes, the last request is a %v", n, log[len(log)-1].Command)
		}
		must(t, name, s.uri, back)
		same(t, "the copy", readFile(t, back), want)
	})
}

func TestNbdCopyRequestSizes(t *testing.T) {
	name := nbdCopy(t)
	want := image(strangerSize)
	source := writeFile(t, "source", want)
	for _, args := range [][]string{
		{"--request-size=4096", "--requests=128"},
		{"--request-size=33554432", "--requests=4"},
		{"--synchronous"},
		{"--allocated"},
		{"--connections=4", "--threads=2"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			m := newMemory(strangerSize)
			backwards(t, m)
			s := serveStrangers(t, all(strangerSize), m)
			must(t, name, append(args, source, s.uri)...)
			same(t, "the disk", m.content(), want)
			back := filepath.Join(t.TempDir(), "back")
			must(t, name, append(args, s.uri, back)...)
			same(t, "the copy", readFile(t, back), want)
		})
	}
}

// TestNbdCopyBetweenTwoDisks goes from one server to another, of which the
// second offers less.
//
// Without write-zeroes nbdcopy is run synchronously: libnbd 1.14.2 otherwise
// hangs on a hole of the source, with nbdkit's servers just the same.
func TestNbdCopyBetweenTwoDisks(t *testing.T) {
	name := nbdCopy(t)
	want := image(strangerSize)
	for _, tt := range []struct {
		e       Export
		arg     string
		refused []Command
	}{
		{Export{Size: strangerSize, WriteZeroes: true}, "--requests=64", []Command{Flush, Trim}},
		{Export{Size: strangerSize}, "--synchronous", []Command{Flush, Trim, WriteZeroes}},
	} {
		t.Run(tt.arg, func(t *testing.T) {
			from, to := newMemory(strangerSize), newMemory(strangerSize)
			copy(from.data, want)
			copy(to.data, bytes.Repeat([]byte{0xff}, strangerSize))
			a, b := serveStrangers(t, all(strangerSize), from), serveStrangers(t, tt.e, to)
			must(t, name, tt.arg, a.uri, b.uri)
			same(t, "the second disk", to.content(), want)
			if got := commands(to.log(), tt.refused...); len(got) != 0 {
				t.Errorf("what was not advertised was asked for: %v", got)
			}
		})
	}
}
