package cache

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests below need builders in other processes: this test binary, started
// again with a role.
const (
	roleVariable = "POWERCUT_CACHE_TEST_ROLE"
	rootVariable = "POWERCUT_CACHE_TEST_ROOT"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, &Cache{Root: os.Getenv(rootVariable)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play is what such a process does. It talks by lines on its standard output,
// and waits for a line on its standard input.
func play(role string, c *Cache) error {
	in := bufio.NewReader(os.Stdin)
	switch role {
	case "half": // stops in the middle of a build
		_, err := c.Entry(context.Background(), "kind", "key", func(_ context.Context, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "one"), []byte("o"), 0o644); err != nil {
				return err
			}
			fmt.Println("half")
			_, err := in.ReadString('\n')
			return err
		})
		return err
	case "scratch": // works in a scratch folder
		dir, release, err := c.Scratch(context.Background())
		if err != nil {
			return err
		}
		defer release() //nolint:errcheck // it is killed before
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
			return err
		}
		fmt.Println(dir)
		_, err = in.ReadString('\n')
		return err
	case "once": // builds if nobody has, and says so
		built := "found"
		fmt.Println("ready")
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		_, err := c.Entry(context.Background(), "kind", "key", func(_ context.Context, dir string) error {
			built = "built"
			return os.WriteFile(filepath.Join(dir, "one"), []byte("one"), 0o644)
		})
		fmt.Println(built)
		return err
	}
	return fmt.Errorf("unknown role %s", role)
}

// process is a started role.
type process struct {
	cmd   *exec.Cmd
	in    *os.File
	lines *bufio.Reader
}

func start(t *testing.T, role, root string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, rootVariable+"="+root)
	cmd.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()                       //nolint:errcheck // the child has it
	t.Cleanup(func() { w.Close() }) //nolint:errcheck // ends a child that still waits
	return &process{cmd, w, bufio.NewReader(out)}
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestKilledBuilderIsNotUsed(t *testing.T) {
	c, b := newCache(t), &counter{}
	p := start(t, "half", c.Root)
	if got := p.line(t); got != "half" {
		t.Fatalf("builder said %q", got)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Wait() //nolint:errcheck // killed
	if len(leftovers(t, c)) != 1 {
		t.Fatalf("the killed builder left %v, want its temporary folder", leftovers(t, c))
	}
	if _, ok := c.Lookup("kind", "key"); ok {
		t.Error("half an entry was handed out")
	}
	dir, err := c.Entry(t.Context(), "kind", "key", b.build)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "one")); string(text) != "one" || err != nil || b.calls.Load() != 1 {
		t.Errorf("after the kill: %q, %v, %d builds", text, err, b.calls.Load())
	}
	if found := leftovers(t, c); len(found) > 0 {
		t.Errorf("left %v", found)
	}
}

func TestProcessesBuildOnce(t *testing.T) {
	c := newCache(t)
	var all []*process
	for range 3 {
		p := start(t, "once", c.Root)
		p.line(t) // ready
		all = append(all, p)
	}
	for _, p := range all {
		if _, err := p.in.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
	}
	count := map[string]int{}
	for _, p := range all {
		count[p.line(t)]++
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if count["built"] != 1 || count["found"] != len(all)-1 {
		t.Errorf("processes said %v", count)
	}
}
