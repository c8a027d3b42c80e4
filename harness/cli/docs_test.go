package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"powercut/scenarios"
)

// snippet is a piece of code in a page.
type snippet struct {
	language string // of a fenced block; "span" within a line; "" of an indented block
	code     string
	line     int // of the page, from 1
}

// docs are the pages that users read, from the project's folder.
func docs(t *testing.T) map[string][]snippet {
	t.Helper()
	pages := map[string][]snippet{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			pages[strings.TrimPrefix(f, "../../")] = snippets(t, b)
		}
	}
	return pages
}

func snippets(t *testing.T, page []byte) (list []snippet) {
	t.Helper()
	add := func(language string, code []byte, at int) {
		list = append(list, snippet{language, string(code), 1 + bytes.Count(page[:at], []byte("\n"))})
	}
	err := ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(page)), func(n ast.Node, in bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			if l := n.Lines(); in && l.Len() > 0 {
				add(string(n.Language(page)), l.Value(page), l.At(0).Start)
			}
		case *ast.CodeBlock:
			if in {
				add("", n.Lines().Value(page), n.Lines().At(0).Start)
			}
		case *ast.CodeSpan:
			if first, ok := n.FirstChild().(*ast.Text); in && ok {
				code := bytes.ReplaceAll(first.Segment.Value(page), []byte(`\|`), []byte("|")) // as in tables
				add("span", code, first.Segment.Start)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDocsCommands: each command of powercut that a page shows is one that this
// powercut takes, of scenarios and kernels that there are; and each go test names a
// test.
func TestDocsCommands(t *testing.T) {
	checked := 0
	for page, list := range docs(t) {
		for _, s := range list {
			if !strings.Contains(s.code, "powercut ") && !strings.HasPrefix(s.code, "go test ") && !strings.Contains(s.code, "scripts/run ") {
				continue
			}
			calls, err := calls(s.code)
			if err != nil {
				if s.language == "sh" {
					t.Errorf("%s:%d: %v", page, s.line, err)
				}
				continue // not a shell's language: text, YAML, JSON
			}
			for _, args := range calls {
				if err := checkCall(args, s.language == "span"); err != nil {
					t.Errorf("%s:%d: %s: %v", page, s.line, strings.Join(args, " "), err)
				}
				checked++
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found", checked)
	}
	t.Logf("%d commands", checked)
}

// TestDocsCheck: what is wrong with a command of a page is found, and nothing else.
func TestDocsCheck(t *testing.T) {
	for line, right := range map[string]bool{
		"powercut run barrier-on --seed 1 | tail":                             true,
		"powercut run barrier-on --sed 1":                                     false,
		"powercut run barier-on":                                              false,
		"powercut run barrier-on --set workload.cont=5":                       false,
		"powercut explore RUN --states 5 && powercut log show RUN/fsync":      true,
		"make && bin/powercut log shew RUN":                                   false,
		"scripts/run run barrier-on --explain":                                true,
		"scripts/run run barrier-on --explane":                                false,
		"go test ./harness/cli -run TestDocs":                                 true,
		"go test ./harness/cli -run TestOfNothing":                            false,
		"powercut run barrier-on --module fs/ext4/ext4.ko --modules lib/x -q": true,
		`powercut run barrier-on --set 'drive.faults=[eio write nth=5]'`:      true,
		`powercut run barrier-on --set 'drive.faults=[eio wrote nth=5]'`:      false,
		"eval \"$(powercut completion bash)\"":                                true,
		"eval \"$(powercut completion cmd)\"":                                 false,
	} {
		list, err := calls(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range list {
			err = errors.Join(err, checkCall(args, false))
		}
		if (err == nil) != right {
			t.Errorf("%s: %v", line, err)
		}
	}
	if checkUse([]string{"log", "state"}, true) != nil || checkUse([]string{"log", "state"}, false) == nil || checkUse([]string{"log", "stat"}, true) == nil {
		t.Error("what is left out within a sentence")
	}
}

// calls are the simple commands in a piece of shell.
func calls(code string) (list [][]string, err error) {
	f, err := syntax.NewParser().Parse(strings.NewReader(code), "")
	if err != nil {
		return nil, err
	}
	plain := &expand.Config{CmdSubst: func(io.Writer, *syntax.CmdSubst) error { return nil }} // globs stay as they are, too
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			words, failed := expand.Fields(plain, c.Args...)
			err = errors.Join(err, failed)
			if len(words) > 0 {
				list = append(list, words)
			}
		}
		return true
	})
	return list, err
}

func checkCall(args []string, span bool) error {
	switch filepath.Base(args[0]) {
	case "powercut":
		return checkUse(args[1:], span)
	case "run":
		if len(args) > 1 && strings.HasSuffix(args[0], "scripts/run") {
			return checkUse(args[1:], span)
		}
	case "go":
		if len(args) > 1 && args[1] == "test" {
			return checkTests(args[2:])
		}
	}
	return nil
}

// checkUse parses arguments as Main does. Within a sentence, what a command needs
// besides may be left out.
func checkUse(args []string, span bool) error {
	var c commands
	parser := newParser(context.Background(), &c, Streams{Out: io.Discard, Err: io.Discard}, func(int) {})
	args = slices.Clone(args)
	for i, a := range args { // stand-ins for what must exist
		switch {
		case i > 0 && args[i-1] == "--modules":
			args[i] = "testdata"
		case strings.HasSuffix(a, ".ko"), strings.HasSuffix(a, "/qemu.log"):
			args[i] = "docs_test.go"
		}
	}
	k, err := parser.Parse(args)
	var short *kong.ParseError
	if span && errors.As(err, &short) && (strings.HasPrefix(err.Error(), "expected ") || strings.HasPrefix(err.Error(), "missing flags")) {
		return nil
	}
	if err != nil {
		return err
	}
	switch command, _, _ := strings.Cut(k.Command(), " "); command {
	case "run":
		return checkScenario(c.Run.Scenario, c.Run.Set)
	case "explore":
		return checkScenario(c.Explore.What, c.Explore.Set)
	}
	return nil
}

// placeholder is what stands for a run, or a file of the reader's.
var placeholder = regexp.MustCompile(`^(RUN|DIR|NAME)\b|\.yaml$|^runs/`)

func checkScenario(name string, set []string) error {
	if placeholder.MatchString(name) {
		return nil
	}
	var overrides []scenarios.Override
	for _, text := range set {
		o, err := scenarios.ParseOverride(text)
		if err != nil {
			return err
		}
		overrides = append(overrides, o)
	}
	_, err := scenarios.Cross(name, nil, overrides...)
	return err
}

// checkTests looks for the tests that go test is to run.
func checkTests(args []string) error {
	run, err := regexp.Compile("")
	names := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	var source []byte
	for i, a := range args {
		switch {
		case a == "-run" || a == "-fuzz":
			run, err = regexp.Compile(args[i+1])
		case strings.HasPrefix(a, "./"):
			files, _ := filepath.Glob(filepath.Join("..", "..", a, "*_test.go"))
			for _, f := range files {
				b, failed := os.ReadFile(f)
				err, source = errors.Join(err, failed), append(source, b...)
			}
		}
	}
	for _, m := range names.FindAllSubmatch(source, -1) {
		if run != nil && run.Match(m[1]) {
			return err
		}
	}
	return errors.Join(err, errors.New("there is no such test"))
}

// codeLimit bounds one command of a page, on a busy host.
const codeLimit = 5 * time.Minute

var (
	fileName = regexp.MustCompile(`^# ([\w./-]+)\n`)
	exitNote = regexp.MustCompile(`exit code (\d+)`)
)

// TestDocsRun runs what stands in blocks of the language sh, page by page, each in a
// folder of its own: in that order, by a shell, with guests. A block that begins with
// "# FILE" is that file. A comment "exit code N" says how a command ends, if not with 0.
// What takes long, or needs what a test has not, stands in indented blocks.
func TestDocsRun(t *testing.T) {
	pages := docs(t)
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		list := pages[page]
		if !slices.ContainsFunc(list, func(s snippet) bool { return s.language == "sh" }) {
			continue
		}
		t.Run(page, func(t *testing.T) {
			p := newPlace(t)
			dir := t.TempDir()
			for _, s := range list {
				if name := fileName.FindStringSubmatch(s.code); name != nil && s.language != "span" {
					if err := os.WriteFile(filepath.Join(dir, name[1]), []byte(s.code), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if s.language != "sh" {
					continue
				}
				f, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(s.code), "")
				if err != nil {
					t.Fatal(err)
				}
				for _, stmt := range f.Stmts {
					p.shell(t, dir, fmt.Sprintf("%s:%d", page, s.line), stmt)
				}
			}
		})
	}
}

// shell lets a shell run a statement.
func (p place) shell(t *testing.T, dir, where string, stmt *syntax.Stmt) {
	t.Helper()
	want := "0"
	for _, c := range stmt.Comments {
		if m := exitNote.FindStringSubmatch(c.Text); m != nil {
			want = m[1]
		}
	}
	var line strings.Builder
	if err := syntax.NewPrinter().Print(&line, stmt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), codeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "TMPDIR="+p.tmp, p.mark)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != want {
		t.Fatalf("%s: %s: exit code %s, want %s:\n%s", where, &line, got, want, out)
	}
	t.Logf("%.1f s: %s", time.Since(begun).Seconds(), &line)
}
