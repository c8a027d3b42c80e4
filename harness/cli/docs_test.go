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

	"powercut/harness/report"
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

// TestSeedsPage: the page on published figures says of each scenario what it says today.
func TestSeedsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "seeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := scenarios.Family(seedsFamily)
	if err != nil {
		t.Fatal(err)
	}
	upper := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	for _, s := range list {
		study := or(s.Matrix.Of, s.Name)
		of, picture, _ := bytes.Cut(page, []byte("\n!["+study+": "+report.Escape(s.About)+"]("))
		text := fmt.Sprintf("\n## %s\n\n%s. `powercut run seeds/%s`", study, report.Escape(upper(s.About)), study)
		if len(picture) == 0 || !bytes.Contains(of, []byte(text)) {
			t.Errorf("the page does not begin with what %s is about: %s", s.Name, s.About)
		}
		for name, text := range map[string]string{"Theirs": s.Figures.Of, "Why": s.Figures.Why} {
			if text != "" && !bytes.Contains(page, []byte("\n"+name+": "+report.Escape(text))) {
				t.Errorf("%s: the page is without %s: %s", s.Name, name, text)
			}
		}
		for _, c := range s.Matrix.Compare {
			if !bytes.Contains(page, []byte(report.Escape(c.String()+": "))) {
				t.Errorf("%s: the page is without %s", s.Name, c)
			}
		}
	}
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
		case strings.HasSuffix(a, ".ko"), strings.HasSuffix(a, "/qemu.log"), a == "LOG":
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

// notRun are the statements of indented blocks that TestDocsRun leaves out, and why.
var notRun = map[string][]string{
	"takes a minute or more; other tests run parts of it": {
		"powercut run barriers --seeds 1-20", "powercut run cache-modes --seeds 1-2", "powercut run cache-modes --set 'drive.faults=[]'", "powercut run posix", "powercut run buses",
		"powercut run seeds/000-fsync", "powercut run seeds --seeds 1-5 --runs seeds-runs && powercut seeds seeds-runs", "powercut run every-call", "powercut run qcow2-kill",
		"powercut run promises", "powercut bench", "powercut bench explore", "powercut bench drive", "go test ./harness/campaign -run 'TestModel$'",
		"powercut explore ext4-overwrite --budget 10m", "powercut explore xfs-overwrite --budget 10m", "powercut explore RUN --states 500 --seed 7 --no-prune --jobs 2 --json",
		"powercut explore RUN --resume", "powercut explore RUN --states 200 --fsck",
		"powercut generate --length 1 --run", "powercut generate --length 2 --sample 2000 --run --set filesystem.type=btrfs --budget 30m",
		"powercut generate --random 100 --size 40 --seed 7 --run --kernel debian:6.12", "powercut generate --length 1 --run --set filesystem.mount=barrier=0",
	},
	"is run by a script of TestScripts, or in another page": {
		"powercut run barrier-off", "powercut run barrier-off --explain", "powercut run barriers --quiet --report junit=out.xml --report ktap=out.ktap",
		"powercut --verbose --log-format json run barrier-on", "powercut explore barrier-off --states 50", "powercut run ext4-overwrite --set drive.timing=ssd-consumer",
		"powercut run barrier-off --set drive.bus=ahci --set drive.cache=directsync", "powercut run barrier-on --qemu-log",
	},
	"fetches kernels, or their sources": {
		"powercut run barrier-on --kernel debian:5.10,debian:6.1,debian:6.12", "powercut replay b.tar.zst --kernel debian:6.12", "powercut modules source kit",
		"powercut run ext3-overwrite --set guest.module=ext4-2.4-fsync",
	},
	"needs a kernel that somebody has built, or its tree: TestBisect, and those of images": {
		"powercut run barrier-on --kernel arch/x86/boot/bzImage", "powercut run barrier-on --kernel vmlinux --modules /lib/modules/6.12.0-mine", "powercut run barrier-on --module fs/ext4/ext4.ko",
		"powercut run barrier-on --kernel arch/x86/boot/bzImage --modules out/lib/modules/6.12.0-mine",
		"make KCONFIG_ALLCONFIG=/path/to/powercut/images/minimal.config allnoconfig", "make -j$(nproc) bzImage",
		"cd kit/source/fs/ext4", "git bisect start BAD GOOD", "git bisect run /path/to/powercut/scripts/bisect-step HEADERS ext4.ko ext3-append --seed 1",
		"git bisect run sh -c 'make -j$(nproc) bzImage || exit 125; powercut run barrier-on --seed 1 --kernel arch/x86/boot/bzImage'",
	},
	"names requests of one very recording":                      {"powercut log state RUN/fsync --state '57 without 21-24,30[0-2]' -o third.img"},
	"needs a terminal: TestShell":                               {"powercut replay b.tar.zst --shell"},
	"needs the pager of man-db: the script man reads the page":  {"powercut man | man -l -"},
	"is a program of fstests: a test of logwrites has its like": {"replay-log --log log --replay disk --end-mark 'ack op 17'"},
	"runs all of this": {
		"scripts/run", "scripts/test",
	},
	"is as in README.md": {
		"powercut suite run nightly.yaml --out part0 --shard 0/4", "powercut suite merge part0 part1 part2 part3 -o tonight --baseline lastnight",
	},
}

