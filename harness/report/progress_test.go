package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"
)

// screen is a terminal of one colour: it keeps the lines that are finished and
// the one that the cursor is in, and counts what was written to it.
type screen struct {
	mu       sync.Mutex // guards what follows
	finished []string
	current  string
	writes   int
	widest   int
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	for i, part := range strings.Split(string(b), eraseLine) {
		if i > 0 {
			s.current = ""
		}
		lines := strings.Split(s.current+part, "\n")
		s.finished = append(s.finished, lines[:len(lines)-1]...)
		s.current = lines[len(lines)-1]
		s.widest = max(s.widest, text.StringWidth(s.current))
	}
	return len(b), nil
}

func (s *screen) line() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// pass lets the clock of the bubble run and the drawing settle.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's clock, not the machine's
	synctest.Wait()
}

func TestProgressShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := NewProgress(s, true)
		pass(time.Second)
		if s.line() != "" || s.writes != 0 {
			t.Errorf("%q before the first stage", s.line())
		}
		p.Stage("booting", 0)
		pass(2 * time.Second)
		if want := "booting  2s"; s.line() != want {
			t.Errorf("%q, want %q", s.line(), want)
		}
		p.Stage("fsync: running", 200)
		pass(time.Second)
		if want := "fsync: running  ░░░░░░░░░░░░░░░░░░░░░░░░ 0/200"; s.line() != want {
			t.Errorf("%q, want %q", s.line(), want)
		}
		p.Set(50)
		pass(time.Second)
		if want := "fsync: running  ██████░░░░░░░░░░░░░░░░░░ 50/200  25/s  6s left"; s.line() != want {
			t.Errorf("%q, want %q", s.line(), want)
		}
		p.Set(1000)
		pass(time.Second)
		if want := "fsync: running  ████████████████████████ 200/200  67/s  0s left"; s.line() != want {
			t.Errorf("%q, want %q", s.line(), want)
		}
		p.Done()
		p.Done()
		if s.line() != "" || len(s.finished) != 0 {
			t.Errorf("%q and %q stay behind", s.finished, s.line())
		}
		p.Stage("late", 3)
		p.Set(1)
		pass(time.Second)
		if s.line() != "" {
			t.Errorf("%q after Done", s.line())
		}
	})
}

// TestProgressBounded: however often Set is called, it is drawn at a fixed rate.
func TestProgressBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := NewProgress(s, true)
		p.Stage("running", 10_000)
		var workers sync.WaitGroup
		for w := range 4 {
			workers.Go(func() {
				for n := w; n < 10_000; n += 4 {
					p.Set(n)
					time.Sleep(time.Millisecond) // the bubble's clock
				}
			})
		}
		workers.Wait()
		p.Done()
		if most := int(2500*time.Millisecond/redrawEvery) + 1; s.writes > most || s.writes < most/2 {
			t.Errorf("%d writes in 2.5 s, want at most %d", s.writes, most)
		}
	})
}

func TestProgressNarrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := NewProgress(s, true)
		p.Stage(strings.Repeat("a long name 漢字 ", 20), 100)
		pass(time.Second)
		p.Done()
		if s.widest > 79 || s.widest < 70 {
			t.Errorf("%d columns on a terminal of 80", s.widest)
		}
	})
}

// TestProgressLog: lines that are written through it stay whole.
func TestProgressLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		p := NewProgress(s, true)
		p.Stage("booting", 0)
		for i := range 3 {
			pass(time.Second)
			fmt.Fprintf(p, "line %d\n", i)
		}
		pass(time.Second)
		p.Done()
		if got := strings.Join(s.finished, ","); got != "line 0,line 1,line 2" || s.line() != "" {
			t.Errorf("%q, then %q", got, s.line())
		}
	})
}

func TestProgressPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		p := NewProgress(&b, false)
		p.Stage("booting", 10)
		p.Set(3)
		pass(time.Minute)
		if _, err := io.WriteString(p, "a line\n"); err != nil {
			t.Error(err)
		}
		p.Done()
		if b.String() != "a line\n" {
			t.Errorf("%q in a pipe", b.String())
		}
	})
}

func TestProgressBrokenWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewProgress(brokenWriter{}, true)
		p.Stage("booting", 10)
		pass(time.Second)
		p.Done()
	})
}

// TestColumnsOf asks a real terminal: the master of a pseudo-terminal.
func TestColumnsOf(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	defer f.Close()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 37}); err != nil {
		t.Fatal(err)
	}
	if got := columnsOf(f); got != 37 {
		t.Errorf("%d columns, want 37", got)
	}
	if got := columnsOf(&strings.Builder{}); got != 80 {
		t.Errorf("%d columns of something else, want 80", got)
	}
}
