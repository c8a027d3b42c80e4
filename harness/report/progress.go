package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"
)

// redrawEvery bounds how often the progress line is drawn.
const redrawEvery = 125 * time.Millisecond

// eraseLine goes to the first column and clears the line (ECMA-48: CR, EL 2).
const eraseLine = "\r\x1b[2K"

// Progress shows the stage of a run on one line of a terminal, redrawn in place
// and gone without a trace after Done. In a pipe it shows nothing at all. Its
// methods may be called from any goroutine. Errors of the writer are ignored:
// a run does not fail because nobody watches it.
type Progress struct {
	terminal bool
	quit     chan struct{}
	once     sync.Once
	ended    chan struct{} // closed when the drawing goroutine has returned

	mu    sync.Mutex // guards what follows, and every use of w
	w     io.Writer
	stage string
	total int
	done  int
	since time.Time // begin of the stage
	drawn string    // what the line shows now; "" where it is blank
}

// NewProgress returns a Progress that draws on w if w is a terminal, about which
// it believes the caller. Done must be called: it ends the drawing.
func NewProgress(w io.Writer, isTerminal bool) *Progress {
	p := &Progress{terminal: isTerminal, w: w, quit: make(chan struct{}), ended: make(chan struct{})}
	if !isTerminal {
		close(p.ended)
		return p
	}
	go p.loop()
	return p
}

// Stage begins a stage: what is being done, such as "fsync: running", and how
// many steps it has, or 0 where that is not known.
func (p *Progress) Stage(what string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage, p.total, p.done, p.since = Clean(what), max(total, 0), 0, time.Now()
}

// Set says how many steps of the stage are done.
func (p *Progress) Set(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = max(n, 0)
}

// Write passes whole lines on to the writer, with the progress line out of the
// way: log through it while a Progress is on the same terminal.
func (p *Progress) Write(lines []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	return p.w.Write(lines)
}

// Done clears the line and ends the drawing. After it nothing is drawn any
// more. It may be called more than once.
func (p *Progress) Done() {
	p.once.Do(func() { close(p.quit) })
	<-p.ended
}

// loop draws until Done.
func (p *Progress) loop() {
	defer close(p.ended)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			p.mu.Lock()
			p.erase()
			p.mu.Unlock()
			return
		case <-tick.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// erase blanks the line. The caller holds mu.
func (p *Progress) erase() {
	if p.drawn != "" {
		_, _ = io.WriteString(p.w, eraseLine)
		p.drawn = ""
	}
}

// draw shows the line, in one write, if it says anything new. The caller holds mu.
func (p *Progress) draw() {
	if p.stage == "" {
		return
	}
	// A line as wide as the terminal would wrap and could not be erased.
	line := text.Trim(p.status(time.Since(p.since)), columnsOf(p.w)-1)
	if line == p.drawn {
		return
	}
	_, _ = io.WriteString(p.w, eraseLine+line)
	p.drawn = line
}

// status is what the line says after a stage has taken elapsed.
func (p *Progress) status(elapsed time.Duration) string {
	if p.total == 0 {
		return fmt.Sprintf("%s  %s", p.stage, whole(elapsed))
	}
	done := min(p.done, p.total)
	s := fmt.Sprintf("%s  %s %d/%d", p.stage, bar(done, p.total), done, p.total)
	if done == 0 || elapsed <= 0 {
		return s
	}
	left := time.Duration(float64(elapsed) / float64(done) * float64(p.total-done))
	return fmt.Sprintf("%s  %s/s  %s left", s, rate(float64(done)/elapsed.Seconds()), whole(left))
}

// bar draws how much of total is done in cells, of which one is full only when
// all of it is done.
func bar(done, total int) string {
	const cells = 24
	full := int(int64(done) * cells / int64(total))
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// whole writes a duration in whole seconds.
func whole(d time.Duration) string { return d.Round(time.Second).String() }

// columnsOf asks a terminal for its width; where there is no answer it is 80.
func columnsOf(w io.Writer) int {
	const usual = 80
	f, ok := w.(*os.File)
	if !ok {
		return usual
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return usual
	}
	return int(size.Col)
}