// staged makes what stands for a reader's files in the indented blocks of a page, and is
// run before the first of them.
var staged = map[string]string{
	"README.md": `
		powercut run barrier-off --seed 7 --runs staged --qemu-log --set filesystem.size=64MiB --set 'workload.calls=[fsync]' --set 'cut={op: 40}'
		mv staged/* RUN
		powercut log export RUN/fsync -o LOG
		mkdir runs
		ln -s runs runs-old
		ln -s runs runs-new
		powercut suite run nightly.yaml --out part0 --shard 0/2
		powercut suite run nightly.yaml --out part1 --shard 1/2
		powercut suite merge part0 part1 -o lastnight`,
	"docs/reports.md": `
		ln -s runs runs-old
		ln -s runs runs-new
		powercut report runs --json >old.json
		cp old.json new.json`,
	"docs/suite.md": `powercut suite run nightly.yaml --out lastnight`,
}

// nightly is the suite of the pages: small.
const nightly = "name: nightly\ngroups:\n  - scenarios: [barrier-on]\n    seeds: 1-2\n    set: {workload.calls: [fsync], workload.count: 20, cut: {op: 10}}\n"

// TestDocsRun runs the pages, each in a folder of its own: by a shell, with guests. Blocks
// of the language sh are run in that folder, in their order. Indented ones are run each
// beside what lies there, but for what notRun has. A block that begins with "# FILE" is
// that file. A comment "exit code N" says how a command ends, if not with 0.
func TestDocsRun(t *testing.T) {
	pages := docs(t)
	left := leftOut(t, pages)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		list := pages[name]
		if !slices.ContainsFunc(list, func(s snippet) bool {
			return slices.ContainsFunc(s.statements(), func(stmt *syntax.Stmt) bool { return s.language == "sh" || !left[onLine(t, stmt)] })
		}) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := &docsPage{place: newPlace(t), name: name, dir: t.TempDir(), left: left}
			p.run(t, list)
		})
	}
}

// leftOut are the statements that notRun has, each of which must stand in a page.
func leftOut(t *testing.T, pages map[string][]snippet) map[string]bool {
	left, there := map[string]bool{}, map[string]bool{}
	for _, list := range pages {
		for _, s := range list {
			for _, stmt := range s.statements() {
				there[onLine(t, stmt)] = there[onLine(t, stmt)] || s.language == ""
			}
		}
	}
	for why, list := range notRun {
		for _, line := range list {
			if left[line] = true; !there[line] {
				t.Errorf("%s (%s) stands nowhere", line, why)
			}
		}
	}
	return left
}

// docsPage is a page that is run.
type docsPage struct {
	place
	name, dir string
	left      map[string]bool // what is not run
	blocks    int             // indented ones so far
}

func (p *docsPage) run(t *testing.T, list []snippet) {
	files := map[string]string{"nightly.yaml": nightly}
	for _, s := range list {
		if name := fileName.FindStringSubmatch(s.code); name != nil && s.language != "span" {
			files[name[1]] = s.code
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range list {
		if s.language == "" {
			p.indented(t, s)
			continue
		}
		for _, stmt := range s.statements() {
			p.shell(t, p.dir, fmt.Sprintf("%s:%d", p.name, s.line), stmt)
		}
	}
}

// programs are what the commands of indented blocks begin with; other such blocks are
// pictures.
var programs = []string{"powercut", "scripts/run", "scripts/test", "go", "git", "make"}

// statements are those of a block that is shell.
func (s snippet) statements() []*syntax.Stmt {
	if s.language != "sh" && s.language != "" {
		return nil
	}
	f, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(s.code), "")
	if err != nil {
		return nil // TestDocsCommands has said so
	}
	if s.language == "" && !slices.ContainsFunc(f.Stmts, func(stmt *syntax.Stmt) bool {
		c, ok := stmt.Cmd.(*syntax.CallExpr)
		return ok && len(c.Args) > 0 && slices.Contains(programs, c.Args[0].Lit())
	}) {
		return nil
	}
	return f.Stmts
}

// indented runs a block of statements beside what lies in the page's folder.
func (p *docsPage) indented(t *testing.T, s snippet) {
	dir := ""
	for _, stmt := range s.statements() {
		if p.left[onLine(t, stmt)] {
			continue
		}
		if dir == "" {
			dir = p.block(t)
		}
		p.shell(t, dir, fmt.Sprintf("%s:%d", p.name, s.line), stmt)
	}
}

// block makes the folder of an indented block.
func (p *docsPage) block(t *testing.T) string {
	if p.blocks++; p.blocks == 1 && staged[p.name] != "" {
		f, err := syntax.NewParser().Parse(strings.NewReader(staged[p.name]), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, stmt := range f.Stmts {
			p.shell(t, p.dir, "before "+p.name, stmt)
		}
	}
	dir := t.TempDir()
	there, err := os.ReadDir(p.dir)
	for _, e := range there {
		err = errors.Join(err, os.Symlink(filepath.Join(p.dir, e.Name()), filepath.Join(dir, e.Name())))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// onLine is a statement on one line, without comments.
func onLine(t *testing.T, stmt *syntax.Stmt) string {
	bare := *stmt
	bare.Comments = nil
	var line strings.Builder
	if err := syntax.NewPrinter().Print(&line, &bare); err != nil {
		t.Fatal(err)
	}
	return line.String()
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
	line := onLine(t, stmt)
	ctx, cancel := context.WithTimeout(t.Context(), codeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "TMPDIR="+p.tmp, p.mark)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != want {
		t.Fatalf("%s: %s: exit code %s, want %s:\n%s", where, line, got, want, out)
	}
	t.Logf("%.1f s: %s", time.Since(begun).Seconds(), line)
}
