package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"powercut/images/kbuild"
)

// TestBisect lets git bisect find the commit that broke a kernel module, by
// scripts/bisect-step: of seven commits the fourth does not build and is skipped, and
// since the sixth the module syncs too little, so that acknowledged ops are lost.
func TestBisect(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots two guests")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	if err := kbuild.CheckTools(); err != nil {
		t.Skip(err)
	}
	p := newPlace(t)
	dir := t.TempDir()
	repo := filepath.Join(dir, "module")
	if err := os.CopyFS(repo, os.DirFS("../../images/modules/fsync_range")); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = repo
		c.Env = append(os.Environ(), p.mark, "TMPDIR="+p.tmp, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	command("git", "init", "-q")
	commit := func(subject, old, new string) {
		t.Helper()
		path := filepath.Join(repo, "fsync_range.c")
		source, err := os.ReadFile(path)
		changed := strings.Replace(string(source), old, new, 1)
		if err != nil || old != "" && changed == string(source) {
			t.Fatalf("%s: %v", subject, err)
		}
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		command("git", "add", "Kbuild", "fsync_range.c", "fsync_range.h")
		command("git", "commit", "-q", "--allow-empty", "-m", subject)
	}
	commit("first", "", "")
	commit("second", "", "")
	commit("third", "", "")
	commit("does not build", "int err;", "int err")
	commit("builds again", "int err", "int err;")
	commit("the range begins at 0", "vfs_fsync_range(file, r.start, end,", "vfs_fsync_range(file, 0, r.length - 1,")
	commit("last", "", "")

	headers := strings.TrimSpace(command(binary, "modules", "source", filepath.Join(dir, "kit")))
	step, err := filepath.Abs("../../scripts/bisect-step")
	if err != nil {
		t.Fatal(err)
	}
	command("git", "bisect", "start", "HEAD", "HEAD~6")
	out := command("git", "bisect", "run", step, headers, "fsync_range.ko", "barrier-on", "--seed", "1", "--runs", p.runs,
		"--set", "workload={kind: overwrite, count: 20, calls: [fsync_range-FDATASYNC]}", "--set", "cut={op: 18}")
	if log := command("git", "bisect", "log"); !strings.Contains(log, "# first bad commit: ") || !strings.Contains(log, "] the range begins at 0\n# first bad") &&
		!strings.HasSuffix(log, "] the range begins at 0\n") || !strings.Contains(log, "# skip: ") {
		t.Errorf("%s\n%s", out, log)
	}
	p.clean(t, "git bisect")
}

// TestBisectStepWrong: what is wrong with the command line is no bad commit.
func TestBisectStepWrong(t *testing.T) {
	for _, args := range [][]string{nil, {t.TempDir()}, {t.TempDir(), "x.ko"}, {"nowhere", "x.ko", "barrier-on"}} {
		var exit *exec.ExitError
		err := exec.Command("../../scripts/bisect-step", args...).Run()
		if !errors.As(err, &exit) || exit.ExitCode() != 255 {
			t.Errorf("%q: %v", args, err)
		}
	}
}
